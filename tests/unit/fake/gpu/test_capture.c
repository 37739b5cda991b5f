/* Captures: what breaks them, and what the library must not do with a capturing stream. */
#include "tests/unit/support.h"

#include <pthread.h>

#include "tests/unit/fake/gpu/gpu.h"

/* A stream of the program that is captured, from another thread, or from this one. */
struct capture {
    struct CUstream_st *stream;
    unsigned mode;
};

static void *begin_capture(void *data)
{
    const struct capture *capture = data;

    fake_gpu_as_program(true);
    GPU_OK(cuCtxPushCurrent_v2(gpu_context(0)));
    GPU_OK(cuStreamBeginCapture_v2(capture->stream, capture->mode));
    GPU_OK(cuCtxPopCurrent_v2(NULL));
    return NULL;
}

/* A thread began the capture, so the end is refused here; which capture mode relaxed is not. */
static struct capture begin(unsigned mode, bool is_elsewhere)
{
    struct capture capture = {.mode = mode};
    pthread_t thread;

    gpu_begin(1);
    capture.stream = gpu_stream();
    if (!is_elsewhere) {
        GPU_OK(cuStreamBeginCapture_v2(capture.stream, mode));
        return capture;
    }
    pthread_create(&thread, NULL, begin_capture, &capture);
    pthread_join(thread, NULL);
    return capture;
}

static unsigned state_of(const struct capture *capture)
{
    unsigned state = 9;

    GPU_OK(cuStreamIsCapturing(capture->stream, &state));
    return state;
}

static void end(const struct capture *capture)
{
    GPU_OK(cuStreamDestroy_v2(capture->stream));
    gpu_end();
}

static void a_query_beside_a_global_capture_breaks_it(void **state)
{
    (void)state;
    struct capture capture = begin(HVD_CU_CAPTURE_GLOBAL, true);
    struct CUevent_st *event = gpu_event();
    assert_int_equal(state_of(&capture), HVD_CU_CAPTURE_ACTIVE);
    assert_int_equal(cuEventQuery(event), HVD_CU_STREAM_CAPTURE_UNSUPPORTED);
    gpu_expect(FAKE_GPU_CAPTURE_BROKEN);
    assert_int_equal(state_of(&capture), HVD_CU_CAPTURE_INVALIDATED);
    GPU_OK(cuEventDestroy_v2(event));
    end(&capture);
}

static void a_relaxed_thread_does_not_break_it(void **state)
{
    unsigned mode = HVD_CU_CAPTURE_RELAXED;

    (void)state;
    struct capture capture = begin(HVD_CU_CAPTURE_GLOBAL, true);
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, HVD_CU_CAPTURE_GLOBAL);
    GPU_OK(cuEventQuery(event));
    hvd_cu_ptr_t memory = gpu_floats(1, 0);
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, HVD_CU_CAPTURE_RELAXED);
    assert_int_equal(state_of(&capture), HVD_CU_CAPTURE_ACTIVE);
    GPU_OK(cuEventDestroy_v2(event));
    end(&capture);
}

static void captures_of_other_modes_bind_their_own_thread(void **state)
{
    struct CUgraph_st *graph = NULL;

    (void)state;
    struct capture capture = begin(HVD_CU_CAPTURE_THREAD_LOCAL, true);
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuEventQuery(event));
    assert_int_equal(cuStreamEndCapture(capture.stream, &graph),
                     HVD_CU_STREAM_CAPTURE_WRONG_THREAD);
    GPU_OK(cuEventDestroy_v2(event));
    end(&capture);
    capture = begin(HVD_CU_CAPTURE_THREAD_LOCAL, false);
    event = gpu_event();
    assert_int_equal(cuEventQuery(event), HVD_CU_STREAM_CAPTURE_UNSUPPORTED);
    gpu_expect(FAKE_GPU_CAPTURE_BROKEN);
    assert_int_equal(cuStreamEndCapture(capture.stream, &graph), HVD_CU_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    GPU_OK(cuEventDestroy_v2(event));
    end(&capture);
}

static void the_library_may_put_nothing_on_a_capturing_stream(void **state)
{
    struct CUgraph_st *graph = NULL;

    (void)state;
    struct capture capture = begin(HVD_CU_CAPTURE_RELAXED, false);
    struct CUevent_st *event = gpu_event();
    hvd_cu_ptr_t memory = gpu_floats(1, 3);
    fake_gpu_as_program(true);
    GPU_OK(cuMemsetD8Async(memory, 0, 4, capture.stream)); /* the program may */
    fake_gpu_as_program(false);
    assert_int_equal(fake_gpu_found_any(), 0);
    GPU_OK(cuEventRecord(event, capture.stream));
    gpu_expect(FAKE_GPU_CAPTURING);
    assert_int_equal(cuEventQuery(event), HVD_CU_CAPTURED_EVENT);
    gpu_expect(FAKE_GPU_CAPTURING);
    GPU_OK(cuStreamEndCapture(capture.stream, &graph));
    assert_non_null(graph);
    assert_true(fake_gpu_settle(20000));
    assert_true(gpu_float_at(memory, 0) == 3); /* what is captured does not run */
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuMemFree_v2(memory));
    end(&capture);
}

static void waiting_for_a_captured_event_joins_the_capture(void **state)
{
    struct CUgraph_st *graph = NULL;
    unsigned joined = 9;

    (void)state;
    struct capture capture = begin(HVD_CU_CAPTURE_RELAXED, false);
    struct CUevent_st *event = gpu_event();
    struct CUstream_st *ours = gpu_stream();
    fake_gpu_as_program(true);
    GPU_OK(cuEventRecord(event, capture.stream));
    fake_gpu_as_program(false);
    GPU_OK(cuStreamWaitEvent(ours, event, 0));
    gpu_expect(FAKE_GPU_CAPTURING);
    GPU_OK(cuStreamIsCapturing(ours, &joined));
    assert_int_equal(joined, HVD_CU_CAPTURE_ACTIVE);
    GPU_OK(cuStreamEndCapture(capture.stream, &graph));
    GPU_OK(cuStreamIsCapturing(ours, &joined));
    assert_int_equal(joined, HVD_CU_CAPTURE_NONE);
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuStreamDestroy_v2(ours));
    end(&capture);
}

static void a_captured_stream_cannot_wait_for_work_outside(void **state)
{
    (void)state;
    struct capture capture = begin(HVD_CU_CAPTURE_RELAXED, false);
    struct CUevent_st *event = gpu_event();
    struct CUstream_st *ours = gpu_stream();
    GPU_OK(cuEventRecord(event, ours));
    assert_int_equal(cuStreamWaitEvent(capture.stream, event, 0), HVD_CU_STREAM_CAPTURE_ISOLATION);
    gpu_expect(FAKE_GPU_CAPTURE_BROKEN);
    assert_int_equal(state_of(&capture), HVD_CU_CAPTURE_INVALIDATED);
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuStreamDestroy_v2(ours));
    end(&capture);
}

static void the_legacy_stream_breaks_captures_of_blocking_streams(void **state)
{
    struct CUstream_st *blocking = NULL;
    struct CUgraph_st *graph = NULL;
    unsigned capture_state = 9;

    (void)state;
    gpu_begin(1);
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuStreamCreateWithPriority(&blocking, HVD_CU_STREAM_DEFAULT, 0));
    GPU_OK(cuStreamBeginCapture_v2(blocking, HVD_CU_CAPTURE_RELAXED));
    assert_int_equal(cuStreamIsCapturing(NULL, &capture_state), HVD_CU_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(cuEventRecord(event, NULL), HVD_CU_STREAM_CAPTURE_IMPLICIT);
    gpu_expect(FAKE_GPU_CAPTURE_BROKEN);
    assert_int_equal(cuStreamEndCapture(blocking, &graph), HVD_CU_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamBeginCapture_v2(NULL, HVD_CU_CAPTURE_RELAXED),
                     HVD_CU_STREAM_CAPTURE_UNSUPPORTED);
    GPU_OK(cuStreamDestroy_v2(blocking));
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_beside_a_global_capture_breaks_it),
        cmocka_unit_test(a_relaxed_thread_does_not_break_it),
        cmocka_unit_test(captures_of_other_modes_bind_their_own_thread),
        cmocka_unit_test(the_library_may_put_nothing_on_a_capturing_stream),
        cmocka_unit_test(waiting_for_a_captured_event_joins_the_capture),
        cmocka_unit_test(a_captured_stream_cannot_wait_for_work_outside),
        cmocka_unit_test(the_legacy_stream_breaks_captures_of_blocking_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
