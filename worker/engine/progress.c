/*
 * The step function: everything one rank does to get its tensors reduced, a bit at a time, without
 * ever blocking. One thread at a time runs it (see drive.c); it takes mu only to fetch what was
 * submitted and to publish what is done.
 *
 *   queue ─> bits, requests ─> coordinator ─> plan ─> run ─> todo ─> moving ─> done
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"

#define RECEIVE_MAX 64                      /* messages in a step */
#define REQUESTS_FLUSH ((size_t)256 * 1024) /* bytes of requests in a message, about */
#define STALL_CHECK_NS 1000000000
#define STALL_REPORT_MAX 1024
#define STALLED_RANKS_NAMED 4

/* --- Requests --------------------------------------------------------------------------------- */

hvd_status_t hvd_send(struct hvd_engine *e, int rank, const struct hvd_buf *message,
                      struct hvd_err *err)
{
    hvd_watch_sent(e->options.watch, message->len);
    return e->transport->ops->send(e->transport, rank, message->data, message->len, err);
}

/* Hands the message to the coordinator of the set; it is empty afterwards. */
static hvd_status_t send_message(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                                 struct hvd_err *err)
{
    struct hvd_reader reader;
    hvd_status_t st;

    if (set->message.len == 0)
        return HVD_OK;
    if (!set->negotiator) {
        st = hvd_send(e, set->ranks[0], &set->message, err);
    } else { /* only bits come this way */
        st = hvd_reader_init(&reader, set->message.data, set->message.len, err);
        if (st == HVD_OK)
            st = hvd_negotiator_bits(set->negotiator, set->place.rank, &reader, now_ns, err);
    }
    hvd_buf_reset(&set->message);
    return st;
}

static void tell_ready(const struct hvd_engine *e, int rank, const struct hvd_request *request)
{
    if (!hvd_strview_equal(request->name, HVD_CHANGE_NAME))
        hvd_watch_ready(e->options.watch, rank, request);
}

static hvd_status_t send_request(struct hvd_engine *e, struct hvd_set *set,
                                 const struct hvd_request *request, int64_t now_ns,
                                 struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (set->negotiator) {
        tell_ready(e, e->topology.rank, request);
        return hvd_negotiator_request(set->negotiator, set->place.rank, request, now_ns, err);
    }
    if (set->message.len == 0)
        st = hvd_message_begin(&set->message, HVD_MESSAGE_REQUESTS, set->id);
    if (st == HVD_OK)
        st = hvd_message_add_request(&set->message, request);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "requests of %zu bytes: %s", set->message.len,
                        hvd_status_str(st));
    return set->message.len >= REQUESTS_FLUSH ? send_message(e, set, now_ns, err) : HVD_OK;
}

static bool make_room_for_bits(struct hvd_set *set)
{
    const uint32_t n = (hvd_cache_end(set->cache) + 63) / 64;

    if (n <= set->n_bits)
        return true;
    uint64_t *bits = hvd_realloc(set->bits, n, sizeof(*bits));
    if (!bits)
        return false;
    for (uint32_t i = set->n_bits; i < n; i++)
        bits[i] = 0;
    set->bits = bits;
    set->n_bits = n;
    return true;
}

static hvd_status_t send_bits(struct hvd_engine *e, struct hvd_set *set, uint32_t n_words,
                              int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st = hvd_message_bits(&set->message, set->id, set->epoch, set->bits, n_words);

    for (uint32_t i = 0; i < n_words; i++)
        set->bits[i] = 0;
    return st == HVD_OK ? send_message(e, set, now_ns, err)
                        : HVD_FAIL(err, st, 0, "bits of %u words: %s", n_words, hvd_status_str(st));
}

/* Asks for what was taken off the queue: by bits in one message, by name in others. */
static hvd_status_t ask(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *first,
                        int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    uint32_t n_words = 0;

    if (!make_room_for_bits(set))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the bits of a set");
    for (struct hvd_entry *entry = first; entry; entry = entry->next) {
        entry->is_sent = true;
        if (!entry->slot)
            continue;
        const uint32_t word = entry->slot->index / 64;
        set->bits[word] |= (uint64_t)1 << (entry->slot->index % 64);
        if (word >= n_words)
            n_words = word + 1;
    }
    if (n_words > 0)
        st = send_bits(e, set, n_words, now_ns, err);
    for (struct hvd_entry *entry = first; entry && st == HVD_OK;) {
        struct hvd_entry *next = entry->next; /* asking may finish it */
        if (!entry->slot)
            st = send_request(e, set, &entry->request, now_ns, err);
        entry = next;
    }
    return st == HVD_OK && !set->negotiator ? send_message(e, set, now_ns, err) : st;
}

bool hvd_is_batch_full(const struct hvd_engine *e)
{
    return e->options.fusion_bytes > 0 && e->queued_bytes >= e->options.fusion_bytes;
}

bool hvd_progress_is_due(struct hvd_engine *e)
{
    if (atomic_load(&e->n_waiters) > 0 || atomic_load(&e->is_urgent) || e->options.cycle_ns == 0)
        return true;
    pthread_mutex_lock(&e->mu);
    const bool is_full = hvd_is_batch_full(e) || e->is_leaving;
    const int64_t since_ns = e->first_queued_ns;
    pthread_mutex_unlock(&e->mu);
    return is_full || hvd_now_ns() - since_ns >= e->options.cycle_ns;
}

/* Asks for what was submitted since the last time. */
static hvd_status_t take_queues(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (atomic_load_explicit(&e->n_queued, memory_order_acquire) == 0 || !hvd_progress_is_due(e))
        return HVD_OK;
    *progressed = true;
    atomic_store(&e->is_urgent, false);
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++) {
        struct hvd_set *set = e->sets[i];
        if (!set)
            continue;
        pthread_mutex_lock(&e->mu);
        struct hvd_entry *first = set->queue.first;
        set->queue = (struct hvd_entry_list){0};
        for (const struct hvd_entry *entry = first; entry; entry = entry->next)
            atomic_fetch_sub(&e->n_queued, 1);
        e->queued_bytes = 0;
        pthread_mutex_unlock(&e->mu);
        if (first)
            st = ask(e, set, first, now_ns, err);
    }
    return st;
}

/* After shutdown was called here: says so, once, behind the last request. */
static hvd_status_t send_leave(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
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
        return hvd_negotiator_leave(e->sets[0]->negotiator, 0, false, text, err);
    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_LEAVE, 0);
    if (st == HVD_OK)
        st = hvd_message_add_leave(&buf, false, text);
    if (st == HVD_OK)
        st = hvd_send(e, 0, &buf, err);
    else
        st = HVD_FAIL(err, st, 0, "leaving: %s", hvd_status_str(st));
    hvd_buf_fini(&buf);
    return st;
}

/* The coordinator: sends the plan made in this step, and follows it. */
static hvd_status_t publish_plan(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
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

/* --- Messages --------------------------------------------------------------------------------- */

static hvd_status_t read_requests(struct hvd_engine *e, struct hvd_set *set, int from,
                                  struct hvd_reader *reader, int64_t now_ns, struct hvd_err *err)
{
    struct hvd_request request;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && reader->left > 0) {
        st = hvd_reader_request(reader, &request, err);
        if (st == HVD_OK) {
            tell_ready(e, set->ranks[from], &request);
            st = hvd_negotiator_request(set->negotiator, from, &request, now_ns, err);
        }
    }
    return st;
}

static hvd_status_t read_leave(struct hvd_engine *e, int from, struct hvd_reader *reader,
                               struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];
    struct hvd_strview cause = {0};
    bool failed = false;
    const char *host = e->transport->ops->host(e->transport, from);
    hvd_status_t st = hvd_reader_leave(reader, &failed, &cause, err);

    if (st != HVD_OK)
        return st;
    if (failed || !host)
        snprintf(text, sizeof(text), "%.*s", (int)cause.len, cause.data);
    else
        snprintf(text, sizeof(text), "Rank %d on host %s called horovod_shutdown.", from, host);
    return hvd_negotiator_leave(e->sets[0]->negotiator, from, failed, text, err);
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
        st = hvd_negotiator_bits(set->negotiator, from, &reader, now_ns, err);
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
    return hvd_negotiator_leave(e->sets[0]->negotiator, rank, true, text, err);
}

/* Gives the memory of a message back. */
static void drop_message(struct hvd_engine *e, struct hvd_inbound *in)
{
    if (e->transport->ops->recycle)
        e->transport->ops->recycle(e->transport, in);
    else
        hvd_free(in->data);
}

static hvd_status_t receive_messages(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                     struct hvd_err *err)
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

/* What came too early and is not any more. */
static hvd_status_t read_early(struct hvd_engine *e, int64_t now_ns, bool *progressed,
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

/* --- The step --------------------------------------------------------------------------------- */

/* Appends " rank 1 on host a, rank 3 on host b and 2 more". What does not fit is left out. */
static void add_ranks(const struct hvd_engine *e, const int *ranks, int n_ranks, char *text,
                      size_t size)
{
    for (int i = 0; i < n_ranks && i < STALLED_RANKS_NAMED; i++) {
        const char *host = e->transport->ops->host(e->transport, ranks[i]);
        const size_t len = strlen(text);
        snprintf(text + len, size - len, "%s rank %d%s%.64s", i ? "," : "", ranks[i],
                 host ? " on host " : "", host ? host : "");
    }
    if (n_ranks > STALLED_RANKS_NAMED) {
        const size_t len = strlen(text);
        snprintf(text + len, size - len, " and %d more", n_ranks - STALLED_RANKS_NAMED);
    }
}

/* Ends the job when a tensor has waited for too long: every rank hears which, and for whom. */
static hvd_status_t end_stalled(struct hvd_engine *e, const struct hvd_set *set, int64_t now_ns,
                                struct hvd_err *err)
{
    int ranks[STALLED_RANKS_NAMED];
    int n_ranks = STALLED_RANKS_NAMED;
    char text[HVD_TEXT_MAX];
    const int64_t limit_ns = e->options.stall_shutdown_ns;
    const char *name =
        limit_ns > 0 ? hvd_negotiator_overdue(set->negotiator, now_ns - limit_ns, ranks, &n_ranks)
                     : NULL;

    if (!name)
        return HVD_OK;
    snprintf(text, sizeof(text),
             "Tensor %.300s is stalled for longer than %.3g seconds "
             "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for",
             name, (double)limit_ns / 1e9);
    add_ranks(e, ranks, n_ranks, text, sizeof(text));
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s. Will shutdown.", text);
    /* Of another set: rank 0 hears of it as of any failure here. */
    return set->id == 0 ? hvd_negotiator_leave(set->negotiator, e->topology.rank, true, text, err)
                        : HVD_FAIL(err, HVD_ERR_TIMEOUT, 0, "%s", text);
}

static hvd_status_t check_stalls(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                                 struct hvd_err *err)
{
    struct hvd_buf report;

    if (!set->negotiator)
        return HVD_OK;
    hvd_buf_init(&report, STALL_REPORT_MAX);
    hvd_status_t st =
        hvd_negotiator_stalled(set->negotiator, now_ns, e->options.stall_warning_ns, &report);
    if (report.len > 0) { /* a report that was cut is still one */
        hvd_log(e->options.log, HVD_LOG_WARN, "engine", "%s", report.data);
        hvd_watch_stalled(e->options.watch, (int)hvd_negotiator_waiting(set->negotiator),
                          report.data);
    }
    hvd_buf_fini(&report);
    if (st == HVD_ERR_NOMEM)
        return HVD_FAIL(err, st, 0, "out of memory for a stall report");
    return end_stalled(e, set, now_ns, err);
}

static bool is_stall_check_due(struct hvd_engine *e, int64_t now_ns)
{
    const int64_t limit_ns = e->options.stall_warning_ns;

    if (limit_ns == 0 || now_ns < e->next_stall_check_ns)
        return false;
    e->next_stall_check_ns = now_ns + (limit_ns < STALL_CHECK_NS ? limit_ns : STALL_CHECK_NS);
    return true;
}

static hvd_status_t step_set(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                             struct hvd_err *err)
{
    hvd_status_t st = publish_plan(e, set, progressed, err);

    if (st == HVD_OK && (set->todo || set->n_moving > 0))
        st = hvd_flight_progress(e, set, progressed, err);
    return st;
}

static hvd_status_t step(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    const int64_t now_ns = e->options.stall_warning_ns > 0 ? hvd_now_ns() : 0;
    hvd_status_t st = take_queues(e, now_ns, progressed, err);

    if (st == HVD_OK)
        st = send_leave(e, progressed, err);
    if (st == HVD_OK && e->early)
        st = read_early(e, now_ns, progressed, err);
    if (st == HVD_OK && e->topology.size > 1)
        st = receive_messages(e, now_ns, progressed, err);
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++)
        if (e->sets[i])
            st = step_set(e, e->sets[i], progressed, err);
    if (st != HVD_OK || !is_stall_check_due(e, now_ns))
        return st;
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++)
        if (e->sets[i])
            st = check_stalls(e, e->sets[i], now_ns, err);
    return st;
}

/* Whether everything that was agreed is done, in sets that are closed. */
static bool is_quiet(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++) {
        const struct hvd_set *set = e->sets[i];
        if (set && (set->n_moving > 0 || set->todo || !set->is_ended))
            return false;
    }
    return true;
}

bool hvd_progress_step(struct hvd_engine *e)
{
    struct hvd_err err = {0};
    bool progressed = false;
    hvd_status_t st = HVD_OK;

    if (!e->is_aborted)
        st = step(e, &progressed, &err);
    if (st != HVD_OK) {
        hvd_fail_engine(e, &err);
        progressed = true;
    }
    if ((e->is_aborted || (e->is_down && is_quiet(e))) && !atomic_load(&e->is_over)) {
        pthread_mutex_lock(&e->mu);
        atomic_store(&e->is_over, true);
        for (struct hvd_waiter *w = e->waiters; w; w = w->next)
            if (!w->entry)
                pthread_cond_signal(&w->cond);
        pthread_mutex_unlock(&e->mu);
    }
    return progressed;
}
