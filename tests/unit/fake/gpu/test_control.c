/* What a test controls and counts: faults, delays, hangs, stopped devices. */
#include "tests/unit/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/gpu.h"

static void the_nth_call_fails_once(void **state)
{
    hvd_cu_ptr_t memory[3] = {0, 0, 0};

    (void)state;
    gpu_begin(1);
    fake_gpu_fail("cuMemAlloc_v2", 2, HVD_CU_OUT_OF_MEMORY);
    GPU_OK(cuMemAlloc_v2(&memory[0], 8));
    fake_gpu_as_program(true);
    GPU_OK(cuMemAlloc_v2(&memory[1], 8)); /* of the program: neither counted nor failed */
    fake_gpu_as_program(false);
    assert_int_equal(cuMemAlloc_v2(&memory[2], 8), HVD_CU_OUT_OF_MEMORY);
    assert_int_equal(memory[2], 0);
    GPU_OK(cuMemAlloc_v2(&memory[2], 8));
    assert_int_equal(fake_gpu_calls("cuMemAlloc_v2"), 3);
    assert_int_equal(fake_gpu_calls("cuMemAlloc"), -1);
    for (int i = 0; i < 3; i++)
        GPU_OK(cuMemFree_v2(memory[i]));
    gpu_end();
}

/* Every call but those that need a function of the host can fail. */
static void each_call_can_fail(void **state)
{
    int failed = 0;
    const char *text = NULL;

    (void)state;
    gpu_begin(1);
#define FAILS(symbol, call)                                                                        \
    fake_gpu_fail(#symbol, 1, HVD_CU_UNKNOWN);                                                     \
    failed += (call) == HVD_CU_UNKNOWN
    FAILS(cuInit, cuInit(0));
    FAILS(cuDeviceGetCount, cuDeviceGetCount(NULL));
    FAILS(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(NULL, 0));
    FAILS(cuCtxPushCurrent_v2, cuCtxPushCurrent_v2(NULL));
    FAILS(cuCtxPopCurrent_v2, cuCtxPopCurrent_v2(NULL));
    FAILS(cuStreamCreateWithPriority, cuStreamCreateWithPriority(NULL, 0, 0));
    FAILS(cuStreamWaitEvent, cuStreamWaitEvent(NULL, NULL, 0));
    FAILS(cuEventCreate, cuEventCreate(NULL, 0));
    FAILS(cuEventRecord, cuEventRecord(NULL, NULL));
    FAILS(cuEventQuery, cuEventQuery(NULL));
    FAILS(cuMemHostAlloc, cuMemHostAlloc(NULL, 8, 0));
    FAILS(cuMemAllocAsync, cuMemAllocAsync(NULL, 8, NULL));
    FAILS(cuModuleLoadData, cuModuleLoadData(NULL, NULL));
    FAILS(cuLaunchKernel, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
#undef FAILS
    assert_int_equal(failed, 14);
    GPU_OK(cuGetErrorName(HVD_CU_NOT_READY, &text));
    assert_string_equal(text, "CUDA_ERROR_NOT_READY");
    GPU_OK(cuGetErrorString(HVD_CU_INVALID_HANDLE, &text));
    assert_string_equal(text, "invalid resource handle");
    gpu_end();
}

static void calls_are_counted_by_what_they_do(void **state)
{
    struct fake_gpu_counts counts;
    float *pinned = NULL;

    (void)state;
    gpu_begin(1);
    struct CUstream_st *stream = gpu_stream();
    struct CUevent_st *event = gpu_event();
    GPU_OK(cuMemHostAlloc((void **)&pinned, 8, 0));
    hvd_cu_ptr_t memory = gpu_floats(2, 0);
    fake_gpu_forget();
    GPU_OK(cuMemcpyHtoDAsync_v2(memory, pinned, 8, stream));
    GPU_OK(cuMemcpyDtoHAsync_v2(pinned, memory, 8, stream));
    GPU_OK(cuEventRecord(event, stream));
    GPU_OK(cuStreamWaitEvent(stream, event, 0));
    (void)cuEventQuery(event);
    (void)cuStreamQuery(stream);
    GPU_OK(cuStreamSynchronize(stream));
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuMemFreeHost(pinned));
    fake_gpu_counts(&counts);
    assert_int_equal(counts.uploads, 1);
    assert_int_equal(counts.downloads, 1);
    assert_int_equal(counts.records, 1);
    assert_int_equal(counts.waits, 1);
    assert_int_equal(counts.queries, 2);
    assert_int_equal(counts.syncs, 1);
    assert_int_equal(counts.frees, 2);
    assert_int_equal(counts.allocations, 0);
    assert_int_equal(counts.blocking, 3);
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static atomic_bool is_over;

static void *query(void *event)
{
    GPU_OK(cuEventQuery(event));
    is_over = true;
    return NULL;
}

static void a_call_hangs_until_it_is_released(void **state)
{
    pthread_t thread;

    (void)state;
    gpu_begin(1);
    struct CUevent_st *event = gpu_event();
    fake_gpu_hang("cuEventQuery", 1);
    pthread_create(&thread, NULL, query, event);
    usleep(20000);
    assert_false(is_over);
    fake_gpu_release();
    pthread_join(thread, NULL);
    assert_true(is_over);
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static void a_call_is_late(void **state)
{
    struct timespec before;
    struct timespec after;

    (void)state;
    gpu_begin(1);
    struct CUevent_st *event = gpu_event();
    fake_gpu_delay("cuEventQuery", 1, 30);
    clock_gettime(CLOCK_MONOTONIC, &before);
    GPU_OK(cuEventQuery(event));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(
        (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 29);
    GPU_OK(cuEventDestroy_v2(event));
    gpu_end();
}

static void a_stopped_device_does_no_work(void **state)
{
    (void)state;
    gpu_begin(1);
    struct CUstream_st *stream = gpu_stream();
    fake_gpu_stop_device(0, true);
    hvd_cu_ptr_t memory = gpu_floats(1, 1);
    GPU_OK(cuMemsetD8Async(memory, 0, 4, stream));
    assert_false(fake_gpu_settle(20));
    assert_int_equal(cuStreamQuery(stream), HVD_CU_NOT_READY);
    fake_gpu_stop_device(0, false);
    GPU_OK(cuStreamSynchronize(stream));
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuStreamDestroy_v2(stream));
    gpu_end();
}

/* What this program does in a process of its own. */
static int have_a_finding(void)
{
    gpu_begin(1);
    fake_gpu_set(FAKE_GPU_FATAL, 1);
    (void)cuMemFree_v2(4096);
    return 0;
}

static void a_finding_ends_the_process_by_default(void **state)
{
    int status = 0;
    int ends[2];
    char text[512] = {0};

    (void)state;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) { /* a thread of an earlier test may have held a lock, so nothing more here */
        dup2(ends[1], STDERR_FILENO);
        execl("/proc/self/exe", "test", "finding", (char *)NULL);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    close(ends[0]);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "fake gpu: bad handle: cuMemFree of"));
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return have_a_finding();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_fails_once),
        cmocka_unit_test(each_call_can_fail),
        cmocka_unit_test(calls_are_counted_by_what_they_do),
        cmocka_unit_test(a_call_hangs_until_it_is_released),
        cmocka_unit_test(a_call_is_late),
        cmocka_unit_test(a_stopped_device_does_no_work),
        cmocka_unit_test(a_finding_ends_the_process_by_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
