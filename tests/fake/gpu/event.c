/*
 * Events. A record is a piece of work on its stream; the event remembers the latest one.
 */
#include "tests/fake/gpu/machine.h"

#include <stdio.h>

static struct CUevent_st *events; /* all, also destroyed ones */
static int n_events;

int fake_event_leaks(void)
{
    int n = 0;

    for (struct CUevent_st *e = events; e; e = e->next) {
        if (e->life != FAKE_ALIVE)
            continue;
        n++;
        fake_report(FAKE_GPU_LEAK, "event %d of device %d is not destroyed", e->number,
                    e->context->device);
    }
    return n;
}

static struct CUevent_st *event_of(struct CUevent_st *event, const char *call)
{
    if (event && event->life == FAKE_ALIVE)
        return event;
    fake_report(FAKE_GPU_BAD_HANDLE, "%s of event %d, which is destroyed", call,
                event ? event->number : 0);
    return NULL;
}

hvd_cu_result_t cuEventCreate(struct CUevent_st **out, unsigned int flags)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuEventCreate);

    (void)flags;
    if (result == 0) {
        struct CUevent_st *event = fake_calloc(1, sizeof(*event));
        event->life = FAKE_ALIVE;
        event->context = fake_current();
        event->number = ++n_events;
        event->next = events;
        events = event;
        *out = event;
    }
    return fake_end(result);
}

hvd_cu_result_t cuEventDestroy_v2(struct CUevent_st *event)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuEventDestroy_v2);

    if (result == 0 && !event_of(event, "cuEventDestroy"))
        result = HVD_CU_INVALID_HANDLE;
    if (result == 0) {
        event->life = FAKE_DEAD;
        fake_clock_fini(&event->clock);
    }
    return fake_end(result);
}

static enum fake_step do_nothing(struct fake_op *op)
{
    (void)op;
    return FAKE_DONE;
}

static hvd_cu_result_t record(struct CUevent_st *event, struct CUstream_st *handle)
{
    struct fake_op op = {.call = "cuEventRecord", .step = do_nothing};
    struct CUstream_st *stream = fake_stream_any(handle);

    if (!stream || !event_of(event, "cuEventRecord"))
        return HVD_CU_INVALID_HANDLE;
    if (stream->context != event->context) {
        fake_report(FAKE_GPU_WRONG_CONTEXT,
                    "cuEventRecord of event %d of device %d on stream %d of device %d",
                    event->number, event->context->device, stream->number, stream->context->device);
        return HVD_CU_INVALID_HANDLE;
    }
    snprintf(op.what, sizeof(op.what), "of event %d", event->number);
    const bool is_captured = stream->capture_state != HVD_CU_CAPTURE_NONE;
    const hvd_cu_result_t result = fake_enqueue(stream, &op, NULL, 0);
    if (result != 0)
        return result;
    event->is_captured = is_captured;
    event->stream = stream;
    event->seq = stream->enqueued;
    fake_clock_fini(&event->clock);
    fake_clock_join(&event->clock, &stream->clock);
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuEventRecord);

    if (result == 0)
        result = record(event, stream);
    if (result == 0 && !fake_is_program())
        fake_counts()->records++;
    return fake_end(result);
}

static hvd_cu_result_t wait_for_event(struct CUstream_st *handle, struct CUevent_st *event)
{
    struct fake_op op = {.call = "cuStreamWaitEvent", .step = do_nothing};
    struct CUstream_st *stream = fake_stream_any(handle);

    if (!stream || !event_of(event, "cuStreamWaitEvent"))
        return HVD_CU_INVALID_HANDLE;
    if (event->is_captured && stream->capture_state == HVD_CU_CAPTURE_NONE) {
        /* The stream joins the capture of the event. */
        stream->capture_state = event->stream->capture_state;
        stream->capture_mode = event->stream->capture_mode;
        stream->capture_origin = event->stream->capture_origin;
        stream->capture_thread = event->stream->capture_thread;
    }
    if (!event->stream)
        return HVD_CU_SUCCESS; /* never recorded */
    if (!event->is_captured && stream->capture_state != HVD_CU_CAPTURE_NONE) {
        stream->capture_origin->capture_state = HVD_CU_CAPTURE_INVALIDATED;
        fake_report(FAKE_GPU_CAPTURE_BROKEN,
                    "stream %d is captured and waits for event %d, which is not", stream->number,
                    event->number);
        return HVD_CU_STREAM_CAPTURE_ISOLATION;
    }
    snprintf(op.what, sizeof(op.what), "for event %d", event->number);
    op.learns = &event->clock;
    return fake_enqueue(stream, &op, &(struct fake_dep){.stream = event->stream, .seq = event->seq},
                        1);
}

hvd_cu_result_t cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event,
                                  unsigned int flags)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamWaitEvent);

    if (result == 0 && flags)
        result = HVD_CU_INVALID_VALUE;
    if (result == 0)
        result = wait_for_event(stream, event);
    if (result == 0 && !fake_is_program())
        fake_counts()->waits++;
    return fake_end(result);
}

/* What stands against waiting for the event on the host. */
static hvd_cu_result_t check(struct CUevent_st *event, const char *call)
{
    if (!event_of(event, call))
        return HVD_CU_INVALID_HANDLE;
    if (event->is_captured) {
        fake_report(FAKE_GPU_CAPTURING, "%s of event %d, which is recorded in a capture", call,
                    event->number);
        return HVD_CU_CAPTURED_EVENT;
    }
    return event->context->broken;
}

hvd_cu_result_t cuEventQuery(struct CUevent_st *event)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuEventQuery);

    if (result == 0)
        result = check(event, "cuEventQuery");
    if (result == 0 && event->stream && event->stream->done < event->seq)
        result = HVD_CU_NOT_READY;
    if (result == 0)
        fake_clock_join(&event->context->host, &event->clock);
    return fake_end(result);
}

static hvd_cu_result_t synchronize(struct CUevent_st *event)
{
    struct fake_clock known = {0};

    fake_clock_join(&known, &event->clock);
    if (event->stream)
        fake_wait_for(event->stream, event->seq);
    fake_clock_join(&event->context->host, &known);
    fake_clock_fini(&known);
    fake_pool_trim(event->context);
    return event->context->broken;
}

hvd_cu_result_t cuEventSynchronize(struct CUevent_st *event)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuEventSynchronize);

    if (result == 0)
        result = check(event, "cuEventSynchronize");
    if (result == 0)
        result = synchronize(event);
    return fake_end(result);
}
