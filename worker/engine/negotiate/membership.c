/*
 * Ranks that leave the job, and ranks that are lost. Runs in the progress owner.
 *
 * In an orderly end, a rank announces up the tree, after its last request, that it leaves. After
 * the last plan it waits until it and its subtree have finished, and reports that up as a second
 * LEAVE. So any rank that is lost earlier still has a parent that notices.
 *
 * An immediate end does not use the tree. A rank that fails, or that detects the loss of a
 * neighbour in the tree, reports that to rank 0. Rank 0 announces it to each rank directly, and
 * stays until no rank needs it. If rank 0 itself is lost, a rank that detects this informs rank 0's
 * children, and the announcement goes down the tree.
 */
#include "worker/engine/negotiate/membership.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rank_state.h"
#include "worker/engine/negotiate/beats.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/job_end.h"

/* Appends text such as "rank 1 on host a". */
static void add_rank(const struct hvd_engine *e, int rank, struct hvd_text *text)
{
    const char *host = e->transport->ops->host(e->transport, rank);

    hvd_text_add(text, "rank %d%s%.64s", rank, host ? " on host " : "", host ? host : "");
}

void hvd_membership_add_ranks(const struct hvd_engine *e, const int *ranks, int n,
                              struct hvd_text *text)
{
    const int n_named = n > HVD_RANKS_NAMED ? HVD_RANKS_NAMED : n;

    for (int i = 0; i < n_named; i++) {
        if (i > 0)
            hvd_text_add(text, i + 1 == n ? " and " : ", ");
        add_rank(e, ranks[i], text);
    }
    if (n > n_named)
        hvd_text_add(text, " and %d more", n - n_named);
}

/* Writes the report of a lost rank. */
static void write_loss(const struct hvd_engine *e, int rank, const char *why,
                       char out[HVD_TEXT_MAX])
{
    struct hvd_text text = hvd_text_in(out, HVD_TEXT_MAX);

    add_rank(e, rank, &text);
    out[0] = 'R';
    hvd_text_add(&text, " is lost: %s", why);
}

static void note_report(struct hvd_engine *e, const char *text)
{
    if (e->own.reported_ns > 0)
        return;
    e->own.reported_ns = e->own.now_ns;
    snprintf(e->own.reported, sizeof(e->own.reported), "%s", text);
}

/* Reports a rank to rank 0. Rank 0 then ends the job, or is given up itself. */
static void report_to_rank_0(struct hvd_engine *e, int rank, const char *text)
{
    hvd_job_end_announce(e, rank, text);
    note_report(e, text);
}

/* Reports the loss of a rank from one that is not the coordinator. Rank 0 then ends the
 * job, also here. The loss of rank 0 itself ends it now, with HVD_ERR_GONE: see
 * hvd_job_end_fail. */
static hvd_status_t note_loss(struct hvd_engine *e, int rank, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX];

    write_loss(e, rank, err->msg, text);
    hvd_err_clear(err);
    if (rank == 0)
        return HVD_FAIL(err, HVD_ERR_GONE, 0, "%s", text);
    report_to_rank_0(e, rank, text);
    return HVD_OK;
}

/* A lost parent is no failure of this rank. */
hvd_status_t hvd_membership_send_up(struct hvd_engine *e, const struct hvd_set *set,
                                    const void *data, size_t len, struct hvd_err *err)
{
    const int parent = hvd_membership_rank_at(set, set->node.parent);

    const hvd_status_t st = hvd_control_send(e, parent, data, len, err);
    if (st != HVD_ERR_UNAVAILABLE)
        return st;
    return note_loss(e, parent, err);
}

/* Announces to the parent in the tree of the job that ranks leave. */
static hvd_status_t send_leave(struct hvd_engine *e, struct hvd_pos_range who, const char *text,
                               struct hvd_err *err)
{
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_LEAVE, 0);
    if (st == HVD_OK)
        st = hvd_message_add_leave(&buf, who, HVD_LEAVE_CALLED, text);
    if (st == HVD_OK)
        st = hvd_membership_send_up(e, e->sets[0], buf.data, buf.len, err);
    else
        st = HVD_FAIL(err, st, 0, "leaving: %s", hvd_status_str(st));
    hvd_buf_fini(&buf);
    return st;
}

/* Records that this rank waits for the others to leave from now on. */
static void note_leave(struct hvd_engine *e)
{
    if (e->own.left_ns == 0)
        e->own.left_ns = e->own.now_ns;
}

/* Writes which rank called shutdown, with its host if that is known. */
static void write_left(const struct hvd_engine *e, int rank, char text[HVD_TEXT_MAX + 1])
{
    const char *host = e->transport->ops->host(e->transport, rank);

    snprintf(text, HVD_TEXT_MAX + 1, "Rank %d%s%s called horovod_shutdown.", rank,
             host ? " on host " : "", host ? host : "");
}

hvd_status_t hvd_membership_send_leave(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    const struct hvd_pos_range self = {.first = e->sets[0]->node.range.first, .n = 1};
    char text[HVD_TEXT_MAX + 1];

    if (!atomic_load(&e->is_leaving) || e->own.is_leave_sent || e->own.is_aborted)
        return HVD_OK;
    e->own.is_leave_sent = true;
    note_leave(e);
    *progressed = true;
    /* This rank's program has raised an error after a stall, so the job fails in any case. Do
     * not let the others wait for ranks that do not leave. */
    if (e->locked.stalled_ns > 0 && hvd_rank_state_raised() == getpid()) {
        hvd_job_end_abandon_stalled(e);
        return HVD_OK;
    }
    write_left(e, e->topology.rank, text);
    if (e->sets[0]->own.negotiator)
        return hvd_negotiator_leave(e->sets[0]->own.negotiator, self, false, text, err);
    if (e->sets[0]->own.aggregator)
        return hvd_aggregator_leave(e->sets[0]->own.aggregator, self, false, text, err);
    return send_leave(e, self, text, err);
}

hvd_status_t hvd_membership_send_done(struct hvd_engine *e, struct hvd_err *err)
{
    const struct hvd_node *node = &e->sets[0]->node;
    hvd_status_t st = HVD_OK;

    if (e->own.n_done < node->n_children)
        return HVD_OK;
    if (node->parent >= 0)
        st = send_leave(e, node->range, "", err);
    e->own.is_done = st == HVD_OK;
    return st;
}

/* Copies the cause and adds the host of a lost rank: rank 0 may have it when the reporter has
 * not. */
static void name_host(int rank, const char *host, struct hvd_strview cause,
                      char text[HVD_TEXT_MAX + 1])
{
    char known[32];
    const int len = snprintf(known, sizeof(known), "Rank %d is lost", rank);

    if (host && cause.len > (size_t)len && memcmp(cause.data, known, (size_t)len) == 0)
        snprintf(text, HVD_TEXT_MAX + 1, "Rank %d on host %s is lost%.*s", rank, host,
                 (int)cause.len - len, cause.data + len);
    else
        snprintf(text, HVD_TEXT_MAX + 1, "%.*s", (int)cause.len, cause.data);
}

/* Writes why the job ends: the text of a failed rank, or the rank that called shutdown. */
static void write_cause(const struct hvd_engine *e, struct hvd_pos_range who, bool failed,
                        struct hvd_strview cause, char text[HVD_TEXT_MAX + 1])
{
    const int rank = hvd_membership_rank_at(e->sets[0], who.first);
    const char *host = e->transport->ops->host(e->transport, rank);

    if (failed)
        name_host(rank, host, cause, text);
    else if (!host)
        snprintf(text, HVD_TEXT_MAX + 1, "%.*s", (int)cause.len, cause.data);
    else
        write_left(e, rank, text);
}

/* Counts a child that reports the end of its whole subtree. */
static hvd_status_t count_done(struct hvd_engine *e, struct hvd_pos_range who,
                               struct hvd_pos_range child, struct hvd_err *err)
{
    if (who.n != child.n || e->own.n_done == e->sets[0]->node.n_children)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "ranks left that had left");
    e->own.n_done++;
    hvd_beats_left(e, hvd_tree_node_branch(&e->sets[0]->node, child.first));
    return HVD_OK;
}

/* Ends the job because the coordinator of a process set reports a stall. */
static hvd_status_t read_stall(const struct hvd_set *world, struct hvd_strview cause,
                               struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];

    if (!world->own.negotiator)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a stall that is rank 0's to end the job for");
    snprintf(text, sizeof(text), "%.*s", (int)cause.len, cause.data);
    return hvd_negotiator_close(world->own.negotiator, text, err);
}

hvd_status_t hvd_membership_read_leave(struct hvd_engine *e, int branch, struct hvd_reader *reader,
                                       struct hvd_err *err)
{
    struct hvd_set *set = e->sets[0];
    char text[HVD_TEXT_MAX + 1];
    struct hvd_strview cause = {0};
    struct hvd_pos_range who;
    enum hvd_leave_why why = HVD_LEAVE_CALLED;
    hvd_status_t st = hvd_message_read_leave(reader, &who, &why, &cause, err);

    if (st != HVD_OK)
        return st;
    const bool failed = why == HVD_LEAVE_FAILED;
    if (why == HVD_LEAVE_STALLED)
        return read_stall(set, cause, err);
    const struct hvd_pos_range range =
        failed ? set->node.range : hvd_tree_node_branch_range(&set->node, branch);
    if (who.first < range.first || who.first + who.n > range.first + range.n)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "ranks left that are elsewhere");
    if (e->own.is_down && !failed) /* all have left, so this is the end of a subtree */
        return count_done(e, who, range, err);
    note_leave(e);
    write_cause(e, who, failed, cause, text);
    return set->own.negotiator ? hvd_negotiator_leave(set->own.negotiator, who, failed, text, err)
                               : hvd_aggregator_leave(set->own.aggregator, who, failed, text, err);
}

/* Ends the job on the coordinator because of a lost rank. */
static hvd_status_t end_for_loss(struct hvd_engine *e, int rank, struct hvd_err *err)
{
    struct hvd_set *world = e->sets[0];
    const struct hvd_pos_range who = {.first = world->tree.position_of[rank], .n = 1};
    char text[HVD_TEXT_MAX];

    write_loss(e, rank, err->msg, text);
    hvd_err_clear(err);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", text);
    hvd_telemetry_lost(e->options.telemetry, rank, text);
    return hvd_negotiator_leave(world->own.negotiator, who, true, text, err);
}

hvd_status_t hvd_membership_lose(struct hvd_engine *e, int rank, struct hvd_err *err)
{
    if (rank == e->topology.rank) /* the others continue without it, and it receives nothing more */
        return HVD_WRAP(err, HVD_ERR_UNAVAILABLE, "this rank is cut off from the others");
    if (e->sets[0]->own.negotiator)
        return end_for_loss(e, rank, err);
    return note_loss(e, rank, err);
}

hvd_status_t hvd_membership_end_for_stall(struct hvd_engine *e, const char *text,
                                          struct hvd_err *err)
{
    struct hvd_set *world = e->sets[0];

    if (world->own.negotiator)
        return hvd_negotiator_close(world->own.negotiator, text, err);
    if (hvd_job_end_report(e, e->topology.rank, HVD_LEAVE_STALLED, text) == HVD_OK) {
        e->own.is_stall_reported = true;
        note_report(e, text);
    } else {
        hvd_job_end_of_all(e, text);
    }
    return HVD_OK;
}

hvd_status_t hvd_membership_end_for_rank(struct hvd_engine *e, int rank, const char *text,
                                         struct hvd_err *err)
{
    struct hvd_set *world = e->sets[0];
    const struct hvd_pos_range who = {.first = world->tree.position_of[rank], .n = 1};

    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", text);
    if (world->own.negotiator)
        return hvd_negotiator_leave(world->own.negotiator, who, true, text, err);
    report_to_rank_0(e, rank, text);
    return HVD_OK;
}

hvd_status_t hvd_membership_give_up(struct hvd_engine *e, int rank, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX];

    if (e->sets[0]->own.negotiator)
        return end_for_loss(e, rank, err);
    write_loss(e, rank, err->msg, text);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", text);
    return note_loss(e, rank, err);
}
