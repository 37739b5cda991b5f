/* The table of kernels that the double of the driver reads. */
#include "tests/unit/support.h"

#include "tests/fake/gpu/kernel.h"
#include "worker/device/cuda/pack_table.h"

/* Defined by whatever runs kernels. */
_Thread_local struct fake_dim3 threadIdx;
_Thread_local struct fake_dim3 blockIdx;

static uint64_t device_address(const void *memory)
{
    return (uint64_t)(uintptr_t)memory - (uint64_t)FAKE_GPU_ALIAS;
}

/* The ranges that a launch reports. */
struct seen {
    uint64_t at[16];
    size_t bytes[16];
    bool is_write[16];
    int n;
};

static bool add(void *to, const void *at, size_t bytes, bool is_write)
{
    struct seen *seen = to;

    assert_in_range(seen->n, 0, 15);
    seen->at[seen->n] = (uint64_t)(uintptr_t)at;
    seen->bytes[seen->n] = bytes;
    seen->is_write[seen->n++] = is_write;
    return true;
}

static void a_launch_reports_what_it_accesses(void **state)
{
    char buffer[64];
    char tensor[32];
    const struct hvd_piece pieces[] = {{tensor, tensor, 8}, {NULL, NULL, 4}};
    const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 2, .dtype = HVD_FLOAT32};
    struct hvd_pack_shape shape;
    _Alignas(8) char table[64];
    uint64_t addresses[2] = {0};
    struct hvd_cuda_args args = {.buffer = device_address(buffer)};
    void *params[] = {&args};

    (void)state;
    args.table = device_address(table);
    args.addresses = device_address(addresses);
    assert_int_equal(hvd_pack_table_measure(&list, &shape, NULL), HVD_OK);
    hvd_pack_table_write(&list, &shape, table);
    hvd_pack_table_addresses(&list, false, addresses);
    addresses[0] = device_address(tensor);
    for (int is_unpack = 0; is_unpack < 2; is_unpack++) {
        const int kernel = (int)hvd_pack_table_prepare(&list, &shape, NULL, is_unpack != 0, &args);
        struct seen seen = {.n = 0};

        fake_kernels[kernel].ranges(params, add, &seen);
        assert_int_equal(seen.n, is_unpack ? 4 : 5);
        assert_int_equal(seen.at[0], args.table);
        assert_int_equal(seen.bytes[0], shape.table_bytes);
        assert_int_equal(seen.at[1], args.addresses);
        assert_int_equal(seen.bytes[1], sizeof(addresses));
        assert_int_equal(seen.at[2], args.buffer);
        assert_int_equal(seen.at[3], addresses[0]);
        for (int i = 0; i < seen.n; i++)
            assert_int_equal(seen.is_write[i], i >= 2 && (i != 3) == !is_unpack);
        if (!is_unpack)
            assert_int_equal(seen.at[4], args.buffer + 32);
    }
    args.n_tiles = 0;
    fake_kernels[0].ranges(params, add, &(struct seen){.n = 16});
}

static void the_table_of_kernels_has_their_names(void **state)
{
    (void)state;
    for (int i = 0; i < HVD_CUDA_N_KERNELS; i++) {
        assert_memory_equal(fake_kernels[i].name, "hvd_cuda_", 9);
        assert_int_equal(fake_kernels[i].param_bytes[0], sizeof(struct hvd_cuda_args));
        assert_int_equal(fake_kernels[i].param_bytes[1], 0);
    }
    assert_null(fake_kernels[HVD_CUDA_N_KERNELS].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_reports_what_it_accesses),
        cmocka_unit_test(the_table_of_kernels_has_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
