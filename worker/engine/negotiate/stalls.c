/*
 * Tensors that wait too long. Logs them with the ranks that they lack, and ends the job if that was
 * requested. Runs in the progress owner.
 *
 * The end is an orderly one if all ranks answer: every rank can call horovod_shutdown, and the job
 * succeeds if its programs do. A rank that does not answer cannot leave, so the others do not wait
 * for it. One that answers but does not call horovod_shutdown gets time until it evidently stands
 * still.
 */
#include "worker/engine/negotiate/stalls.h"

#include <stdio.h>

#include "worker/engine/negotiate/beats.h"
#include "worker/engine/negotiate/job_end.h"
#include "worker/engine/negotiate/membership.h"
#include "worker/engine/state/end_cause.h"

#define STALL_CHECK_NS 1000000000
#define STALL_REPORT_MAX 2048

/* Limits of the time for ranks to leave a job that a stall has ended, which is else the shutdown
 * time. */
#define LEAVE_MIN_NS INT64_C(10000000000)
#define LEAVE_MAX_NS INT64_C(30000000000)
#define LEAVE_LATE_NS INT64_C(5000000000) /* more time for the rank that should name them */

/* Removes the full stop, because another sentence with its own follows. */
static void trim_full_stop(struct hvd_text *text)
{
    if (text->len > 0 && text->out[text->len - 1] == '.')
        text->out[--text->len] = '\0';
}

/* Ends the job when a tensor has waited too long. Every rank receives the tensor's name and the
 * missing ranks. */
static hvd_status_t end_stalled(struct hvd_engine *e, const struct hvd_set *set, int64_t now_ns,
                                struct hvd_err *err)
{
    int ranks[HVD_RANKS_NAMED];
    int n_ranks = HVD_RANKS_NAMED;
    char out[HVD_TEXT_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));
    const int64_t limit_ns = e->options.stall_shutdown_ns;
    const bool is_looked_for =
        limit_ns > 0 && e->locked.stalled_ns == 0 && !e->own.is_stall_reported;
    const char *name = is_looked_for ? hvd_negotiator_overdue(set->own.negotiator,
                                                              now_ns - limit_ns, ranks, &n_ranks)
                                     : NULL;

    if (!name)
        return HVD_OK;
    hvd_text_add(&text,
                 "Tensor %.300s is stalled for longer than %.3g seconds "
                 "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for ",
                 name, (double)limit_ns / 1e9);
    if (n_ranks > 0)
        hvd_membership_add_ranks(e, ranks, n_ranks, &text);
    else
        hvd_text_add(&text, "the other tensors of its group");
    const char *why = hvd_negotiator_empty_group(set->own.negotiator, name);
    if (why)
        hvd_text_add(&text, ": %.300s", why);
    trim_full_stop(&text);
    /* A rank without a background thread does not answer, though its program runs. */
    const bool is_orderly =
        e->topology.thread_bound || !hvd_beats_are_missed(e, set, now_ns - limit_ns);
    if (!is_orderly && n_ranks <= HVD_RANKS_NAMED) /* else some of them are only counted */
        hvd_beats_add_silent(e, set, ranks, n_ranks, &text);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s. Will shutdown.", out);
    if (is_orderly)
        return hvd_membership_end_for_stall(e, out, err);
    if (set->id == 0)
        return hvd_negotiator_leave(set->own.negotiator, (struct hvd_pos_range){.n = 1}, true, out,
                                    err);
    hvd_job_end_of_all(e, out);
    return HVD_OK;
}

static int64_t leave_limit_ns(const struct hvd_engine *e)
{
    const int64_t ns = e->options.stall_shutdown_ns;

    if (ns < LEAVE_MIN_NS)
        return LEAVE_MIN_NS;
    return ns < LEAVE_MAX_NS ? ns : LEAVE_MAX_NS;
}

static bool has_left(const struct hvd_set *world, int position)
{
    return world->own.negotiator ? hvd_negotiator_has_left(world->own.negotiator, position)
                                 : hvd_aggregator_has_left(world->own.aggregator, position);
}

static bool have_all_left(const struct hvd_set *world, struct hvd_pos_range range)
{
    for (int i = 0; i < range.n; i++)
        if (!has_left(world, range.first + i))
            return false;
    return true;
}

/*
 * Finds the ranks that have not left, among this rank and the leaves below it, from which it alone
 * receives. Writes the first of them and returns their number. Inner nodes check their own leaves.
 * is_late: also finds inner nodes that have not done so in time.
 */
static int find_staying(const struct hvd_set *world, bool is_late, int ranks[HVD_RANKS_NAMED])
{
    int n_ranks = 0;

    for (int branch = 0; branch <= world->node.n_children; branch++) {
        const struct hvd_pos_range range = hvd_tree_node_branch_range(&world->node, branch);
        if ((range.n > 1 && !is_late) || have_all_left(world, range))
            continue;
        if (n_ranks < HVD_RANKS_NAMED)
            ranks[n_ranks] = hvd_membership_rank_at(world, range.first);
        n_ranks++;
    }
    return n_ranks;
}

/* Ends the job for all other ranks when a rank has not left in time after a stall. */
static hvd_status_t end_leaving(struct hvd_engine *e, int64_t now_ns, struct hvd_err *err)
{
    const struct hvd_set *world = e->sets[0];
    const int64_t limit_ns = leave_limit_ns(e);
    const int64_t waited_ns = now_ns - e->locked.stalled_ns;
    int ranks[HVD_RANKS_NAMED];
    char cause[HVD_TEXT_MAX + 1];
    char out[HVD_TEXT_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));

    if (e->own.is_down || e->own.reported_ns > 0 || waited_ns < limit_ns)
        return HVD_OK;
    const bool is_late = world->own.negotiator && waited_ns >= limit_ns + LEAVE_LATE_NS;
    const int n_ranks = find_staying(world, is_late, ranks);
    if (n_ranks == 0)
        return HVD_OK;
    hvd_end_cause_first(e, cause);
    hvd_membership_add_ranks(e, ranks, n_ranks, &text);
    out[0] = 'R';
    hvd_text_add(
        &text, "%s did not call horovod_shutdown in the %.3g seconds since the job was to end: %s",
        is_late ? ", or a rank behind it," : "", (double)limit_ns / 1e9, cause);
    return hvd_membership_end_for_rank(e, ranks[0], out, err);
}

hvd_status_t hvd_stalls_check(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                              struct hvd_err *err)
{
    struct hvd_buf report;

    if (set->id == 0 && e->locked.stalled_ns > 0 && (set->own.negotiator || set->own.aggregator))
        return end_leaving(e, now_ns, err);
    if (set->own.aggregator) /* early enough for the coordinator to name the missing ranks */
        return hvd_aggregator_stalled(set->own.aggregator, now_ns, e->options.stall_warning_ns / 2,
                                      err);
    if (!set->own.negotiator)
        return HVD_OK;
    hvd_buf_init(&report, STALL_REPORT_MAX);
    hvd_status_t st =
        hvd_negotiator_stalled(set->own.negotiator, now_ns, e->options.stall_warning_ns, &report);
    if (report.len > 0) { /* a truncated report is useful too */
        hvd_log(e->options.log, HVD_LOG_WARN, "engine", "%s", report.data);
        hvd_telemetry_stalled(e->options.telemetry,
                              (int)hvd_negotiator_waiting(set->own.negotiator), report.data);
    }
    hvd_buf_fini(&report);
    if (st == HVD_ERR_NOMEM)
        return HVD_FAIL(err, st, 0, "out of memory for a stall report");
    return end_stalled(e, set, now_ns, err);
}

bool hvd_stalls_is_due(struct hvd_engine *e, int64_t now_ns)
{
    const int64_t limit_ns = e->options.stall_warning_ns;

    if (limit_ns == 0 || now_ns < e->own.next_stall_check_ns)
        return false;
    e->own.next_stall_check_ns =
        now_ns + (limit_ns / 8 < STALL_CHECK_NS ? limit_ns / 8 + 1 : STALL_CHECK_NS);
    return true;
}
