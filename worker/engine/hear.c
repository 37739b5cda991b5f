/*
 * Messages between ranks: requests, bits and leaves to the coordinator of a set, its plans to all.
 * What the coordinator itself asks for takes the same way without a message. The driver's.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"

#define RECEIVE_MAX 64 /* messages in a step */

hvd_status_t hvd_send(struct hvd_engine *e, int rank, const struct hvd_buf *message,
                      struct hvd_err *err)
{
    hvd_watch_sent(e->options.watch, message->len);
    return e->transport->ops->send(e->transport, rank, message->data, message->len, err);
}

hvd_status_t hvd_hear_own(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                          struct hvd_err *err)
{
    struct hvd_reader reader;
    hvd_status_t st;

    if (set->message.len == 0)
        return HVD_OK;
    if (!set->negotiator) {
        st = hvd_send(e, set->ranks[set->tree.rank_at[set->node.parent]], &set->message, err);
    } else { /* only bits come this way */
        st = hvd_reader_init(&reader, set->message.data, set->message.len, err);
        if (st == HVD_OK)
            st = hvd_negotiator_bits(set->negotiator, 0, &reader, now_ns, err);
    }
    hvd_buf_reset(&set->message);
    return st;
}

hvd_status_t hvd_hear_own_request(struct hvd_engine *e, struct hvd_set *set,
                                  const struct hvd_request *request, int64_t now_ns,
                                  struct hvd_err *err)
{
    const struct hvd_ask ask = hvd_ask_of(request, set->node.span.first);

    hvd_tell_ready(e, e->topology.rank, request);
    return hvd_negotiator_request(set->negotiator, &ask, now_ns, err);
}

void hvd_tell_ready(const struct hvd_engine *e, int rank, const struct hvd_request *request)
{
    if (!hvd_strview_equal(request->name, HVD_CHANGE_NAME))
        hvd_watch_ready(e->options.watch, rank, request);
}

hvd_status_t hvd_hear_leave(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    const struct hvd_span self = {.first = e->sets[0]->node.span.first, .n = 1};
    char text[HVD_TEXT_MAX];
    struct hvd_buf buf;

    pthread_mutex_lock(&e->mu);
    bool is_leaving = e->is_leaving;
    pthread_mutex_unlock(&e->mu);
    if (!is_leaving || e->is_leave_sent || e->is_aborted)
        return HVD_OK;
    e->is_leave_sent = true;
    *progressed = true;
    snprintf(text, sizeof(text), "Rank %d called horovod_shutdown.", e->topology.rank);
    if (e->sets[0]->negotiator)
        return hvd_negotiator_leave(e->sets[0]->negotiator, self, false, text, err);
    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_LEAVE, 0);
    if (st == HVD_OK)
        st = hvd_message_add_leave(&buf, self, false, text);
    if (st == HVD_OK)
        st = hvd_send(e, 0, &buf, err);
    else
        st = HVD_FAIL(err, st, 0, "leaving: %s", hvd_status_str(st));
    hvd_buf_fini(&buf);
    return st;
}

hvd_status_t hvd_publish_plan(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                              struct hvd_err *err)
{
    const struct hvd_buf *plan = NULL;
    hvd_status_t st = HVD_OK;

    if (!set->negotiator || e->is_aborted)
        return HVD_OK;
    st = hvd_negotiator_plan(set->negotiator, &plan, err);
    if (st != HVD_OK || !plan)
        return st;
    *progressed = true;
    for (int rank = 1; rank < set->place.size; rank++) {
        hvd_status_t sent = hvd_send(e, set->ranks[rank], plan, err);
        /* A lost rank is reported by receive, which says more. */
        if (sent == HVD_ERR_UNAVAILABLE)
            hvd_err_clear(err);
        else if (sent != HVD_OK)
            return sent;
    }
    st = hvd_apply_plan(e, set, plan->data, plan->len, err);
    hvd_negotiator_plan_sent(set->negotiator);
    return st;
}

static hvd_status_t read_requests(struct hvd_engine *e, struct hvd_set *set, int from,
                                  struct hvd_reader *reader, int64_t now_ns, struct hvd_err *err)
{
    struct hvd_ask ask;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && reader->left > 0) {
        st = hvd_reader_request(reader, &ask, err);
        if (st == HVD_OK) {
            hvd_tell_ready(e, set->ranks[from], &ask.request);
            st = hvd_negotiator_request(set->negotiator, &ask, now_ns, err);
        }
    }
    return st;
}

static hvd_status_t read_leave(struct hvd_engine *e, int from, struct hvd_reader *reader,
                               struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];
    struct hvd_strview cause = {0};
    struct hvd_span who;
    bool failed = false;
    const char *host = e->transport->ops->host(e->transport, from);
    hvd_status_t st = hvd_reader_leave(reader, &who, &failed, &cause, err);

    if (st != HVD_OK)
        return st;
    if (failed || !host)
        snprintf(text, sizeof(text), "%.*s", (int)cause.len, cause.data);
    else
        snprintf(text, sizeof(text), "Rank %d on host %s called horovod_shutdown.", from, host);
    return hvd_negotiator_leave(e->sets[0]->negotiator, who, failed, text, err);
}

/* A peer has made a set that this rank is about to make: what it says has to wait. */
static hvd_status_t keep_early(struct hvd_engine *e, const struct hvd_inbound *in, uint32_t set,
                               struct hvd_err *err)
{
    struct hvd_early *early = hvd_malloc(1, sizeof(*early) + in->len);
    struct hvd_early **end = &e->early;

    if (!early)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a message of rank %d", in->from);
    *early = (struct hvd_early){.from = in->from, .set = set, .len = in->len};
    memcpy(early->data, in->data, in->len);
    while (*end)
        end = &(*end)->next;
    *end = early;
    return HVD_OK;
}

static hvd_status_t read_message(struct hvd_engine *e, const struct hvd_inbound *in, int64_t now_ns,
                                 struct hvd_err *err)
{
    struct hvd_reader reader;
    hvd_status_t st = hvd_reader_init(&reader, in->data, in->len, err);

    if (st != HVD_OK)
        return HVD_WRAP(err, st, "from rank %d", in->from);
    struct hvd_set *set = hvd_set_find(e, reader.set);
    if (reader.set >= e->n_sets)
        return keep_early(e, in, reader.set, err);
    const int from = set ? hvd_set_rank_of(set, in->from) : -1;
    if (from == 0 && reader.type == HVD_MESSAGE_PLAN && !set->negotiator)
        return hvd_apply_plan(e, set, in->data, in->len, err);
    if (from < 0 || reader.type == HVD_MESSAGE_PLAN || !set->negotiator ||
        (reader.type == HVD_MESSAGE_LEAVE && set->id != 0))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "rank %d sent a message of type %d about process set %u to rank %d",
                        in->from, (int)reader.type, reader.set, e->topology.rank);
    if (reader.type == HVD_MESSAGE_BITS)
        st = hvd_negotiator_bits(set->negotiator,
                                 hvd_node_party(&set->node, set->tree.position_of[from]), &reader,
                                 now_ns, err);
    else if (reader.type == HVD_MESSAGE_LEAVE)
        st = read_leave(e, in->from, &reader, err);
    else
        st = read_requests(e, set, from, &reader, now_ns, err);
    return st == HVD_OK ? st : HVD_WRAP(err, st, "from rank %d", in->from);
}

/* A rank is gone for good. The coordinator ends the job; others hear of it from the coordinator. */
static hvd_status_t lose_rank(struct hvd_engine *e, int rank, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX];
    const char *host = e->transport->ops->host(e->transport, rank);

    if (!e->sets[0]->negotiator) {
        if (rank == 0)
            return HVD_WRAP(err, HVD_ERR_UNAVAILABLE, "the coordinator, rank 0, is lost");
        hvd_err_clear(err);
        return HVD_OK;
    }
    snprintf(text, sizeof(text), "Rank %d%s%.64s is lost: %.500s", rank, host ? " on host " : "",
             host ? host : "", err->msg);
    hvd_err_clear(err);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", text);
    hvd_watch_lost(e->options.watch, rank, text);
    return hvd_negotiator_leave(
        e->sets[0]->negotiator,
        (struct hvd_span){.first = e->sets[0]->tree.position_of[rank], .n = 1}, true, text, err);
}

/* Gives the memory of a message back. */
static void drop_message(struct hvd_engine *e, struct hvd_inbound *in)
{
    if (e->transport->ops->recycle)
        e->transport->ops->recycle(e->transport, in);
    else
        hvd_free(in->data);
}

hvd_status_t hvd_hear(struct hvd_engine *e, int64_t now_ns, bool *progressed, struct hvd_err *err)
{
    struct hvd_inbound in;

    for (int i = 0; i < RECEIVE_MAX && !e->is_aborted; i++) {
        hvd_status_t st = e->transport->ops->receive(e->transport, &in, err);
        if (st == HVD_INPROGRESS)
            return HVD_OK;
        *progressed = true;
        if (st == HVD_OK) {
            hvd_watch_received(e->options.watch, in.len);
            st = read_message(e, &in, now_ns, err);
            drop_message(e, &in);
        } else if (st == HVD_ERR_GONE) {
            st = lose_rank(e, in.from, err);
        }
        if (st != HVD_OK)
            return st;
    }
    return HVD_OK;
}

hvd_status_t hvd_hear_early(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                            struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (struct hvd_early **at = &e->early; *at && st == HVD_OK;) {
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
