/* Memory of the double: who can access it, where it ends, what is left over. */
#include "tests/unit/support.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/gpu.h"

#define N 100
#define BYTES (N * sizeof(float))

/* Whether a child that reads the byte dies of it. */
static bool read_faults(const volatile char *at)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*at ? 1 : 2);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status);
}

static void the_program_cannot_read_device_memory(void **state)
{
    (void)state;
    gpu_begin(2);
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    char *pinned = NULL;
    GPU_OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    assert_true(read_faults(fake_pointer(memory)));
    assert_false(read_faults(pinned));
    assert_true(read_faults(pinned + BYTES + 4096)); /* behind its end */
    GPU_OK(cuMemFree_v2(memory));
    assert_true(read_faults(FAKE_GPU_AT(fake_pointer(memory)))); /* the alias has ended, too */
    GPU_OK(cuMemFreeHost(pinned));
    gpu_end();
}

static void pinned_memory_is_the_same_on_both_sides(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    float *pinned = NULL;
    GPU_OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    pinned[N - 1] = 7;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    GPU_OK(cuMemcpyHtoDAsync_v2(memory, pinned, BYTES, stream));
    GPU_OK(cuMemsetD8Async((hvd_cu_ptr_t)(uintptr_t)pinned, 0, BYTES, stream));
    GPU_OK(cuStreamSynchronize(stream));
    assert_true(pinned[N - 1] == 0);
    assert_true(gpu_float_at(memory, N - 1) == 7);
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuMemFreeHost(pinned));
    gpu_end();
}

static void accesses_out_of_bounds_are_found(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    const char byte = 1;
    GPU_OK(cuMemsetD8Async(memory + 1, 0, BYTES, stream));
    GPU_OK(cuStreamSynchronize(stream));
    gpu_expect(FAKE_GPU_OUT_OF_BOUNDS);
    fake_gpu_poke(memory + BYTES, &byte, 1); /* as a kernel would that hides its ranges */
    GPU_OK(cuMemFree_v2(memory));
    gpu_expect(FAKE_GPU_OUT_OF_BOUNDS);
    assert_int_equal(cuMemFree_v2(memory), HVD_CU_INVALID_VALUE);
    gpu_expect(FAKE_GPU_USE_AFTER_FREE);
    GPU_OK(cuStreamDestroy_v2(stream));
    gpu_end();
}

static void memory_of_the_wrong_side_is_found(void **state)
{
    float host[N] = {0};

    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    assert_int_equal(cuMemcpyHtoDAsync_v2((hvd_cu_ptr_t)(uintptr_t)host, host, 4, stream),
                     HVD_CU_INVALID_VALUE);
    gpu_expect(FAKE_GPU_OUT_OF_BOUNDS);
    assert_int_equal(cuMemcpyDtoHAsync_v2(fake_pointer(memory), memory, 4, stream),
                     HVD_CU_INVALID_VALUE);
    gpu_expect(FAKE_GPU_OUT_OF_BOUNDS);
    assert_int_equal(cuMemFreeHost(fake_pointer(memory)), HVD_CU_INVALID_VALUE);
    gpu_expect(FAKE_GPU_BAD_HANDLE);
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuStreamDestroy_v2(stream));
    gpu_end();
}

static void copies_with_pageable_memory_wait_for_the_stream(void **state)
{
    struct fake_gpu_counts counts;
    float host[N];

    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    fake_gpu_forget();
    GPU_OK(cuMemcpyDtoHAsync_v2(host, memory, BYTES, stream));
    assert_true(host[N - 1] == 1);
    host[0] = 5;
    GPU_OK(cuMemcpyHtoDAsync_v2(memory, host, BYTES, stream));
    assert_true(gpu_float_at(memory, 0) == 5);
    fake_gpu_counts(&counts);
    assert_int_equal(counts.blocking, 2);
    assert_int_equal(counts.uploads, 1);
    assert_int_equal(counts.downloads, 1);
    GPU_OK(cuStreamSynchronize(stream));
    GPU_OK(cuMemcpyDtoH_v2(host, memory, BYTES));
    assert_true(host[0] == 5);
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuStreamDestroy_v2(stream));
    gpu_end();
}

static void memory_runs_out(void **state)
{
    hvd_cu_ptr_t memory = 0;
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    (void)state;
    gpu_begin(2);
    fake_gpu_set(FAKE_GPU_MEMORY_MIB, 1);
    assert_int_equal(cuMemAlloc_v2(&memory, (1 << 20) + 1), HVD_CU_OUT_OF_MEMORY);
    GPU_OK(cuMemAlloc_v2(&memory, 1 << 20));
    GPU_OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 0);
    assert_int_equal(total_bytes, 1 << 20);
    GPU_OK(cuMemFree_v2(memory));
    fake_gpu_set(FAKE_GPU_MEMORY_MIB, 81920);
    gpu_end();
}

static void pointers_have_attributes(void **state)
{
    unsigned names[] = {HVD_CU_POINTER_MEMORY_TYPE, HVD_CU_POINTER_DEVICE_ORDINAL,
                        HVD_CU_POINTER_RANGE_SIZE, HVD_CU_POINTER_CONTEXT};
    unsigned type = 9;
    int device = 9;
    size_t bytes = 9;
    struct CUctx_st *context = NULL;
    void *values[] = {&type, &device, &bytes, &context};
    int local = 0;

    (void)state;
    gpu_begin(2);
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    GPU_OK(cuPointerGetAttributes(4, names, values, memory + 8));
    assert_int_equal(type, HVD_CU_MEMORY_DEVICE);
    assert_int_equal(device, 0);
    assert_int_equal(bytes, BYTES);
    assert_ptr_equal(context, gpu_context(0));
    GPU_OK(cuPointerGetAttributes(4, names, values, (hvd_cu_ptr_t)(uintptr_t)&local));
    assert_int_equal(type, 0);
    GPU_OK(cuMemFree_v2(memory));
    gpu_end();
}

static uint64_t pool_has(struct CUmemPoolHandle_st *pool, unsigned attribute)
{
    uint64_t value = 77;

    GPU_OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void the_pool_keeps_its_threshold(void **state)
{
    struct CUmemPoolHandle_st *pool = NULL;
    uint64_t threshold = BYTES;
    hvd_cu_ptr_t memory[3];

    (void)state;
    gpu_begin(1);
    struct CUstream_st *stream = gpu_stream();
    GPU_OK(cuDeviceGetMemPool(&pool, 0));
    assert_int_equal(cuDeviceGetMemPool(&pool, 99), HVD_CU_INVALID_DEVICE);
    assert_int_equal(pool_has(pool, HVD_CU_POOL_RELEASE_THRESHOLD), 0);
    for (int i = 0; i < 3; i++)
        GPU_OK(cuMemAllocAsync(&memory[i], BYTES, stream));
    assert_int_equal(pool_has(pool, HVD_CU_POOL_USED_CURRENT), 3 * BYTES);
    GPU_OK(cuMemFreeAsync(memory[0], stream));
    assert_int_equal(pool_has(pool, HVD_CU_POOL_RESERVED_CURRENT), 3 * BYTES);
    GPU_OK(cuStreamSynchronize(stream));
    assert_int_equal(pool_has(pool, HVD_CU_POOL_RESERVED_CURRENT), 2 * BYTES);
    GPU_OK(cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &threshold));
    GPU_OK(cuMemFreeAsync(memory[1], stream));
    GPU_OK(cuMemFreeAsync(memory[2], stream));
    GPU_OK(cuCtxSynchronize());
    assert_int_equal(pool_has(pool, HVD_CU_POOL_USED_CURRENT), 0);
    assert_int_equal(pool_has(pool, HVD_CU_POOL_RESERVED_CURRENT), BYTES);
    assert_int_equal(cuMemPoolSetAttribute(pool, HVD_CU_POOL_USED_CURRENT, &threshold),
                     HVD_CU_INVALID_VALUE);
    threshold = 0;
    GPU_OK(cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &threshold));
    GPU_OK(cuStreamDestroy_v2(stream));
    gpu_end();
}

static void leaks_are_found(void **state)
{
    (void)state;
    gpu_begin(2);
    struct CUstream_st *stream = gpu_stream();
    struct CUevent_st *event = gpu_event();
    struct CUmod_st *module = gpu_module();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    /* And two contexts. */
    assert_int_equal(fake_gpu_check_leaks(), 6);
    assert_int_equal(fake_gpu_found(FAKE_GPU_LEAK), 6);
    fake_gpu_forget();
    GPU_OK(cuStreamDestroy_v2(stream));
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuModuleUnload(module));
    GPU_OK(cuMemFree_v2(memory));
    gpu_end();
}

static void the_library_is_found_by_the_name_of_the_driver(void **state)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    hvd_cu_result_t (*linked)(hvd_cu_ptr_t) = cuMemFree_v2;

    (void)state;
    assert_non_null(library);
    void *found = dlsym(library, "cuMemFree_v2");
    assert_memory_equal(&found, &linked, sizeof(found));
    assert_non_null(dlsym(library, "fake_gpu_found"));
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_cannot_read_device_memory),
        cmocka_unit_test(pinned_memory_is_the_same_on_both_sides),
        cmocka_unit_test(accesses_out_of_bounds_are_found),
        cmocka_unit_test(memory_of_the_wrong_side_is_found),
        cmocka_unit_test(copies_with_pageable_memory_wait_for_the_stream),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(pointers_have_attributes),
        cmocka_unit_test(the_pool_keeps_its_threshold),
        cmocka_unit_test(leaks_are_found),
        cmocka_unit_test(the_library_is_found_by_the_name_of_the_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
