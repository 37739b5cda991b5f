/*
 * The step function: everything one rank does to get its tensors reduced, a bit at a time, without
 * ever blocking. One thread at a time runs it (see drive.c); it takes mu only to fetch what was
 * submitted and to publish what is done.
 *
 *   queue ─> requests ─> coordinator ─> plan ─> todo ─> moving ─> done
 *
 * Two ways to end: an orderly shutdown (SHUTDOWN step) ends the tensors that are not agreed yet and
 * lets the agreed ones finish; after a failure (ABORT step, or an error here) nothing is waited
 * for.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"
#include "worker/reduce/reduce.h"

#define RECEIVE_MAX 64                      /* messages in a step */
#define REQUESTS_FLUSH ((size_t)256 * 1024) /* bytes of requests in a message, about */
#define STALL_CHECK_NS 1000000000
#define STALL_REPORT_MAX 1024
#define STALLED_RANKS_NAMED 4

void hvd_entry_list_add(struct hvd_entry_list *list, struct hvd_entry *entry)
{
    entry->next = NULL;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

struct hvd_entry *hvd_entry_list_take(struct hvd_entry_list *list)
{
    struct hvd_entry *entry = list->first;

    if (!entry)
        return NULL;
    list->first = entry->next;
    if (!list->first)
        list->last = NULL;
    return entry;
}

/* Publishes how a tensor ended and wakes who waits for it. Holds mu. */
static void finish(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                   const char *message)
{
    const uint64_t bytes = (uint64_t)entry->move.count * hvd_dtype_size((int)entry->request.dtype);

    hvd_watch_done(e->options.watch, (uint64_t)entry->handle, &entry->request, bytes, status);
    entry->status = status;
    if (status != HVD_OK)
        entry->message = hvd_strdup(message); /* without memory the status has to do */
    atomic_fetch_sub(&e->n_outstanding, 1);
    atomic_store_explicit(&entry->is_done, true, memory_order_release);
    if (entry->waiter)
        pthread_cond_signal(&entry->waiter->cond);
}

static void finish_unlocked(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                            const char *message)
{
    pthread_mutex_lock(&e->mu);
    finish(e, entry, status, message);
    pthread_mutex_unlock(&e->mu);
}

static hvd_status_t send_to(struct hvd_engine *e, int rank, const struct hvd_buf *message,
                            struct hvd_err *err)
{
    hvd_watch_sent(e->options.watch, message->len);
    return e->transport->ops->send(e->transport, rank, message->data, message->len, err);
}

/* --- The end ---------------------------------------------------------------------------------- */

/* Nothing may be submitted any more; what is not agreed yet ends here. */
static void end_pending(struct hvd_engine *e, const char *cause)
{
    char text[HVD_ERR_MSG_MAX];
    struct hvd_entry *entry;

    snprintf(text, sizeof(text), "Horovod has been shut down. %s", cause);
    pthread_mutex_lock(&e->mu);
    e->is_ended = true;
    if (!e->cause)
        e->cause = hvd_strdup(text);
    e->queue = (struct hvd_entry_list){0};
    atomic_store(&e->n_queued, 0);
    while ((entry = hvd_table_take_first(e->table)))
        finish(e, entry, HVD_ERR_SHUTDOWN, text);
    pthread_mutex_unlock(&e->mu);
}

/* Gives up what is agreed as well: some rank will not do its part. */
static void abort_all(struct hvd_engine *e, const char *cause)
{
    char text[HVD_ERR_MSG_MAX];
    struct hvd_entry *entry;

    end_pending(e, cause);
    e->is_aborted = true;
    snprintf(text, sizeof(text), "Horovod has been shut down. %s", cause);
    hvd_watch_failed(e->options.watch, cause);
    for (int i = 0; i < e->n_moving; i++) {
        struct hvd_entry *moving = e->moving[i];
        e->transport->ops->abandon(e->transport, &moving->move);
        if (moving->output) { /* may still be written to */
            moving->output->next_orphan = e->orphans;
            e->orphans = moving->output;
            moving->output = NULL;
        }
        finish_unlocked(e, moving, HVD_ERR_SHUTDOWN, text);
    }
    e->n_moving = 0;
    while ((entry = hvd_entry_list_take(&e->todo)))
        finish_unlocked(e, entry, HVD_ERR_SHUTDOWN, text);
}

/* Sends a message with one item, as far as possible: whoever gets it knows why. */
static void tell(struct hvd_engine *e, int to, enum hvd_message_type type, const char *text)
{
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, type);
    if (st == HVD_OK && type == HVD_MESSAGE_LEAVE)
        st = hvd_message_add_leave(&buf, true, text);
    else if (st == HVD_OK)
        st = hvd_message_add_step(&buf, HVD_STEP_ABORT, (struct hvd_strview){.data = ""}, NULL, 0,
                                  text);
    if (st == HVD_OK)
        st = send_to(e, to, &buf, NULL);
    (void)st; /* the peer may be the one that is lost */
    hvd_buf_fini(&buf);
}

/* This rank cannot go on: ends everything here and tells the others, through the coordinator. */
static void fail_engine(struct hvd_engine *e, const struct hvd_err *err)
{
    char cause[HVD_ERR_MSG_MAX];
    const char *host = e->transport->ops->host(e->transport, e->topology.rank);

    if (e->is_aborted)
        return;
    snprintf(cause, sizeof(cause), "Rank %d%s%.64s failed: %.800s", e->topology.rank,
             host ? " on host " : "", host ? host : "", err->msg);
    abort_all(e, cause);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", cause);
    if (e->topology.rank != 0)
        tell(e, 0, HVD_MESSAGE_LEAVE, cause);
    else
        for (int rank = 1; rank < e->topology.size; rank++)
            tell(e, rank, HVD_MESSAGE_PLAN, cause);
}

/* --- Requests --------------------------------------------------------------------------------- */

static hvd_status_t send_requests(struct hvd_engine *e, struct hvd_err *err)
{
    if (e->requests.len == 0)
        return HVD_OK;
    hvd_status_t st = send_to(e, 0, &e->requests, err);
    hvd_buf_reset(&e->requests);
    return st;
}

static hvd_status_t send_request(struct hvd_engine *e, const struct hvd_request *request,
                                 int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (e->negotiator) {
        hvd_watch_ready(e->options.watch, 0, request);
        return hvd_negotiator_request(e->negotiator, 0, request, now_ns, err);
    }
    if (e->requests.len == 0)
        st = hvd_message_begin(&e->requests, HVD_MESSAGE_REQUESTS);
    if (st == HVD_OK)
        st = hvd_message_add_request(&e->requests, request);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "requests of %zu bytes: %s", e->requests.len,
                        hvd_status_str(st));
    return e->requests.len >= REQUESTS_FLUSH ? send_requests(e, err) : HVD_OK;
}

/* Sends what was submitted since the last time. */
static hvd_status_t take_queue(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                               struct hvd_err *err)
{
    struct hvd_entry_list queue;
    struct hvd_entry *entry;
    hvd_status_t st = HVD_OK;

    if (atomic_load_explicit(&e->n_queued, memory_order_acquire) == 0)
        return HVD_OK;
    pthread_mutex_lock(&e->mu);
    queue = e->queue;
    e->queue = (struct hvd_entry_list){0};
    atomic_store(&e->n_queued, 0);
    pthread_mutex_unlock(&e->mu);

    *progressed = true;
    while (st == HVD_OK && (entry = hvd_entry_list_take(&queue)))
        st = send_request(e, &entry->request, now_ns, err);
    return st == HVD_OK ? send_requests(e, err) : st;
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
    if (e->negotiator)
        return hvd_negotiator_leave(e->negotiator, 0, false, text, err);
    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_LEAVE);
    if (st == HVD_OK)
        st = hvd_message_add_leave(&buf, false, text);
    if (st == HVD_OK)
        st = send_to(e, 0, &buf, err);
    else
        st = HVD_FAIL(err, st, 0, "leaving: %s", hvd_status_str(st));
    hvd_buf_fini(&buf);
    return st;
}

/* --- The plan --------------------------------------------------------------------------------- */

/* Prepares the entry for its step; decides whether it has to move at all. */
static hvd_status_t prepare(struct hvd_engine *e, struct hvd_entry *entry,
                            const struct hvd_step *step, bool *moves, struct hvd_err *err)
{
    const struct hvd_request *req = &entry->request;
    const struct hvd_place place = {.rank = e->topology.rank, .size = e->topology.size};
    struct hvd_work work;
    int64_t *rows_counts[2] = {NULL, NULL};
    hvd_status_t st = HVD_OK;

    if (req->op == HVD_ALLGATHER) {
        st = hvd_output_create(e->topology.size, &entry->output);
        if (st != HVD_OK)
            return HVD_FAIL(err, st, 0, "out of memory for an allgather");
        rows_counts[0] = entry->output->rows;
        rows_counts[1] = entry->output->counts;
    }
    st = hvd_plan_work(req, step, place, rows_counts, &work, err);
    if (st == HVD_OK && req->op == HVD_ALLGATHER) {
        entry->output->n_rows = work.total_rows;
        st =
            hvd_output_reserve(entry->output, (size_t)work.total * hvd_dtype_size((int)req->dtype));
        if (st != HVD_OK)
            st = HVD_FAIL(err, st, 0, "out of memory: tensor %s gathers %zu bytes", entry->name,
                          entry->output->bytes);
        entry->move.output = entry->output->data;
        entry->move.counts = entry->output->counts;
    }
    entry->move.count = work.count;
    *moves = work.moves_data;
    return st;
}

/* A job of one rank: the result is the input. */
static void copy_alone(struct hvd_entry *entry)
{
    const struct hvd_collective *c = &entry->move;

    if (c->output != c->input)
        memcpy(c->output, c->input, (size_t)c->count * hvd_dtype_size((int)c->dtype));
}

/* A step that performs an operation. */
static hvd_status_t apply_operation(struct hvd_engine *e, struct hvd_entry *entry,
                                    const struct hvd_step *step, struct hvd_err *err)
{
    struct hvd_err why = {0};
    bool moves = false;
    hvd_status_t st = prepare(e, entry, step, &moves, &why);

    if (st == HVD_ERR_TOO_LARGE) { /* the same everywhere: this tensor's failure */
        finish_unlocked(e, entry, st, why.msg);
        return HVD_OK;
    }
    if (st != HVD_OK) {
        hvd_entry_list_add(&e->todo, entry); /* ends with the job */
        return HVD_FAIL(err, st, 0, "%s", why.msg);
    }
    if (moves && e->topology.size > 1) {
        hvd_entry_list_add(&e->todo, entry);
        return HVD_OK;
    }
    if (moves)
        copy_alone(entry);
    finish_unlocked(e, entry, HVD_OK, NULL);
    return HVD_OK;
}

static hvd_status_t apply_step(struct hvd_engine *e, const struct hvd_step *step,
                               struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];

    snprintf(text, sizeof(text), "%.*s", (int)step->text.len, step->text.data);
    if (step->kind == HVD_STEP_SHUTDOWN) {
        if (atomic_load(&e->n_outstanding) > 0)
            hvd_watch_failed(e->options.watch, text);
        end_pending(e, text);
        return HVD_OK;
    }
    if (step->kind == HVD_STEP_ABORT) {
        abort_all(e, text);
        return HVD_OK;
    }
    if (step->kind == HVD_STEP_DOWN) {
        e->is_down = true;
        return HVD_OK;
    }
    pthread_mutex_lock(&e->mu);
    struct hvd_entry *entry = hvd_table_take(e->table, step->name);
    pthread_mutex_unlock(&e->mu);
    if (!entry)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "the plan has tensor %.*s, which this rank did not submit",
                        (int)step->name.len, step->name.data);
    if (step->kind != HVD_STEP_ERROR)
        hvd_watch_agreed(e->options.watch, (uint64_t)entry->handle, &entry->request);
    if (step->kind != HVD_STEP_ERROR)
        return apply_operation(e, entry, step, err);
    finish_unlocked(e, entry, HVD_ERR_MISMATCH, text);
    return HVD_OK;
}

static hvd_status_t apply_plan(struct hvd_engine *e, const void *data, size_t len,
                               struct hvd_err *err)
{
    struct hvd_reader reader;
    struct hvd_step step;
    hvd_status_t st = hvd_reader_init(&reader, data, len, err);

    hvd_watch_plan(e->options.watch);
    while (st == HVD_OK && reader.left > 0 && !e->is_aborted) {
        st = hvd_reader_step(&reader, &step, err);
        if (st == HVD_OK)
            st = apply_step(e, &step, err);
    }
    return st == HVD_OK ? st : HVD_WRAP(err, st, "plan");
}

/* The coordinator: sends the plan made in this step, and follows it. */
static hvd_status_t publish_plan(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    const struct hvd_buf *plan = e->negotiator ? hvd_negotiator_plan(e->negotiator) : NULL;
    hvd_status_t st;

    if (!plan || e->is_aborted)
        return HVD_OK;
    *progressed = true;
    for (int rank = 1; rank < e->topology.size; rank++) {
        hvd_status_t sent = send_to(e, rank, plan, err);
        /* A lost rank is reported by receive, which says more. */
        if (sent == HVD_ERR_UNAVAILABLE)
            hvd_err_clear(err);
        else if (sent != HVD_OK)
            return sent;
    }
    st = apply_plan(e, plan->data, plan->len, err);
    hvd_negotiator_plan_sent(e->negotiator);
    return st;
}

/* --- Messages --------------------------------------------------------------------------------- */

static hvd_status_t read_requests(struct hvd_engine *e, int from, struct hvd_reader *reader,
                                  int64_t now_ns, struct hvd_err *err)
{
    struct hvd_request request;
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK && reader->left > 0) {
        st = hvd_reader_request(reader, &request, err);
        if (st == HVD_OK)
            hvd_watch_ready(e->options.watch, from, &request);
        if (st == HVD_OK)
            st = hvd_negotiator_request(e->negotiator, from, &request, now_ns, err);
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
    return hvd_negotiator_leave(e->negotiator, from, failed, text, err);
}

static hvd_status_t read_message(struct hvd_engine *e, const struct hvd_inbound *in, int64_t now_ns,
                                 struct hvd_err *err)
{
    struct hvd_reader reader;
    hvd_status_t st = hvd_reader_init(&reader, in->data, in->len, err);

    if (st != HVD_OK)
        return HVD_WRAP(err, st, "from rank %d", in->from);
    if (reader.type == HVD_MESSAGE_PLAN && in->from == 0 && !e->negotiator)
        return apply_plan(e, in->data, in->len, err);
    if (reader.type == HVD_MESSAGE_PLAN || !e->negotiator)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "rank %d sent a message of type %d to rank %d",
                        in->from, (int)reader.type, e->topology.rank);
    st = reader.type == HVD_MESSAGE_LEAVE ? read_leave(e, in->from, &reader, err)
                                          : read_requests(e, in->from, &reader, now_ns, err);
    return st == HVD_OK ? st : HVD_WRAP(err, st, "from rank %d", in->from);
}

/* A rank is gone for good. The coordinator ends the job; others hear of it from the coordinator. */
static hvd_status_t lose_rank(struct hvd_engine *e, int rank, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX];
    const char *host = e->transport->ops->host(e->transport, rank);

    if (!e->negotiator) {
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
    return hvd_negotiator_leave(e->negotiator, rank, true, text, err);
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
            hvd_free(in.data);
        } else if (st == HVD_ERR_GONE) {
            st = lose_rank(e, in.from, err);
        }
        if (st != HVD_OK)
            return st;
    }
    return HVD_OK;
}

/* --- Data ------------------------------------------------------------------------------------- */

static hvd_status_t start_todo(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    while (e->n_moving < HVD_MOVING_MAX && e->todo.first) {
        struct hvd_entry *entry = e->todo.first;
        hvd_watch_started(e->options.watch, (uint64_t)entry->handle, &entry->request,
                          e->transport->ops->name);
        hvd_status_t st = e->transport->ops->start(e->transport, &entry->move, err);
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", entry->name);
        hvd_entry_list_take(&e->todo);
        e->moving[e->n_moving++] = entry;
        *progressed = true;
    }
    return HVD_OK;
}

static hvd_status_t test_moving(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    for (int i = 0; i < e->n_moving;) {
        struct hvd_entry *entry = e->moving[i];
        hvd_status_t st = e->transport->ops->test(e->transport, &entry->move, err);
        if (st == HVD_INPROGRESS) {
            i++;
            continue;
        }
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", entry->name);
        if (entry->request.op == HVD_ALLREDUCE && entry->request.reduce == HVD_AVERAGE)
            hvd_reduce_divide(entry->request.dtype, entry->move.output, entry->move.count,
                              e->topology.size);
        e->moving[i] = e->moving[--e->n_moving];
        *progressed = true;
        finish_unlocked(e, entry, HVD_OK, NULL);
    }
    return HVD_OK;
}

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
static hvd_status_t end_stalled(struct hvd_engine *e, int64_t now_ns, struct hvd_err *err)
{
    int ranks[STALLED_RANKS_NAMED];
    int n_ranks = STALLED_RANKS_NAMED;
    char text[HVD_TEXT_MAX];
    const int64_t limit_ns = e->options.stall_shutdown_ns;
    const char *name =
        limit_ns > 0 ? hvd_negotiator_overdue(e->negotiator, now_ns - limit_ns, ranks, &n_ranks)
                     : NULL;

    if (!name)
        return HVD_OK;
    snprintf(text, sizeof(text),
             "Tensor %.300s is stalled for longer than %.3g seconds "
             "(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS): it waits for",
             name, (double)limit_ns / 1e9);
    add_ranks(e, ranks, n_ranks, text, sizeof(text));
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s. Will shutdown.", text);
    return hvd_negotiator_leave(e->negotiator, e->topology.rank, true, text, err);
}

static hvd_status_t check_stalls(struct hvd_engine *e, int64_t now_ns, struct hvd_err *err)
{
    struct hvd_buf report;

    if (!e->negotiator || e->options.stall_warning_ns == 0 || now_ns < e->next_stall_check_ns)
        return HVD_OK;
    e->next_stall_check_ns =
        now_ns + (e->options.stall_warning_ns < STALL_CHECK_NS ? e->options.stall_warning_ns
                                                               : STALL_CHECK_NS);
    if (hvd_negotiator_waiting(e->negotiator) == 0)
        return HVD_OK;
    hvd_buf_init(&report, STALL_REPORT_MAX);
    hvd_status_t st =
        hvd_negotiator_stalled(e->negotiator, now_ns, e->options.stall_warning_ns, &report);
    if (report.len > 0) { /* a report that was cut is still one */
        hvd_log(e->options.log, HVD_LOG_WARN, "engine", "%s", report.data);
        hvd_watch_stalled(e->options.watch, (int)hvd_negotiator_waiting(e->negotiator),
                          report.data);
    }
    hvd_buf_fini(&report);
    if (st == HVD_ERR_NOMEM)
        return HVD_FAIL(err, st, 0, "out of memory for a stall report");
    return end_stalled(e, now_ns, err);
}

static hvd_status_t step(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    const int64_t now_ns = e->negotiator ? hvd_now_ns() : 0;
    hvd_status_t st = take_queue(e, now_ns, progressed, err);

    if (st == HVD_OK)
        st = send_leave(e, progressed, err);
    if (st == HVD_OK && e->topology.size > 1)
        st = receive_messages(e, now_ns, progressed, err);
    if (st == HVD_OK)
        st = publish_plan(e, progressed, err);
    if (st == HVD_OK)
        st = start_todo(e, progressed, err);
    if (st == HVD_OK)
        st = test_moving(e, progressed, err);
    if (st == HVD_OK)
        st = check_stalls(e, now_ns, err);
    return st;
}

bool hvd_progress_step(struct hvd_engine *e)
{
    struct hvd_err err = {0};
    bool progressed = false;
    hvd_status_t st = HVD_OK;

    if (!e->is_aborted)
        st = step(e, &progressed, &err);
    if (st != HVD_OK) {
        fail_engine(e, &err);
        progressed = true;
    }
    if ((e->is_aborted || (e->is_down && e->n_moving == 0 && !e->todo.first)) &&
        !atomic_load(&e->is_over)) {
        pthread_mutex_lock(&e->mu);
        atomic_store(&e->is_over, true);
        for (struct hvd_waiter *w = e->waiters; w; w = w->next)
            if (!w->entry)
                pthread_cond_signal(&w->cond);
        pthread_mutex_unlock(&e->mu);
    }
    return progressed;
}
