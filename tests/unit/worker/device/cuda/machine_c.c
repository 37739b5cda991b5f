/* The host, which runs the threads of a launch one after the other. */
#include "tests/unit/support.h"

#include "tests/fake/gpu/kernel.h"
#include "tests/unit/worker/device/cuda/machine.h"

_Thread_local struct fake_dim3 threadIdx;
_Thread_local struct fake_dim3 blockIdx;
_Thread_local struct fake_dim3 blockDim;
_Thread_local struct fake_dim3 gridDim;

/* The device's address of memory that the host has; 0 has none. */
static uint64_t on_device(uint64_t address)
{
    return address ? address - (uint64_t)FAKE_GPU_ALIAS : 0;
}

void machine_run(const struct machine_launch *launch)
{
    struct hvd_pack_shape shape;
    struct hvd_cuda_args args;
    void *params[] = {&args};

    assert_int_equal(hvd_pack_table_measure(launch->list, &shape, NULL), HVD_OK);
    void *table = hvd_malloc(shape.table_bytes + 1, 1);
    uint64_t *addresses = hvd_calloc(shape.n_pieces + 1, sizeof(*addresses));
    assert_non_null(table);
    assert_non_null(addresses);
    hvd_pack_table_write(launch->list, &shape, table);
    hvd_pack_table_addresses(launch->list, launch->is_unpack, addresses);
    for (uint32_t i = 0; i < shape.n_pieces; i++)
        addresses[i] = on_device(addresses[i]);
    args.table = on_device((uintptr_t)table);
    args.addresses = on_device((uintptr_t)addresses);
    args.buffer = on_device((uintptr_t)launch->buffer);
    const enum hvd_cuda_kernel kernel =
        hvd_pack_table_prepare(launch->list, &shape, launch->scaling, launch->is_unpack, &args);
    for (blockIdx.x = 0; blockIdx.x < shape.n_blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < HVD_CUDA_BLOCK; threadIdx.x++)
            fake_kernels[kernel].call(params);
    hvd_free(table);
    hvd_free(addresses);
}

const char *machine_missing(void)
{
    return NULL;
}

bool machine_is_host(void)
{
    return true;
}
