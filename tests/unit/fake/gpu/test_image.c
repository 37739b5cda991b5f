/* The library's own kernels, from the image that it ships, through the double of the driver. */
#include "tests/unit/support.h"

#include <string.h>

#include "tests/unit/fake/gpu/gpu.h"
#include "worker/device/cuda/image.h"
#include "worker/device/cuda/pack_table.h"

#define N 3000

static void the_image_has_all_kernels(void **state)
{
    static const char *const names[] = {
#define NAME(ENUMERATOR, NAME, STEP) #NAME,
        HVD_CUDA_KERNELS(NAME)
#undef NAME
    };
    struct CUmod_st *module = NULL;

    (void)state;
    gpu_begin(1);
    GPU_OK(cuModuleLoadData(&module, hvd_cuda_ptx));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_non_null(gpu_kernel(module, names[i]));
    GPU_OK(cuModuleUnload(module));
    gpu_end();
}

/* Uploads what the host computed; the memory must be freed. */
static hvd_cu_ptr_t upload(const void *from, size_t bytes)
{
    hvd_cu_ptr_t memory = 0;

    GPU_OK(cuMemAlloc_v2(&memory, bytes));
    fake_gpu_poke(memory, from, bytes);
    return memory;
}

static void two_tensors_are_packed_and_scaled(void **state)
{
    const struct hvd_scaling scaling = {.prescale = 2, .postscale = 1, .divisor = 1};
    struct hvd_pack_shape shape;
    struct hvd_cuda_args args = {0};
    struct CUmod_st *module = NULL;
    uint64_t addresses[2] = {0, 0};
    char table[4096];

    (void)state;
    gpu_begin(1);
    struct CUstream_st *stream = gpu_stream();
    hvd_cu_ptr_t a = gpu_floats(N, 1);
    hvd_cu_ptr_t b = gpu_floats(N, 5);
    hvd_cu_ptr_t buffer = gpu_floats((size_t)2 * N, 0);
    const struct hvd_piece pieces[] = {
        {.input = fake_pointer(a), .output = fake_pointer(a), .count = N},
        {.input = fake_pointer(b), .output = fake_pointer(b), .count = N}};
    const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 2, .dtype = HVD_FLOAT32};
    assert_int_equal(hvd_pack_table_measure(&list, &shape, NULL), HVD_OK);
    assert_true(shape.table_bytes <= sizeof(table));
    hvd_pack_table_write(&list, &shape, table);
    (void)hvd_pack_table_addresses(&list, false, addresses);
    args.table = upload(table, shape.table_bytes);
    args.addresses = upload(addresses, sizeof(addresses));
    args.buffer = buffer;
    (void)hvd_pack_table_prepare(&list, &shape, &scaling, false, &args);
    GPU_OK(cuModuleLoadData(&module, hvd_cuda_ptx));
    struct CUfunc_st *kernel = gpu_kernel(module, "hvd_cuda_float32");
    void *params[] = {&args};
    GPU_OK(cuLaunchKernel(kernel, shape.n_blocks, 1, 1, HVD_CUDA_BLOCK, 1, 1, 0, stream, params,
                          NULL));
    GPU_OK(cuStreamSynchronize(stream));
    assert_true(gpu_float_at(buffer, N - 1) == 2);
    assert_true(gpu_float_at(buffer, (size_t)2 * N - 1) == 10);
    /* The ranges that the kernel reports are those of its tables: this write is beside its read. */
    GPU_OK(cuLaunchKernel(kernel, shape.n_blocks, 1, 1, HVD_CUDA_BLOCK, 1, 1, 0, stream, params,
                          NULL));
    GPU_OK(cuMemsetD8Async(b, 0, 1, NULL));
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_RACE);
    GPU_OK(cuStreamSynchronize(stream));
    GPU_OK(cuStreamSynchronize(NULL));
    GPU_OK(cuMemFree_v2(args.table));
    GPU_OK(cuMemFree_v2(args.addresses));
    GPU_OK(cuMemFree_v2(a));
    GPU_OK(cuMemFree_v2(b));
    GPU_OK(cuMemFree_v2(buffer));
    GPU_OK(cuModuleUnload(module));
    GPU_OK(cuStreamDestroy_v2(stream));
    gpu_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_image_has_all_kernels),
        cmocka_unit_test(two_tensors_are_packed_and_scaled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
