/*
 * Events: points on streams of the adapter and of the program. Whether work of the adapter is done
 * is a number in memory, so asking calls no driver. Any thread.
 */
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "worker/core/backoff.h"
#include "worker/device/cuda/cuda_internal.h"

#define WAIT_MAX_NS 200000 /* of a sleep while a thread waits for the GPU */
#define N_EVENTS 64        /* so that how many are in use at once makes no difference later */

static struct hvd_cuda_event *event_of(struct hvd_device_event *event)
{
    return (struct hvd_cuda_event *)event;
}

/* Creates an event. In the context. */
static struct hvd_cuda_event *create(struct hvd_cuda_device *g, struct hvd_err *err)
{
    struct hvd_cuda_event *event = hvd_calloc(1, sizeof(*event));

    if (!event) {
        (void)HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for an event", g->name);
        return NULL;
    }
    const hvd_cu_result_t result = g->library->cu.cuEventCreate(
        &event->event, HVD_CU_EVENT_DISABLE_TIMING | HVD_CU_EVENT_BLOCKING_SYNC);
    if (result == HVD_CU_SUCCESS) {
        event->base.device = &g->port;
        return event;
    }
    (void)hvd_cuda_library_failure(g->library, result, "cuEventCreate", err);
    hvd_free(event);
    return NULL;
}

struct hvd_cuda_event *hvd_cuda_event_take(struct hvd_cuda_device *g, struct hvd_err *err)
{
    pthread_mutex_lock(&g->mu);
    struct hvd_cuda_event *event = g->free_events;
    if (event)
        g->free_events = event->next;
    pthread_mutex_unlock(&g->mu);
    if (!event)
        event = create(g, err);
    if (event)
        atomic_init(&event->base.n_users, 1);
    return event;
}

void hvd_cuda_recycle(struct hvd_device_port *d, struct hvd_device_event *event)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);

    pthread_mutex_lock(&g->mu);
    event_of(event)->next = g->free_events;
    g->free_events = event_of(event);
    pthread_mutex_unlock(&g->mu);
}

hvd_status_t hvd_cuda_events_create(struct hvd_cuda_device *g, struct hvd_err *err)
{
    for (int i = 0; i < N_EVENTS; i++) {
        struct hvd_cuda_event *event = create(g, err);
        if (!event)
            return HVD_ERR_SYSTEM;
        hvd_cuda_recycle(&g->port, &event->base);
    }
    return HVD_OK;
}

void hvd_cuda_events_destroy(struct hvd_cuda_device *g)
{
    while (g->free_events) {
        struct hvd_cuda_event *event = g->free_events;
        g->free_events = event->next;
        (void)g->library->cu.cuEventDestroy_v2(event->event);
        hvd_free(event);
    }
}

/* A stream that is being captured takes no event of other streams. */
static hvd_status_t check_capture(struct hvd_cuda_device *g, struct CUstream_st *stream,
                                  struct hvd_err *err)
{
    unsigned int state = HVD_CU_CAPTURE_NONE;
    const hvd_cu_result_t result = g->library->cu.cuStreamIsCapturing(stream, &state);

    if (result == HVD_CU_STREAM_CAPTURE_IMPLICIT || state != HVD_CU_CAPTURE_NONE)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s: the stream is being captured into a graph: collectives of Horovod "
                        "cannot be part of one; call them outside of the capture",
                        g->name);
    if (result == HVD_CU_INVALID_HANDLE)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s: the stream is none of this GPU, or was destroyed", g->name);
    return result == HVD_CU_SUCCESS
               ? HVD_OK
               : hvd_cuda_library_failure(g->library, result, "cuStreamIsCapturing", err);
}

hvd_status_t hvd_cuda_mark(struct hvd_device_port *d, void *stream, struct hvd_device_event **out,
                           struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_event *event = NULL;
    hvd_status_t st = hvd_cuda_enter(g, err);

    if (st != HVD_OK)
        return st;
    st = check_capture(g, stream, err);
    if (st == HVD_OK) {
        event = hvd_cuda_event_take(g, err);
        st = event ? HVD_OK : HVD_ERR_NOMEM;
    }
    if (st == HVD_OK) {
        const hvd_cu_result_t result = g->library->cu.cuEventRecord(event->event, stream);
        if (result != HVD_CU_SUCCESS)
            st = hvd_cuda_library_failure(g->library, result, "cuEventRecord", err);
    }
    if (st == HVD_OK) {
        event->done = NULL;
        event->program_stream = stream;
        event->number = atomic_fetch_add(&g->n_marks, 1);
        event->is_collective = false;
        *out = &event->base;
    } else if (event) {
        hvd_cuda_recycle(d, &event->base);
    }
    hvd_cuda_leave(g);
    return st;
}

hvd_status_t hvd_cuda_order(struct hvd_device_port *d, struct hvd_device_event *event, void *stream,
                            struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    hvd_status_t st = hvd_cuda_enter(g, err);

    if (st != HVD_OK)
        return st;
    st = check_capture(g, stream, err);
    if (st == HVD_OK) {
        const hvd_cu_result_t result =
            g->library->cu.cuStreamWaitEvent(stream, event_of(event)->event, 0);
        if (result != HVD_CU_SUCCESS)
            st = hvd_cuda_library_failure(g->library, result, "cuStreamWaitEvent", err);
    }
    hvd_cuda_leave(g);
    return st;
}

/* The failure of work that is not known to have succeeded. */
static hvd_status_t failure_of(struct hvd_cuda_device *g, const struct hvd_cuda_event *event,
                               struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (!atomic_load(&g->has_failed) && !(event->is_collective && atomic_load(&g->is_aborted)))
        return HVD_OK;
    if (hvd_cuda_is_fresh(g))
        return HVD_OK; /* it may be done; and the work that has failed names its tensors */
    pthread_mutex_lock(&g->mu);
    st = HVD_FAIL(err, atomic_load(&g->has_failed) ? HVD_ERR_SYSTEM : HVD_ERR_UNAVAILABLE, 0, "%s",
                  g->cause);
    pthread_mutex_unlock(&g->mu);
    return st;
}

static hvd_status_t query_program(struct hvd_cuda_device *g, const struct hvd_cuda_event *event,
                                  struct hvd_err *err)
{
    unsigned int mode = HVD_CU_CAPTURE_RELAXED; /* the program may capture in another thread */
    hvd_status_t st = hvd_cuda_enter(g, err);

    if (st != HVD_OK)
        return st;
    (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
    const hvd_cu_result_t result = g->library->cu.cuEventQuery(event->event);
    (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
    hvd_cuda_leave(g);
    if (result == HVD_CU_SUCCESS || result == HVD_CU_NOT_READY)
        return result == HVD_CU_SUCCESS ? HVD_OK : HVD_INPROGRESS;
    return hvd_cuda_library_failure(g->library, result, "cuEventQuery", err);
}

hvd_status_t hvd_cuda_query(struct hvd_device_port *d, struct hvd_device_event *event,
                            struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    const struct hvd_cuda_event *ours = event_of(event);

    if (!ours->done)
        return query_program(g, ours, err);
    /* An aborted collective ends, too, so its number says nothing after an abort. */
    const hvd_status_t st = failure_of(g, ours, err);
    if (st != HVD_OK)
        return st;
    if (!hvd_cuda_is_done(ours->done, ours->number)) {
        hvd_cuda_look_for_errors(g, ours);
        return HVD_INPROGRESS;
    }
    return failure_of(g, ours, err);
}

/* Asks instead of a wait in the driver, which an abort could not end if the GPU hangs. */
hvd_status_t hvd_cuda_wait(struct hvd_device_port *d, struct hvd_device_event *event,
                           struct hvd_err *err)
{
    struct timespec pause = {.tv_nsec = 0};
    int64_t waited_ns = 0;
    hvd_status_t st;

    while ((st = hvd_cuda_query(d, event, err)) == HVD_INPROGRESS) {
        pause.tv_nsec = (long)hvd_backoff_sleep_ns(waited_ns, WAIT_MAX_NS);
        waited_ns += pause.tv_nsec;
        (void)nanosleep(&pause, NULL);
    }
    return st;
}
