/*
 * Control messages between ranks, along the tree of a set. Requests, bits and leaves go up to its
 * root, the coordinator, and aggregators merge them on the way (core/aggregator.h). Plans come
 * down. A rank that receives for others counts its own requests in the same way, without a message.
 * Runs in the progress owner.
 *
 *                      coordinator                       negotiator: counts, plans
 *      requests, bits,  ^      |  plans
 *      partial, leaves  |      v
 *                     aggregator                          merges, and passes plans on as they are
 *                       ^      |                         before it follows them
 *                       |      v
 *                        leaf
 */
#include "worker/engine/negotiate/control.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/negotiate/beats.h"
#include "worker/engine/negotiate/job_end.h"
#include "worker/engine/negotiate/membership.h"
#include "worker/engine/negotiate/plan_apply.h"
#include "worker/engine/state/slot_trace.h"

#define RECEIVE_MAX 64 /* messages in one step */

hvd_status_t hvd_control_send(struct hvd_engine *e, int rank, const void *data, size_t len,
                              struct hvd_err *err)
{
    hvd_telemetry_sent(e->options.telemetry, len);
    return e->transport->ops->send(e->transport, rank, data, len, err);
}

/* For telemetry: reports that all ranks of a branch have requested cached tensors. */
static void trace_branch_ready(struct hvd_engine *e, struct hvd_set *set, int branch,
                               const struct hvd_reader *bits)
{
    const struct hvd_pos_range range = hvd_tree_node_branch_range(&set->node, branch);

    for (int i = 0; set->own.negotiator && i < range.n; i++)
        hvd_slot_trace_ready(e, set, hvd_membership_rank_at(set, range.first + i), bits);
}

static hvd_status_t count_bits(struct hvd_engine *e, struct hvd_set *set, int branch,
                               const struct hvd_reader *bits, int64_t now_ns, struct hvd_err *err)
{
    if (e->options.telemetry && hvd_telemetry_on(e->options.telemetry))
        trace_branch_ready(e, set, branch, bits);
    return set->own.negotiator
               ? hvd_negotiator_bits(set->own.negotiator, branch, bits, now_ns, err)
               : hvd_aggregator_bits(set->own.aggregator, branch, bits, now_ns, err);
}

static hvd_status_t count_request(struct hvd_set *set, const struct hvd_merged_request *merged,
                                  int64_t now_ns, struct hvd_err *err)
{
    return set->own.negotiator ? hvd_negotiator_request(set->own.negotiator, merged, now_ns, err)
                               : hvd_aggregator_request(set->own.aggregator, merged, now_ns, err);
}

hvd_status_t hvd_control_own_bits(struct hvd_engine *e, struct hvd_set *set, uint32_t n_words,
                                  int64_t now_ns, struct hvd_err *err)
{
    const struct hvd_reader bits = hvd_message_of_bits(set->own.bits, n_words, set->own.epoch);

    return count_bits(e, set, 0, &bits, now_ns, err);
}

/* Whether telemetry gets this request: not those of the library itself. */
static bool is_reported(const struct hvd_set *set, const struct hvd_merged_request *merged)
{
    return merged->refusal.len == 0 && (set->id == 0 || merged->request.op != HVD_JOIN);
}

hvd_status_t hvd_control_own_request(struct hvd_engine *e, struct hvd_set *set,
                                     const struct hvd_merged_request *merged, int64_t now_ns,
                                     struct hvd_err *err)
{
    if (set->own.negotiator && is_reported(set, merged))
        hvd_control_trace_ready(e, e->topology.rank, &merged->request);
    return count_request(set, merged, now_ns, err);
}

void hvd_control_trace_ready(const struct hvd_engine *e, int rank,
                             const struct hvd_request *request)
{
    if (!hvd_strview_equal(request->name, HVD_CHANGE_NAME))
        hvd_telemetry_ready(e->options.telemetry, rank, request, false);
}

/* Sends a plan to the children, in the order in which the tree expects it: largest subtrees
 * first. */
static hvd_status_t send_down(struct hvd_engine *e, const struct hvd_set *set, const void *data,
                              size_t len, struct hvd_err *err)
{
    for (int i = 0; i < set->node.n_children; i++) {
        const int rank = hvd_membership_rank_at(set, set->node.children[i].first);
        hvd_status_t st = hvd_control_send(e, rank, data, len, err);
        /* A lost rank is no failure here, because receive reports it with more detail. */
        if (st == HVD_ERR_UNAVAILABLE)
            hvd_err_clear(err);
        else if (st != HVD_OK)
            return st;
    }
    return HVD_OK;
}

/* Sends an aggregator's messages to its parent. */
static hvd_status_t send_up(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                            struct hvd_err *err)
{
    const struct hvd_buf *message = NULL;
    hvd_status_t st;

    while ((st = hvd_aggregator_next(set->own.aggregator, &message, err)) == HVD_OK && message) {
        *progressed = true;
        st = hvd_membership_send_up(e, set, message->data, message->len, err);
        if (st != HVD_OK)
            return st;
    }
    return st;
}

/* Reads the cause from a plan that ends the job. */
static hvd_status_t read_end(struct hvd_reader reader, char text[HVD_TEXT_MAX + 1],
                             struct hvd_err *err)
{
    struct hvd_step step = {.kind = HVD_STEP_ERROR};
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && step.kind != HVD_STEP_ABORT)
        st = hvd_message_read_step(&reader, &step, err);
    if (st == HVD_OK)
        snprintf(text, HVD_TEXT_MAX + 1, "%.*s", (int)step.text.len, step.text.data);
    return st;
}

/* Announces the cause to all ranks at once, because a rank has failed. */
static hvd_status_t publish_end(struct hvd_engine *e, const struct hvd_buf *plan,
                                struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];
    struct hvd_reader reader;
    hvd_status_t st = hvd_message_open(&reader, plan->data, plan->len, err);

    if (st == HVD_OK)
        st = read_end(reader, text, err);
    if (st == HVD_OK)
        hvd_job_end_announce(e, 0, text);
    return st;
}

/* Ends the creation of a set, because a plan ends the job. */
static hvd_status_t end_making(const struct hvd_reader *reader, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];
    const hvd_status_t st = read_end(*reader, text, err);

    return st == HVD_OK ? HVD_FAIL(err, HVD_ERR_GONE, 0, "%s", text) : st;
}

hvd_status_t hvd_control_recv_end(struct hvd_engine *e, struct hvd_err *err)
{
    struct hvd_negotiator *n = e->sets[0]->own.negotiator;
    const struct hvd_buf *plan = NULL;
    struct hvd_reader reader;

    if (!n || !hvd_negotiator_is_aborted(n))
        return HVD_OK;
    hvd_status_t st = hvd_negotiator_plan(n, &plan, err);
    if (st != HVD_OK || !plan)
        return st;
    st = hvd_message_open(&reader, plan->data, plan->len, err);
    return st == HVD_OK ? end_making(&reader, err) : st;
}

hvd_status_t hvd_control_publish_plan(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                      struct hvd_err *err)
{
    const struct hvd_buf *plan = NULL;
    struct hvd_reader reader;
    hvd_status_t st = HVD_OK;

    if (e->own.is_aborted)
        return HVD_OK;
    if (set->own.aggregator)
        return send_up(e, set, progressed, err);
    if (!set->own.negotiator)
        return HVD_OK;
    st = hvd_negotiator_plan(set->own.negotiator, &plan, err);
    if (st != HVD_OK || !plan)
        return st;
    *progressed = true;
    if (hvd_negotiator_is_aborted(set->own.negotiator))
        st = publish_end(e, plan, err);
    else
        st = send_down(e, set, plan->data, plan->len, err);
    if (st == HVD_OK)
        st = hvd_message_open(&reader, plan->data, plan->len, err);
    if (st == HVD_OK)
        st = hvd_plan_apply(e, set, reader, err);
    hvd_negotiator_plan_sent(set->own.negotiator);
    return st;
}

/* Reports to rank 0 that another rank has given it up. Rank 0's children do so, because their
 * connection to it may work where that rank's does not. */
static void pass_to_coordinator(struct hvd_engine *e, const struct hvd_reader *reader)
{
    char text[HVD_TEXT_MAX + 1];

    if (read_end(*reader, text, NULL) == HVD_OK)
        (void)hvd_job_end_report(e, 0, HVD_LEAVE_FAILED, text);
}

/* Passes a plan from the parent down and applies it. Does the same with an ABORT, which has
 * epoch 0, unless rank 0 sent it: rank 0 sends an ABORT to all ranks itself. */
static hvd_status_t read_plan(struct hvd_engine *e, struct hvd_set *set,
                              const struct hvd_inbound *in, const struct hvd_reader *reader,
                              struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (reader->epoch != 0 || in->from != 0)
        st = send_down(e, set, in->data, in->len, err);
    if (reader->epoch == 0 && in->from != 0 && set->id == 0 && set->node.parent == 0)
        pass_to_coordinator(e, reader);
    if (st == HVD_OK && set->own.aggregator)
        st = hvd_aggregator_plan(set->own.aggregator, *reader, err);
    return st == HVD_OK ? hvd_plan_apply(e, set, *reader, err) : st;
}

/* For telemetry: reports every rank of an item. */
static void trace_all_ready(const struct hvd_engine *e, const struct hvd_set *set,
                            const struct hvd_merged_request *merged)
{
    for (uint32_t i = 0; e->options.telemetry && i < merged->by.n; i++) {
        const struct hvd_pos_range range = hvd_message_ranges_at(&merged->by, i);
        for (int k = 0; k < range.n; k++)
            hvd_control_trace_ready(e, hvd_membership_rank_at(set, range.first + k),
                                    &merged->request);
    }
}

static hvd_status_t read_requests(struct hvd_engine *e, struct hvd_set *set, int branch,
                                  struct hvd_reader *reader, int64_t now_ns, struct hvd_err *err)
{
    const struct hvd_pos_range range = hvd_tree_node_branch_range(&set->node, branch);
    struct hvd_merged_request merged;
    hvd_status_t st = HVD_OK;
    bool progressed = false;

    while (st == HVD_OK && reader->left > 0) {
        st = hvd_message_read_request(reader, &merged, err);
        if (st == HVD_OK && !hvd_message_ranges_within(&merged.by, range))
            st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "a request of ranks that are elsewhere");
        if (st == HVD_OK && set->own.negotiator && is_reported(set, &merged))
            trace_all_ready(e, set, &merged);
        if (st == HVD_OK)
            st = count_request(set, &merged, now_ns, err);
    }
    if (st == HVD_OK && set->own.aggregator && hvd_aggregator_is_full(set->own.aggregator))
        st = send_up(e, set, &progressed, err);
    return st;
}

/* Handles partial requests by bit: the coordinator records them, other ranks pass them on. */
static hvd_status_t read_partial(struct hvd_engine *e, struct hvd_set *set,
                                 const struct hvd_inbound *in, struct hvd_reader *reader,
                                 int64_t now_ns, struct hvd_err *err)
{
    const int branch =
        hvd_tree_node_branch(&set->node, set->tree.position_of[hvd_set_rank_of(set, in->from)]);

    if (set->own.negotiator)
        return hvd_negotiator_partial(set->own.negotiator, branch, reader, now_ns, err);
    return hvd_membership_send_up(e, set, in->data, in->len, err);
}

/* Keeps a message about a set that a peer has created and this rank has not. Any message waits
 * while this rank creates a set. */
static hvd_status_t keep_early(struct hvd_engine *e, const struct hvd_inbound *in, uint32_t set,
                               struct hvd_err *err)
{
    struct hvd_early *early = hvd_malloc(1, sizeof(*early) + in->len);
    struct hvd_early **end = &e->own.early;

    if (!early)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message of rank %d", in->from);
    *early = (struct hvd_early){.from = in->from, .set = set, .len = in->len};
    memcpy(early->data, in->data, in->len);
    while (*end)
        end = &(*end)->next;
    *end = early;
    return HVD_OK;
}

/* Whether this rank accepts such a message from a rank of the set. Plans come from the parent.
 * An ABORT also comes from rank 0, or from a rank that has lost it. All else comes from children,
 * but any rank may report a failure to rank 0. */
static bool may_say(const struct hvd_set *set, int from, const struct hvd_reader *reader)
{
    const int position = from >= 0 ? set->tree.position_of[from] : -1;

    if (position < 0)
        return false;
    if (reader->type >= HVD_MESSAGE_PING)
        return position == set->node.parent || hvd_membership_is_child(set, position);
    if (reader->type == HVD_MESSAGE_PLAN)
        return !set->own.negotiator && (reader->epoch == 0 || position == set->node.parent);
    if ((!set->own.negotiator && !set->own.aggregator) ||
        (reader->type == HVD_MESSAGE_LEAVE && set->id != 0))
        return false;
    if (reader->type == HVD_MESSAGE_LEAVE && set->own.negotiator)
        return position > 0;
    return hvd_membership_is_child(set, position);
}

/* Whether a message must be read while a set is created: a probe, or the end of the job. */
static bool is_for_now(struct hvd_reader reader)
{
    struct hvd_strview text;
    struct hvd_pos_range who;
    enum hvd_leave_why why = HVD_LEAVE_CALLED;

    if (reader.type == HVD_MESSAGE_LEAVE)
        return hvd_message_read_leave(&reader, &who, &why, &text, NULL) == HVD_OK &&
               why == HVD_LEAVE_FAILED;
    return reader.type >= HVD_MESSAGE_PING ||
           (reader.type == HVD_MESSAGE_PLAN && reader.epoch == 0);
}

static hvd_status_t read_message(struct hvd_engine *e, const struct hvd_inbound *in, int64_t now_ns,
                                 struct hvd_err *err)
{
    struct hvd_reader reader;
    hvd_status_t st = hvd_message_open(&reader, in->data, in->len, err);

    if (st != HVD_OK)
        return HVD_WRAP(err, st, "from rank %d", in->from);
    struct hvd_set *set = hvd_set_find(e, reader.set);
    if (reader.set >= e->n_sets || (e->own.making && !is_for_now(reader)))
        return keep_early(e, in, reader.set, err);
    if (!set && e->locked.infos[reader.set].is_removed) /* sent before the set's end arrived */
        return HVD_OK;
    const int from = set ? hvd_set_rank_of(set, in->from) : -1;
    if (!set || !may_say(set, from, &reader))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "rank %d sent a message of type %d about process set %u to rank %d",
                        in->from, (int)reader.type, reader.set, e->topology.rank);
    const int branch = hvd_tree_node_branch(&set->node, set->tree.position_of[from]);
    hvd_beats_received(set, set->tree.position_of[from], now_ns);
    if (reader.type == HVD_MESSAGE_PLAN)
        return e->own.making ? end_making(&reader, err) : read_plan(e, set, in, &reader, err);
    if (reader.type == HVD_MESSAGE_BITS)
        st = count_bits(e, set, branch, &reader, now_ns, err);
    else if (reader.type == HVD_MESSAGE_PARTIAL)
        st = read_partial(e, set, in, &reader, now_ns, err);
    else if (reader.type >= HVD_MESSAGE_PING)
        st = hvd_beats_read(e, set, set->tree.position_of[from], &reader, err);
    else if (reader.type == HVD_MESSAGE_LEAVE)
        st = hvd_membership_read_leave(e, branch, &reader, err);
    else
        st = read_requests(e, set, branch, &reader, now_ns, err);
    return st == HVD_OK ? st : HVD_WRAP(err, st, "from rank %d", in->from);
}

bool hvd_control_serves_others(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i] && e->sets[i]->node.n_children > 0)
            return true;
    return false;
}

/* Returns the memory of a message. */
static void drop_message(struct hvd_engine *e, struct hvd_inbound *in)
{
    if (e->transport->ops->recycle)
        e->transport->ops->recycle(e->transport, in);
    else
        hvd_free(in->data);
}

hvd_status_t hvd_control_recv(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                              struct hvd_err *err)
{
    struct hvd_inbound in;

    for (int i = 0; i < RECEIVE_MAX && !e->own.is_aborted; i++) {
        hvd_status_t st = e->transport->ops->receive(e->transport, &in, err);
        if (st == HVD_INPROGRESS)
            return HVD_OK;
        *progressed = true;
        if (st == HVD_OK) {
            hvd_telemetry_received(e->options.telemetry, in.len);
            st = read_message(e, &in, now_ns, err);
            drop_message(e, &in);
            if (st == HVD_OK && e->own.early &&
                !e->own.making) /* kept while a set was created just now */
                st = hvd_control_recv_early(e, now_ns, progressed, err);
        } else if (st == HVD_ERR_GONE) {
            st = hvd_membership_lose(e, in.from, err);
        }
        if (st != HVD_OK)
            return st;
    }
    return HVD_OK;
}

hvd_status_t hvd_control_recv_early(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                    struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (struct hvd_early **at = &e->own.early; *at && st == HVD_OK;) {
        struct hvd_early *early = *at;
        if (early->set >= e->n_sets) {
            at = &early->next;
            continue;
        }
        const struct hvd_inbound in = {.from = early->from, .data = early->data, .len = early->len};
        *at = early->next;
        *progressed = true;
        st = read_message(e, &in, now_ns, err);
        hvd_free(early);
    }
    return st;
}
