/*
 * The state of captures. What is put on a capturing stream is recorded, which here means that it
 * does not run. A call that may synchronise breaks the captures that its thread's mode protects.
 */
#include "tests/fake/gpu/machine.h"

#include <stdlib.h>

struct CUgraph_st {
    struct CUgraph_st *next;
};

static struct CUgraph_st *graphs; /* they stay */
static uint64_t n_threads;
static _Thread_local unsigned mode; /* of the thread: HVD_CU_CAPTURE_GLOBAL at first */
static _Thread_local uint64_t thread;

static uint64_t this_thread(void)
{
    if (!thread)
        thread = ++n_threads;
    return thread;
}

/* Whether a capture forbids the calling thread what is unsafe. */
static bool forbids(const struct CUstream_st *stream)
{
    if (stream->capture_state != HVD_CU_CAPTURE_ACTIVE || stream->capture_origin != stream ||
        mode == HVD_CU_CAPTURE_RELAXED)
        return false;
    if (stream->capture_thread == this_thread())
        return stream->capture_mode != HVD_CU_CAPTURE_RELAXED;
    return mode == HVD_CU_CAPTURE_GLOBAL && stream->capture_mode == HVD_CU_CAPTURE_GLOBAL;
}

hvd_cu_result_t fake_capture_check(enum fake_call call)
{
    hvd_cu_result_t result = HVD_CU_SUCCESS;

    for (int i = 0; i < FAKE_MAX_DEVICES; i++) {
        for (struct CUstream_st *s = fake_context(i)->streams; s; s = s->next) {
            if (!forbids(s))
                continue;
            s->capture_state = HVD_CU_CAPTURE_INVALIDATED;
            result = HVD_CU_STREAM_CAPTURE_UNSUPPORTED;
            fake_report(FAKE_GPU_CAPTURE_BROKEN, "%s while stream %d is captured",
                        fake_call_name(call), s->number);
        }
    }
    return result;
}

/* Work on the legacy stream would wait for the blocking streams, also for captured ones. */
static hvd_cu_result_t check_legacy(struct CUstream_st *legacy, const char *call)
{
    for (struct CUstream_st *s = legacy->context->streams; s; s = s->next) {
        if (!s->is_blocking || s->capture_state != HVD_CU_CAPTURE_ACTIVE)
            continue;
        s->capture_origin->capture_state = HVD_CU_CAPTURE_INVALIDATED;
        fake_report(FAKE_GPU_CAPTURE_BROKEN,
                    "%s on the legacy stream while the blocking stream %d is captured", call,
                    s->number);
        return HVD_CU_STREAM_CAPTURE_IMPLICIT;
    }
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t fake_capture_enqueue(struct CUstream_st *stream, const char *call,
                                     bool *is_captured)
{
    if (stream == stream->context->legacy)
        return check_legacy(stream, call);
    if (stream->capture_state == HVD_CU_CAPTURE_NONE)
        return HVD_CU_SUCCESS;
    if (!fake_is_program())
        fake_report(FAKE_GPU_CAPTURING, "%s on stream %d, which is captured", call, stream->number);
    if (stream->capture_origin->capture_state == HVD_CU_CAPTURE_INVALIDATED)
        return HVD_CU_STREAM_CAPTURE_INVALIDATED;
    *is_captured = true;
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuStreamIsCapturing(struct CUstream_st *handle, unsigned int *state)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamIsCapturing);
    struct CUstream_st *stream = result == 0 ? fake_stream_any(handle) : NULL;

    if (result == 0 && !stream)
        result = HVD_CU_INVALID_HANDLE;
    if (result == 0 && stream == stream->context->legacy)
        for (struct CUstream_st *s = stream->context->streams; s && result == 0; s = s->next)
            if (s->is_blocking && s->capture_state == HVD_CU_CAPTURE_ACTIVE)
                result = HVD_CU_STREAM_CAPTURE_IMPLICIT;
    if (result == 0)
        *state = stream->capture_state == HVD_CU_CAPTURE_NONE
                     ? HVD_CU_CAPTURE_NONE
                     : stream->capture_origin->capture_state;
    return fake_end(result);
}

static hvd_cu_result_t begin(struct CUstream_st *handle, unsigned int asked)
{
    struct CUstream_st *stream = fake_stream_of(handle, "cuStreamBeginCapture");

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (stream == stream->context->legacy || stream->capture_state != HVD_CU_CAPTURE_NONE)
        return HVD_CU_STREAM_CAPTURE_UNSUPPORTED;
    stream->capture_state = HVD_CU_CAPTURE_ACTIVE;
    stream->capture_mode = asked;
    stream->capture_origin = stream;
    stream->capture_thread = this_thread();
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuStreamBeginCapture_v2(struct CUstream_st *stream, unsigned int asked)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamBeginCapture_v2);

    if (result == 0)
        result = begin(stream, asked);
    return fake_end(result);
}

/* Streams that joined the capture are ordinary ones again. */
void fake_capture_end(struct CUstream_st *origin)
{
    for (int i = 0; i < FAKE_MAX_DEVICES; i++) {
        for (struct CUstream_st *s = fake_context(i)->streams; s; s = s->next) {
            if (s->capture_origin != origin)
                continue;
            s->capture_state = HVD_CU_CAPTURE_NONE;
            s->capture_origin = NULL;
        }
    }
}

static hvd_cu_result_t end(struct CUstream_st *handle, struct CUgraph_st **graph)
{
    struct CUstream_st *stream = fake_stream_any(handle);

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (stream->capture_state == HVD_CU_CAPTURE_NONE || stream->capture_origin != stream)
        return HVD_CU_STREAM_CAPTURE_UNMATCHED;
    if (stream->capture_mode != HVD_CU_CAPTURE_RELAXED && stream->capture_thread != this_thread())
        return HVD_CU_STREAM_CAPTURE_WRONG_THREAD;
    const bool is_broken = stream->capture_state == HVD_CU_CAPTURE_INVALIDATED;
    fake_capture_end(stream);
    *graph = NULL;
    if (is_broken)
        return HVD_CU_STREAM_CAPTURE_INVALIDATED;
    struct CUgraph_st *made = fake_calloc(1, sizeof(*made));
    made->next = graphs;
    graphs = made;
    *graph = made;
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuStreamEndCapture(struct CUstream_st *stream, struct CUgraph_st **graph)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamEndCapture);

    if (result == 0)
        result = end(stream, graph);
    return fake_end(result);
}

hvd_cu_result_t cuThreadExchangeStreamCaptureMode(unsigned int *exchanged)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuThreadExchangeStreamCaptureMode);

    if (result == 0) {
        const unsigned before = mode;
        mode = *exchanged;
        *exchanged = before;
    }
    return fake_end(result);
}
