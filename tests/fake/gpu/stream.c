/*
 * Streams: a queue and a thread each. Work starts when what it depends on is done, after a delay
 * that is drawn, and when the device has room for it. Its steps run under the lock.
 */
#include "tests/fake/gpu/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int n_streams;
static _Thread_local struct CUstream_st *own[FAKE_MAX_DEVICES]; /* CU_STREAM_PER_THREAD */

/* A destroyed stream whose work the host knows to be done: a new one may go on with its agent, so
 * that clocks stay short. NULL: there is none. */
static struct CUstream_st *find_ancestor(const struct CUctx_st *context)
{
    struct CUstream_st *s = context->retired; /* the latest ones suffice */

    for (int i = 0; s && i < 8; i++, s = s->next)
        if (!s->has_heir && s->agent < context->host.n && context->host.at[s->agent] >= s->enqueued)
            return s;
    return NULL;
}

/* Takes a destroyed stream without work out of those that all waits look at. */
static void retire(struct CUstream_st *stream)
{
    struct CUctx_st *context = stream->context;
    struct CUstream_st **at = &context->streams;

    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->next = context->retired;
    context->retired = stream;
    fake_clock_fini(&stream->clock);
}

static struct CUstream_st *make_stream(struct CUctx_st *context, bool is_blocking)
{
    struct CUstream_st *stream = fake_calloc(1, sizeof(*stream));
    struct CUstream_st *ancestor = find_ancestor(context);

    stream->life = FAKE_ALIVE;
    stream->context = context;
    stream->number = ++n_streams;
    stream->is_blocking = is_blocking;
    stream->agent = ancestor ? ancestor->agent : fake_agent();
    if (ancestor) {
        ancestor->has_heir = true;
        stream->enqueued = stream->done = ancestor->enqueued;
    }
    stream->random = (uint64_t)fake_option(FAKE_GPU_SEED) * 1000003 + (uint64_t)stream->number;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

/* --- Handles ---------------------------------------------------------------------------------- */

static struct CUstream_st *special(struct CUctx_st *context, uintptr_t handle)
{
    if (!context) {
        fake_report(FAKE_GPU_WRONG_CONTEXT, "the NULL stream of a thread without a context");
        return NULL;
    }
    if (handle == HVD_CU_STREAM_PER_THREAD) {
        if (!own[context->device])
            own[context->device] = make_stream(context, true);
        return own[context->device];
    }
    if (!context->legacy)
        context->legacy = make_stream(context, true);
    return context->legacy;
}

struct CUstream_st *fake_stream_in(struct CUctx_st *context, struct CUstream_st *handle)
{
    if ((uintptr_t)handle <= HVD_CU_STREAM_PER_THREAD)
        return special(context, (uintptr_t)handle);
    if (handle->life != FAKE_ALIVE) {
        fake_report(FAKE_GPU_BAD_HANDLE, "stream %d is used after it was destroyed",
                    handle->number);
        return NULL;
    }
    return handle;
}

struct CUstream_st *fake_stream_any(struct CUstream_st *handle)
{
    return fake_stream_in(fake_current(), handle);
}

struct CUstream_st *fake_stream_of(struct CUstream_st *handle, const char *call)
{
    struct CUstream_st *stream = fake_stream_any(handle);

    if (stream && stream->context != fake_current()) {
        fake_report(FAKE_GPU_WRONG_CONTEXT, "%s on stream %d of device %d, which is not current",
                    call, stream->number, stream->context->device);
        return NULL;
    }
    return stream;
}

/* --- The thread ------------------------------------------------------------------------------- */

static bool deps_are_done(const struct fake_op *op)
{
    for (unsigned i = 0; i < op->n_deps; i++)
        if (op->deps[i].stream->done < op->deps[i].seq)
            return false;
    return true;
}

bool fake_cannot_start(const struct fake_op *op)
{
    return op->is_waiting_for_room || op->stream->first != op || !deps_are_done(op);
}

static bool is_canceled(struct fake_op *op)
{
    return op->is_canceled && op->is_canceled(op);
}

/* Waits until the multiprocessors are there, and takes them. Returns how many it took. */
static int take_room(struct CUctx_st *context, struct fake_op *op)
{
    const int all = (int)fake_option(FAKE_GPU_MULTIPROCESSORS);
    const int wanted = op->n_multiprocessors < all ? op->n_multiprocessors : all;

    while (context->n_multiprocessors_used + wanted > all && !is_canceled(op)) {
        op->is_waiting_for_room = true;
        fake_wait(1000);
    }
    op->is_waiting_for_room = false;
    if (is_canceled(op))
        return 0;
    context->n_multiprocessors_used += wanted;
    return wanted;
}

static void free_op(struct fake_op *op)
{
    if (op->fini)
        op->fini(op);
    fake_access_put(op->access);
    fake_clock_fini(&op->clock);
    free(op->deps);
    free(op->data);
    free(op);
}

static void run(struct CUstream_st *stream, struct fake_op *op)
{
    struct CUctx_st *context = stream->context;
    const unsigned delay_us = fake_draw(&stream->random, (unsigned)fake_option(FAKE_GPU_DELAY_US));

    while (!deps_are_done(op) || context->is_stopped)
        fake_wait(100000);
    if (delay_us) {
        fake_unlock();
        usleep(delay_us);
        fake_lock();
    }
    while (context->is_stopped)
        fake_wait(100000);
    const int taken = take_room(context, op);
    op->is_started = true;
    /* Nothing runs in a broken context, but what waits for peers has to end its part. */
    while ((op->is_collective || !context->broken) && op->step(op) == FAKE_AGAIN)
        fake_wait(200);
    context->n_multiprocessors_used -= taken;
}

static void *serve(void *at)
{
    struct CUstream_st *stream = at;

    fake_lock();
    while (stream->first || stream->life == FAKE_ALIVE) {
        struct fake_op *op = stream->first;
        if (!op) {
            fake_wait(1000000);
            continue;
        }
        run(stream, op);
        stream->first = op->next;
        if (!stream->first)
            stream->last = NULL;
        stream->done = op->seq;
        free_op(op);
        fake_wake();
    }
    retire(stream);
    fake_unlock();
    return NULL;
}

static void start_thread(struct CUstream_st *stream)
{
    pthread_t thread;

    stream->has_thread = true;
    if (pthread_create(&thread, NULL, serve, stream) != 0)
        fake_die("cannot start the thread of a stream");
    pthread_detach(thread);
}

/* --- Work ------------------------------------------------------------------------------------- */

static void add_dep(struct fake_op *op, struct CUstream_st *stream, uint64_t seq)
{
    struct fake_dep *deps = realloc(op->deps, (op->n_deps + 1) * sizeof(*deps));

    if (!deps)
        fake_die("out of memory");
    op->deps = deps;
    op->deps[op->n_deps++] = (struct fake_dep){.stream = stream, .seq = seq};
}

static void follow(struct fake_op *op, struct CUstream_st *stream, struct CUstream_st *other)
{
    if (other == stream)
        return;
    add_dep(op, other, other->enqueued);
    fake_clock_join(&stream->clock, &other->clock);
}

/* The legacy stream waits for all blocking streams of its context, and they wait for it. */
static void synchronize_with_legacy(struct fake_op *op, struct CUstream_st *stream)
{
    struct CUctx_st *context = stream->context;

    if (stream == context->legacy) {
        for (struct CUstream_st *s = context->streams; s; s = s->next)
            if (s->is_blocking)
                follow(op, stream, s);
    } else if (stream->is_blocking && context->legacy) {
        follow(op, stream, context->legacy);
    }
}

static void discard(const struct fake_op *like)
{
    struct fake_op *op = fake_calloc(1, sizeof(*op));

    *op = *like;
    free_op(op);
}

hvd_cu_result_t fake_enqueue(struct CUstream_st *stream, const struct fake_op *like,
                             const struct fake_dep *deps, unsigned n_deps)
{
    bool is_captured = false;
    char what[160];
    const hvd_cu_result_t result = fake_capture_enqueue(stream, like->call, &is_captured);

    if (result != 0 || is_captured) {
        discard(like);
        return result;
    }
    struct fake_op *op = fake_calloc(1, sizeof(*op));
    *op = *like;
    op->stream = stream;
    op->seq = ++stream->enqueued;
    for (unsigned i = 0; i < n_deps; i++)
        add_dep(op, deps[i].stream, deps[i].seq);
    fake_clock_join(&stream->clock, &stream->context->host);
    synchronize_with_legacy(op, stream);
    if (op->learns)
        fake_clock_join(&stream->clock, op->learns);
    fake_clock_set(&stream->clock, stream->agent, op->seq);
    fake_clock_join(&op->clock, &stream->clock);
    snprintf(what, sizeof(what), "%s%s%s on stream %d (work %llu)", op->call, *op->what ? " " : "",
             op->what, stream->number, (unsigned long long)op->seq);
    op->access = fake_access_create(stream->agent, op->seq, what);
    if (op->is_collective)
        stream->last_collective = op->seq;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    if (!stream->has_thread)
        start_thread(stream);
    fake_wake();
    return HVD_CU_SUCCESS;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

void fake_wait_for(struct CUstream_st *stream, uint64_t seq)
{
    while (stream->done < seq)
        fake_wait(100000);
}

void fake_wait_stream(struct CUstream_st *stream)
{
    struct fake_clock known = {0};

    fake_clock_join(&known, &stream->clock);
    fake_wait_for(stream, stream->enqueued);
    fake_clock_join(&stream->context->host, &known);
    fake_clock_fini(&known);
}

void fake_wait_idle(struct CUctx_st *context)
{
    struct fake_clock known = {0};
    struct fake_dep *deps = NULL; /* streams may retire meanwhile */
    size_t n = 0;

    for (struct CUstream_st *s = context->streams; s; s = s->next)
        n++;
    deps = fake_calloc(n, sizeof(*deps));
    n = 0;
    for (struct CUstream_st *s = context->streams; s; s = s->next) {
        fake_clock_join(&known, &s->clock);
        deps[n++] = (struct fake_dep){.stream = s, .seq = s->enqueued};
    }
    for (size_t i = 0; i < n; i++)
        fake_wait_for(deps[i].stream, deps[i].seq);
    fake_clock_join(&context->host, &known);
    fake_clock_fini(&known);
    free(deps);
}

void fake_check_blocking(struct CUctx_st *context, const char *call)
{
    if (!fake_option(FAKE_GPU_REPORT_BLOCKING) || fake_is_program())
        return;
    for (struct CUstream_st *s = context->streams; s; s = s->next) {
        const uint64_t known = s->agent < context->host.n ? context->host.at[s->agent] : 0;
        if (s->last_collective <= known)
            continue;
        fake_report(FAKE_GPU_BLOCKING,
                    "%s waits for device %d, and a collective on stream %d may still run", call,
                    context->device, s->number);
        return;
    }
}

static bool is_idle(void)
{
    for (int i = 0; i < FAKE_MAX_DEVICES; i++)
        for (struct CUstream_st *s = fake_context(i)->streams; s; s = s->next)
            if (s->done < s->enqueued)
                return false;
    return true;
}

bool fake_gpu_settle(unsigned timeout_ms)
{
    struct timespec now;

    fake_lock();
    clock_gettime(CLOCK_MONOTONIC, &now);
    const time_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + (time_t)timeout_ms;
    bool is_done = is_idle();
    while (!is_done && now.tv_sec * 1000 + now.tv_nsec / 1000000 < end) {
        fake_wait(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
        is_done = is_idle();
    }
    fake_unlock();
    return is_done;
}

int fake_stream_leaks(void)
{
    int n = 0;

    for (int i = 0; i < FAKE_MAX_DEVICES; i++) {
        struct CUctx_st *context = fake_context(i);
        for (struct CUstream_st *s = context->streams; s; s = s->next) {
            const bool is_special = s == context->legacy || s == own[i];
            if (s->life != FAKE_ALIVE || is_special)
                continue;
            n++;
            fake_report(FAKE_GPU_LEAK, "stream %d of device %d is not destroyed", s->number, i);
        }
    }
    return n;
}

/* --- Calls ------------------------------------------------------------------------------------ */

hvd_cu_result_t cuStreamCreateWithPriority(struct CUstream_st **out, unsigned int flags,
                                           int priority)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamCreateWithPriority);

    (void)priority;
    if (result == 0 && flags > HVD_CU_STREAM_NON_BLOCKING)
        result = HVD_CU_INVALID_VALUE;
    if (result == 0)
        *out = make_stream(fake_current(), flags == HVD_CU_STREAM_DEFAULT);
    return fake_end(result);
}

static hvd_cu_result_t destroy(struct CUstream_st *handle)
{
    if ((uintptr_t)handle <= HVD_CU_STREAM_PER_THREAD)
        return HVD_CU_INVALID_HANDLE;
    struct CUstream_st *stream = fake_stream_any(handle);
    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    fake_capture_end(stream);
    stream->life = FAKE_DEAD;
    if (!stream->has_thread)
        retire(stream);
    fake_wake();
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuStreamDestroy_v2(struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamDestroy_v2);

    if (result == 0)
        result = destroy(stream);
    return fake_end(result);
}

static enum fake_step do_nothing(struct fake_op *op)
{
    (void)op;
    return FAKE_DONE;
}

/* Waiting for the legacy stream is waiting for all blocking streams, as its own work does. */
static hvd_cu_result_t synchronize(struct CUstream_st *handle)
{
    const struct fake_op mark = {.call = "cuStreamSynchronize", .step = do_nothing};
    struct CUstream_st *stream = fake_stream_any(handle);
    hvd_cu_result_t result = HVD_CU_SUCCESS;

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (stream->capture_state != HVD_CU_CAPTURE_NONE) {
        stream->capture_origin->capture_state = HVD_CU_CAPTURE_INVALIDATED;
        return HVD_CU_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream == stream->context->legacy)
        result = fake_enqueue(stream, &mark, NULL, 0);
    if (result != 0)
        return result;
    fake_wait_stream(stream);
    fake_pool_trim(stream->context);
    return stream->context->broken;
}

hvd_cu_result_t cuStreamSynchronize(struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamSynchronize);

    if (result == 0)
        result = synchronize(stream);
    return fake_end(result);
}

static hvd_cu_result_t query(struct CUstream_st *handle)
{
    struct CUstream_st *stream = fake_stream_any(handle);

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (stream->context->broken)
        return stream->context->broken;
    if (stream->done < stream->enqueued)
        return HVD_CU_NOT_READY;
    fake_clock_join(&stream->context->host, &stream->clock);
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuStreamQuery(struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamQuery);

    if (result == 0)
        result = query(stream);
    return fake_end(result);
}

hvd_cu_result_t cuStreamGetCtx(struct CUstream_st *handle, struct CUctx_st **context)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamGetCtx);
    struct CUstream_st *stream = result == 0 ? fake_stream_any(handle) : NULL;

    if (stream)
        *context = stream->context;
    else if (result == 0)
        result = HVD_CU_INVALID_HANDLE;
    return fake_end(result);
}
