/* Streams, events and contexts of the double: order, delays, handles, devices. */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/gpu.h"

#define N 64
#define BYTES (N * sizeof(float))

static void streams_overtake_each_other_and_keep_their_own_order(void **state)
{
    bool first_won = false;
    bool second_won = false;

    (void)state;
    gpu_begin(2);
    fake_gpu_set(FAKE_GPU_DELAY_US, 2000);
    struct CUevent_st *early = gpu_event();
    struct CUevent_st *events[2] = {gpu_event(), gpu_event()};
    for (int i = 0; i < 60 && !(first_won && second_won); i++) {
        struct CUstream_st *streams[2] = {gpu_stream(), gpu_stream()};
        hvd_cu_result_t seen[2] = {HVD_CU_NOT_READY, HVD_CU_NOT_READY};
        GPU_OK(cuEventRecord(early, streams[0]));
        for (int s = 0; s < 2; s++)
            GPU_OK(cuEventRecord(events[s], streams[s]));
        while (seen[0] != HVD_CU_SUCCESS || seen[1] != HVD_CU_SUCCESS) {
            seen[0] = cuEventQuery(events[0]);
            seen[1] = cuEventQuery(events[1]);
            first_won = first_won || (seen[0] == HVD_CU_SUCCESS && seen[1] != HVD_CU_SUCCESS);
            second_won = second_won || (seen[1] == HVD_CU_SUCCESS && seen[0] != HVD_CU_SUCCESS);
        }
        GPU_OK(cuEventQuery(early));
        for (int s = 0; s < 2; s++)
            GPU_OK(cuStreamDestroy_v2(streams[s]));
    }
    assert_true(first_won && second_won);
    fake_gpu_set(FAKE_GPU_DELAY_US, 100);
    GPU_OK(cuEventDestroy_v2(early));
    GPU_OK(cuEventDestroy_v2(events[0]));
    GPU_OK(cuEventDestroy_v2(events[1]));
    gpu_end();
}

static void a_wait_takes_the_record_that_was_the_latest_at_the_call(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *a = gpu_stream();
    struct CUstream_st *b = gpu_stream();
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuEventQuery(event));            /* never recorded: done */
    GPU_OK(cuStreamWaitEvent(b, event, 0)); /* and nothing to wait for */
    GPU_OK(cuEventRecord(event, a));
    GPU_OK(cuStreamWaitEvent(b, event, 0));
    gpu_hold(a);
    GPU_OK(cuEventRecord(event, a)); /* b does not wait for this one */
    GPU_OK(cuStreamSynchronize(b));
    assert_int_equal(cuEventQuery(event), HVD_CU_NOT_READY);
    assert_int_equal(cuStreamQuery(a), HVD_CU_NOT_READY);
    gpu_let_go();
    GPU_OK(cuEventSynchronize(event));
    GPU_OK(cuStreamQuery(b));
    GPU_OK(cuStreamDestroy_v2(a));
    GPU_OK(cuStreamDestroy_v2(b));
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static void a_destroyed_stream_ends_its_work_and_its_handle_is_refused(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUevent_st *event = gpu_event();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    gpu_hold(stream);
    GPU_OK(cuMemsetD8Async(memory, 0, BYTES, stream));
    GPU_OK(cuEventRecord(event, stream));
    GPU_OK(cuStreamDestroy_v2(stream));
    assert_int_equal(cuEventRecord(event, stream), HVD_CU_INVALID_HANDLE);
    gpu_expect(FAKE_GPU_BAD_HANDLE);
    gpu_let_go();
    GPU_OK(cuEventSynchronize(event));
    assert_true(gpu_float_at(memory, 0) == 0);
    GPU_OK(cuEventDestroy_v2(event));
    assert_int_equal(cuEventQuery(event), HVD_CU_INVALID_HANDLE);
    gpu_expect(FAKE_GPU_BAD_HANDLE);
    GPU_OK(cuMemFree_v2(memory));
    gpu_end();
}

static void the_legacy_stream_waits_for_blocking_streams_alone(void **state)
{
    struct CUstream_st *blocking = NULL;

    (void)state;
    gpu_begin(2);
    struct CUstream_st *other = gpu_stream();
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuStreamCreateWithPriority(&blocking, HVD_CU_STREAM_DEFAULT, 0));
    gpu_hold(blocking);
    GPU_OK(cuEventRecord(event, NULL));
    GPU_OK(cuStreamSynchronize(other));
    usleep(5000);
    assert_int_equal(cuEventQuery(event), HVD_CU_NOT_READY);
    gpu_let_go();
    GPU_OK(cuEventSynchronize(event));
    gpu_hold(NULL);
    GPU_OK(cuEventRecord(event, blocking));
    usleep(5000);
    assert_int_equal(cuEventQuery(event), HVD_CU_NOT_READY);
    gpu_let_go();
    GPU_OK(cuEventSynchronize(event));
    GPU_OK(cuStreamDestroy_v2(blocking));
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static void the_null_stream_is_that_of_the_current_context(void **state)
{
    struct CUctx_st *context = NULL;

    (void)state;
    gpu_begin(2);
    GPU_OK(cuStreamGetCtx(NULL, &context));
    assert_ptr_equal(context, gpu_context(0));
    GPU_OK(cuCtxPushCurrent_v2(gpu_context(1)));
    assert_int_equal(fake_gpu_context_depth(), 2);
    GPU_OK(cuStreamGetCtx(NULL, &context));
    assert_ptr_equal(context, gpu_context(1));
    GPU_OK(cuCtxPopCurrent_v2(&context));
    assert_ptr_equal(context, gpu_context(1));
    GPU_OK(cuCtxGetCurrent(&context));
    assert_ptr_equal(context, gpu_context(0));
    gpu_end();
}

static void *without_context(void *data)
{
    hvd_cu_ptr_t memory = 0;

    (void)data;
    const bool is_refused = cuMemAlloc_v2(&memory, 8) == HVD_CU_INVALID_CONTEXT &&
                            cuEventRecord(data, NULL) == HVD_CU_INVALID_HANDLE;
    return is_refused ? data : NULL;
}

static void a_thread_without_a_context_is_refused(void **state)
{
    pthread_t thread;
    void *result = NULL;

    (void)state;
    gpu_begin(2);
    struct CUevent_st *event = gpu_event();
    pthread_create(&thread, NULL, without_context, event);
    pthread_join(thread, &result);
    assert_ptr_equal(result, event);
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static void work_in_the_wrong_context_is_found(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUevent_st *event = gpu_event();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    GPU_OK(cuCtxPushCurrent_v2(gpu_context(1)));
    struct CUstream_st *other = gpu_stream();
    assert_int_equal(cuMemsetD8Async(memory, 0, 4, stream), HVD_CU_INVALID_HANDLE);
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    assert_int_equal(cuEventRecord(event, other), HVD_CU_INVALID_HANDLE);
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    GPU_OK(cuStreamWaitEvent(other, event, 0)); /* this one may be of another device */
    GPU_OK(cuMemsetD8Async(memory, 0, 4, other));
    GPU_OK(cuStreamSynchronize(other));
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuCtxPopCurrent_v2(NULL));
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuMemFree_v2(memory));
    gpu_end();
}

static void values_in_memory_order_streams(void **state)
{
    uint32_t seen = 0;

    (void)state;
    gpu_begin(2);
    struct CUstream_st *a = gpu_stream();
    struct CUstream_st *b = gpu_stream();
    hvd_cu_ptr_t flag = gpu_floats(1, 0);
    GPU_OK(cuStreamWaitValue32_v2(a, flag, 3, HVD_CU_WAIT_VALUE_GEQ));
    usleep(5000);
    assert_int_equal(cuStreamQuery(a), HVD_CU_NOT_READY);
    GPU_OK(cuStreamWriteValue32_v2(b, flag, 4, 0));
    GPU_OK(cuStreamSynchronize(a));
    GPU_OK(cuStreamSynchronize(b));
    fake_gpu_peek(&seen, flag, sizeof(seen));
    assert_int_equal(seen, 4);
    GPU_OK(cuMemFree_v2(flag));
    GPU_OK(cuStreamDestroy_v2(a));
    GPU_OK(cuStreamDestroy_v2(b));
    gpu_end();
}

static atomic_int host_result;

static void call_the_driver(void *data)
{
    host_result = (int)cuEventQuery(data);
}

static void a_host_function_may_not_call_the_driver(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuLaunchHostFunc(stream, call_the_driver, event));
    GPU_OK(cuStreamSynchronize(stream));
    assert_int_equal(host_result, 800);
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static void devices_have_the_attributes_of_an_h100(void **state)
{
    hvd_cu_device_t device = -1;
    struct hvd_cu_uuid uuids[2];
    char name[32];
    char bus[16];
    int value = 0;
    unsigned flags = 9;

    (void)state;
    gpu_begin(2);
    GPU_OK(cuDeviceGetCount(&value));
    assert_int_equal(value, 2);
    GPU_OK(cuDeviceGet(&device, 1));
    assert_int_equal(cuDeviceGet(&device, 2), HVD_CU_INVALID_DEVICE);
    GPU_OK(cuDeviceGetAttribute(&value, HVD_CU_MULTIPROCESSOR_COUNT, device));
    assert_int_equal(value, 132);
    GPU_OK(cuDeviceGetAttribute(&value, HVD_CU_COMPUTE_CAPABILITY_MAJOR, device));
    assert_int_equal(value, 9);
    GPU_OK(cuDeviceGetName(name, sizeof(name), device));
    assert_string_equal(name, "Fake H100");
    GPU_OK(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
    assert_string_equal(bus, "0000:11:00.0");
    for (int i = 0; i < 2; i++)
        GPU_OK(cuDeviceGetUuid_v2(&uuids[i], i));
    assert_memory_not_equal(&uuids[0], &uuids[1], sizeof(uuids[0]));
    GPU_OK(cuDevicePrimaryCtxGetState(1, &flags, &value));
    assert_int_equal(value, 1);
    gpu_end();
    GPU_OK(cuDevicePrimaryCtxGetState(1, &flags, &value));
    assert_int_equal(value, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_overtake_each_other_and_keep_their_own_order),
        cmocka_unit_test(a_wait_takes_the_record_that_was_the_latest_at_the_call),
        cmocka_unit_test(a_destroyed_stream_ends_its_work_and_its_handle_is_refused),
        cmocka_unit_test(the_legacy_stream_waits_for_blocking_streams_alone),
        cmocka_unit_test(the_null_stream_is_that_of_the_current_context),
        cmocka_unit_test(a_thread_without_a_context_is_refused),
        cmocka_unit_test(work_in_the_wrong_context_is_found),
        cmocka_unit_test(values_in_memory_order_streams),
        cmocka_unit_test(a_host_function_may_not_call_the_driver),
        cmocka_unit_test(devices_have_the_attributes_of_an_h100),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
