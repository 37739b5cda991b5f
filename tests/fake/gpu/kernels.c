/*
 * The kernels of the CUDA adapter, compiled as C, for the double of the driver and for unit tests:
 * one call for each thread, and the ranges that a launch accesses.
 */
#include "tests/fake/gpu/device_c.h"

#include "worker/device/cuda/kernels.cu" /* NOLINT(bugprone-suspicious-include) */

/* Reports what a launch reads and writes: the arrays, and both sides of each piece. */
static void ranges(void **params, fake_range_fn add, void *to)
{
    const struct hvd_cuda_args *args = params[0];
    const uint64_t table_bytes = args->n_pieces * sizeof(struct hvd_cuda_piece) +
                                 (args->n_tiles + UINT64_C(1)) * sizeof(uint32_t);
    const struct hvd_cuda_piece *pieces = FAKE_GPU_AT(device_pointer(args->table));
    const uint64_t *addresses = FAKE_GPU_AT(device_pointer(args->addresses));

    if (args->n_tiles == 0)
        return;
    if (!add(to, device_pointer(args->table), table_bytes, false) ||
        !add(to, device_pointer(args->addresses), args->n_pieces * sizeof(uint64_t), false))
        return;
    for (uint32_t i = 0; i < args->n_pieces; i++) {
        const void *packed = device_pointer(args->buffer + pieces[i].offset);
        const void *tensor = device_pointer(addresses[i]);

        if (tensor || !args->is_unpack)
            (void)add(to, packed, pieces[i].bytes, !args->is_unpack);
        if (tensor)
            (void)add(to, tensor, pieces[i].bytes, args->is_unpack);
    }
}

#define CALL(ENUMERATOR, NAME, STEP)                                                               \
    static void call_##NAME(void **params)                                                         \
    {                                                                                              \
        NAME(*(const struct hvd_cuda_args *)params[0]);                                            \
    }

HVD_CUDA_KERNELS(CALL)

#define ROW(ENUMERATOR, NAME, STEP)                                                                \
    [ENUMERATOR] = {                                                                               \
        .name = #NAME,                                                                             \
        .call = call_##NAME,                                                                       \
        .ranges = ranges,                                                                          \
        .param_bytes = {sizeof(struct hvd_cuda_args)},                                             \
    },

const struct fake_kernel fake_kernels[] = {HVD_CUDA_KERNELS(ROW){.name = NULL}};
