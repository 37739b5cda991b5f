/* Modules and kernels: images, launches, lazy loading, errors of the device. */
#include "tests/unit/support.h"

#include <string.h>

#include "tests/unit/fake/gpu/gpu.h"

#define N 100
#define BYTES (N * sizeof(float))

static void a_launch_runs_all_threads_of_the_grid(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUmod_st *module = gpu_module();
    struct CUfunc_st *sum = gpu_kernel(module, "gpu_sum");
    hvd_cu_ptr_t x = gpu_floats(N, 1);
    hvd_cu_ptr_t y = gpu_floats(N, 2);
    unsigned n = N;
    void *params[] = {&x, &y, &n};
    GPU_OK(cuLaunchKernel(sum, 4, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    n = 0; /* the call has copied its parameters */
    GPU_OK(cuStreamSynchronize(stream));
    assert_true(gpu_float_at(x, 0) == 3 && gpu_float_at(x, N - 1) == 3);
    GPU_OK(cuMemFree_v2(x));
    GPU_OK(cuMemFree_v2(y));
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuModuleUnload(module));
    gpu_end();
}

static void images_are_refused_as_the_driver_does(void **state)
{
    static const struct {
        const char *image;
        hvd_cu_result_t result;
    } cases[] = {
        {"\x7f"
         "ELF",
         HVD_CU_INVALID_IMAGE},
        {".version 9.5\n.target sm_75\n", HVD_CU_UNSUPPORTED_PTX_VERSION},
        {".version 7.0\n.target sm_100\n", HVD_CU_INVALID_PTX},
        {".version 7.0\n", HVD_CU_INVALID_PTX},
        {".version 7.0\n.target sm_70\n", HVD_CU_SUCCESS},
    };
    char log[64] = "before";
    unsigned options[] = {HVD_CU_JIT_ERROR_LOG, HVD_CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, fake_pointer(sizeof(log))};

    (void)state;
    gpu_begin(2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct CUmod_st *module = NULL;
        assert_int_equal(cuModuleLoadData(&module, cases[i].image), cases[i].result);
        if (module)
            GPU_OK(cuModuleUnload(module));
    }
    struct CUmod_st *module = NULL;
    assert_int_equal(cuModuleLoadDataEx(&module, cases[2].image, 2, options, values),
                     HVD_CU_INVALID_PTX);
    assert_non_null(strstr(log, "ptxas"));
    gpu_end();
}

static void functions_are_found_by_name(void **state)
{
    struct CUfunc_st *kernel = NULL;

    (void)state;
    gpu_begin(2);
    struct CUmod_st *module = gpu_module();
    assert_int_equal(cuModuleGetFunction(&kernel, module, "gpu_ad"), HVD_CU_NOT_FOUND);
    kernel = gpu_kernel(module, "gpu_nowhere");
    assert_int_equal(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                     HVD_CU_NOT_FOUND);
    gpu_expect(FAKE_GPU_BAD_KERNEL);
    kernel = gpu_kernel(module, "gpu_add");
    assert_int_equal(cuLaunchKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL),
                     HVD_CU_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                     HVD_CU_INVALID_VALUE);
    GPU_OK(cuModuleUnload(module));
    assert_int_equal(gpu_launch_add(kernel, NULL, 0, 1, 0), HVD_CU_INVALID_HANDLE);
    gpu_expect(FAKE_GPU_BAD_HANDLE);
    gpu_end();
}

static void a_kernel_of_another_device_is_refused(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUmod_st *module = gpu_module();
    struct CUfunc_st *add = gpu_kernel(module, "gpu_add");
    GPU_OK(cuCtxPushCurrent_v2(gpu_context(1)));
    assert_int_equal(gpu_launch_add(add, NULL, 0, 0, 0), HVD_CU_INVALID_HANDLE);
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    GPU_OK(cuCtxPopCurrent_v2(NULL));
    GPU_OK(cuModuleUnload(module));
    gpu_end();
}

/* The first launch of a kernel that is loaded late waits until the device is idle. */
static void lazy_loading_waits_for_the_device(void **state)
{
    struct fake_gpu_counts counts;
    struct CUfunc_st *add = NULL;

    (void)state;
    for (int mode = 0; mode <= 2; mode++) {
        gpu_begin(2);
        fake_gpu_set(FAKE_GPU_LAZY_LOADING, mode);
        struct CUstream_st *stream = gpu_stream();
        struct CUmod_st *module = gpu_module();
        hvd_cu_ptr_t memory = gpu_floats(N, 0);
        fake_gpu_forget();
        GPU_OK(cuModuleGetFunction(&add, module, "gpu_add"));
        fake_gpu_counts(&counts);
        assert_int_equal(counts.blocking, mode == 1);
        GPU_OK(cuMemsetD8Async(memory, 0, BYTES, stream));
        GPU_OK(gpu_launch_add(add, stream, memory, N, 1));
        GPU_OK(gpu_launch_add(add, stream, memory, N, 1));
        fake_gpu_counts(&counts);
        assert_int_equal(counts.blocking, mode != 0);
        assert_int_equal(counts.launches, 2);
        GPU_OK(cuStreamSynchronize(stream));
        GPU_OK(cuMemFree_v2(memory));
        GPU_OK(cuStreamDestroy_v2(stream));
        GPU_OK(cuModuleUnload(module));
        gpu_end();
    }
}

static void a_kernel_that_fails_breaks_its_context(void **state)
{
    hvd_cu_ptr_t other = 0;

    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUevent_st *event = gpu_event();
    struct CUmod_st *module = gpu_module();
    struct CUfunc_st *add = gpu_kernel(module, "gpu_add");
    hvd_cu_ptr_t memory = gpu_floats(N, 0);
    fake_gpu_fail_kernel("gpu_add", 2, HVD_CU_LAUNCH_FAILED);
    for (int i = 0; i < 3; i++)
        GPU_OK(gpu_launch_add(add, stream, memory, N, 1));
    GPU_OK(cuEventRecord(event, stream));
    assert_int_equal(cuStreamSynchronize(stream), HVD_CU_LAUNCH_FAILED);
    assert_int_equal(cuEventQuery(event), HVD_CU_LAUNCH_FAILED);
    assert_int_equal(cuMemAlloc_v2(&other, 8), HVD_CU_LAUNCH_FAILED);
    assert_true(gpu_float_at(memory, 0) == 1); /* the one in front of it */
    fake_gpu_break_device(0, 0);
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuModuleUnload(module));
    gpu_end();
}

static void a_pointer_to_nothing_breaks_the_context(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUmod_st *module = gpu_module();
    struct CUfunc_st *add = gpu_kernel(module, "gpu_add");
    GPU_OK(gpu_launch_add(add, stream, 4096, N, 1));
    assert_int_equal(cuStreamSynchronize(stream), HVD_CU_ILLEGAL_ADDRESS);
    gpu_expect(FAKE_GPU_OUT_OF_BOUNDS);
    assert_int_equal(cuCtxSynchronize(), HVD_CU_ILLEGAL_ADDRESS);
    fake_gpu_break_device(0, 0);
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuModuleUnload(module));
    gpu_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_runs_all_threads_of_the_grid),
        cmocka_unit_test(images_are_refused_as_the_driver_does),
        cmocka_unit_test(functions_are_found_by_name),
        cmocka_unit_test(a_kernel_of_another_device_is_refused),
        cmocka_unit_test(lazy_loading_waits_for_the_device),
        cmocka_unit_test(a_kernel_that_fails_breaks_its_context),
        cmocka_unit_test(a_pointer_to_nothing_breaks_the_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
