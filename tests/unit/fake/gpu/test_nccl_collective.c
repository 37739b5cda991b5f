/* Collectives of the double: results, arithmetic, groups, and ranks that do not agree. */
#include "tests/unit/support.h"

#include <math.h>
#include <string.h>

#include "tests/unit/fake/gpu/world.h"

#define N 10

static const int sizes[] = {1, 2, 3, 5};
#define EACH_SIZE(at) for (size_t at = 0; at < sizeof(sizes) / sizeof(*sizes); at++)

/* Device memory with these bytes. */
static hvd_cu_ptr_t put(const void *from, size_t bytes)
{
    hvd_cu_ptr_t memory = 0;

    GPU_OK(cuMemAlloc_v2(&memory, bytes));
    fake_gpu_poke(memory, from, bytes);
    return memory;
}

static void check_floats(const struct rank *r, hvd_cu_ptr_t memory, size_t n, float first,
                         float step)
{
    GPU_OK(cuStreamSynchronize(r->stream));
    for (size_t i = 0; i < n; i++)
        assert_true(gpu_float_at(memory, i) == first + step * (float)i);
}

static void run_collectives(struct rank *r)
{
    const float total = (float)(r->n_ranks * (r->n_ranks + 1)) / 2;
    const size_t n = (size_t)r->n_ranks;
    const int root = r->n_ranks - 1;
    float mine[N];

    for (int i = 0; i < N; i++)
        mine[i] = (float)(r->rank + 1) * (float)(i + 1);
    hvd_cu_ptr_t in = put(mine, sizeof(mine));
    hvd_cu_ptr_t out = gpu_floats(N * n, -1);
    hvd_cu_ptr_t big = gpu_floats(N * n, (float)r->rank);
    void *const to = fake_pointer(out);
    void *const from = fake_pointer(in);

    NCCL_OK(ncclAllReduce(from, to, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, r->comm, r->stream));
    check_floats(r, out, N, total, total);
    NCCL_OK(ncclBroadcast(from, to, N, HVD_NCCL_FLOAT32, root, r->comm, r->stream));
    check_floats(r, out, N, (float)n, (float)n);
    NCCL_OK(ncclReduce(from, to, N, HVD_NCCL_FLOAT32, HVD_NCCL_MAX, root, r->comm, r->stream));
    check_floats(r, out, N, (float)n, (float)n);
    NCCL_OK(ncclAllGather(from, to, N, HVD_NCCL_FLOAT32, r->comm, r->stream));
    for (size_t rank = 0; rank < n; rank++)
        check_floats(r, out + rank * sizeof(mine), N, (float)(rank + 1), (float)(rank + 1));
    NCCL_OK(ncclReduceScatter(fake_pointer(big), to, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, r->comm,
                              r->stream));
    check_floats(r, out, N, total - (float)n, 0);
    NCCL_OK(ncclAllReduce(from, from, N, HVD_NCCL_FLOAT32, HVD_NCCL_MIN, r->comm, r->stream));
    check_floats(r, in, N, 1, 1); /* in place */
    GPU_OK(cuMemFree_v2(in));
    GPU_OK(cuMemFree_v2(out));
    GPU_OK(cuMemFree_v2(big));
}

static void each_collective_has_its_result(void **state)
{
    (void)state;
    EACH_SIZE(i)
    world_run(sizes[i], run_collectives, NULL);
}

static void run_messages(struct rank *r)
{
    const size_t n = (size_t)r->n_ranks;
    hvd_cu_ptr_t in = gpu_floats(n, (float)r->rank);
    hvd_cu_ptr_t out = gpu_floats(n, -1);

    for (int round = 0; round < 3; round++) {
        NCCL_OK(ncclGroupStart());
        for (int peer = 0; peer < r->n_ranks; peer++) {
            const size_t at = (size_t)peer * sizeof(float);
            NCCL_OK(ncclSend(fake_pointer(in + at), 1, HVD_NCCL_FLOAT32, peer, r->comm, r->stream));
            NCCL_OK(
                ncclRecv(fake_pointer(out + at), 1, HVD_NCCL_FLOAT32, peer, r->comm, r->stream));
        }
        NCCL_OK(ncclGroupEnd());
    }
    check_floats(r, out, n, 0, 1);
    GPU_OK(cuMemFree_v2(in));
    GPU_OK(cuMemFree_v2(out));
}

static void messages_of_a_group_make_an_alltoall(void **state)
{
    (void)state;
    EACH_SIZE(i)
    world_run(sizes[i], run_messages, NULL);
}

static void run_group(struct rank *r)
{
    struct fake_gpu_counts before;
    struct fake_gpu_counts after;
    hvd_cu_ptr_t memory = gpu_floats(200, 1);
    struct CUstream_st *other = gpu_stream();

    fake_gpu_counts(&before);
    world_meet(r);
    NCCL_OK(ncclGroupStart());
    for (size_t i = 0; i < 200; i++) { /* the last ones on another stream */
        void *at = fake_pointer(memory + i * sizeof(float));
        NCCL_OK(ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, r->comm,
                              i < 190 ? r->stream : other));
    }
    NCCL_OK(ncclGroupEnd());
    world_meet(r);
    fake_gpu_counts(&after);
    assert_int_equal(after.launches - before.launches, 2); /* one for each rank */
    GPU_OK(cuMemcpyDtoDAsync_v2(memory, memory + 4 * sizeof(float), 4, other)); /* in order */
    GPU_OK(cuStreamSynchronize(other));
    check_floats(r, memory, 200, 2, 0);
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuMemFree_v2(memory));
}

static void a_group_is_one_kernel_that_orders_its_streams(void **state)
{
    (void)state;
    world_run(2, run_group, NULL);
}

/* --- Arithmetic ------------------------------------------------------------------------------- */

/* One element of each rank, and the result, by type and operation. */
struct sum {
    hvd_nccl_type_t type;
    hvd_nccl_op_t op;
    size_t bytes;
    uint64_t input[2];
    uint64_t result;
};

static const struct sum sums[] = {
    {HVD_NCCL_INT8, HVD_NCCL_SUM, 1, {127, 1}, 0x80},
    {HVD_NCCL_UINT8, HVD_NCCL_SUM, 1, {255, 2}, 1},
    {HVD_NCCL_INT8, HVD_NCCL_MIN, 1, {0xff, 1}, 0xff},
    {HVD_NCCL_UINT8, HVD_NCCL_MIN, 1, {0xff, 1}, 1},
    {HVD_NCCL_INT32, HVD_NCCL_AVG, 4, {0xfffffffd, 0}, 0xffffffff}, /* -3 / 2 */
    {HVD_NCCL_UINT64, HVD_NCCL_MAX, 8, {1ULL << 63, 1}, 1ULL << 63},
    {HVD_NCCL_INT64, HVD_NCCL_PROD, 8, {3, 5}, 15},
    {HVD_NCCL_FLOAT16, HVD_NCCL_SUM, 2, {0x3c00, 0x3c01}, 0x4000}, /* 1 + 1.001 is a tie: to even */
    {HVD_NCCL_FLOAT16, HVD_NCCL_SUM, 2, {0x7bff, 0x7bff}, 0x7c00}, /* infinite */
    {HVD_NCCL_FLOAT16, HVD_NCCL_AVG, 2, {0x0001, 0x0001}, 0x0000}, /* halves round to 0 first */
    {HVD_NCCL_BFLOAT16, HVD_NCCL_SUM, 2, {0x3f80, 0x3f80}, 0x4000},
    {HVD_NCCL_FLOAT32, HVD_NCCL_MAX, 4, {0x7fc00000, 0xbf800000}, 0xbf800000}, /* NaN loses */
    {HVD_NCCL_FLOAT32, HVD_NCCL_MIN, 4, {0x3f800000, 0x7fc00000}, 0x3f800000},
    {HVD_NCCL_FLOAT8_E4M3, HVD_NCCL_SUM, 1, {0x38, 0x38}, 0x40},
    {HVD_NCCL_FLOAT8_E5M2, HVD_NCCL_SUM, 1, {0x3c, 0x3c}, 0x40},
};

static void run_sums(struct rank *r)
{
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        uint64_t result = 0;
        hvd_cu_ptr_t memory = put(&sums[i].input[r->rank], 8);
        void *at = fake_pointer(memory);
        NCCL_OK(ncclAllReduce(at, at, 1, sums[i].type, sums[i].op, r->comm, r->stream));
        GPU_OK(cuStreamSynchronize(r->stream));
        fake_gpu_peek(&result, memory, sums[i].bytes);
        if (result != sums[i].result)
            print_error("case %zu: %llx\n", i, (unsigned long long)result);
        assert_true(result == sums[i].result);
        GPU_OK(cuMemFree_v2(memory));
    }
}

static void arithmetic_is_that_of_nccl(void **state)
{
    (void)state;
    world_run(2, run_sums, NULL);
}

static void run_scaled(struct rank *r)
{
    const float factor = 0.5F;
    hvd_nccl_op_t op = 0;
    hvd_cu_ptr_t memory = gpu_floats(N, (float)(r->rank + 1));
    hvd_cu_ptr_t scalar = gpu_floats(1, 2);
    void *at = fake_pointer(memory);

    NCCL_OK(ncclRedOpCreatePreMulSum(&op, (void *)&factor, HVD_NCCL_FLOAT32, HVD_NCCL_SCALAR_HOST,
                                     r->comm));
    NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, op, r->comm, r->stream));
    assert_int_equal(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT16, op, r->comm, r->stream),
                     HVD_NCCL_INVALID_ARGUMENT);
    NCCL_OK(ncclRedOpDestroy(op, r->comm)); /* the call has what it needs */
    check_floats(r, memory, N, r->n_ranks == 1 ? 0.5F : 1.5F, 0);
    NCCL_OK(ncclRedOpCreatePreMulSum(&op, fake_pointer(scalar), HVD_NCCL_FLOAT32,
                                     HVD_NCCL_SCALAR_DEVICE, r->comm));
    NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, op, r->comm, r->stream));
    check_floats(r, memory, N, r->n_ranks == 1 ? 1 : 6, 0);
    NCCL_OK(ncclRedOpDestroy(op, r->comm));
    assert_int_equal(ncclRedOpDestroy(op, r->comm), HVD_NCCL_INVALID_ARGUMENT);
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuMemFree_v2(scalar));
}

static void a_scaling_is_applied_before_the_sum(void **state)
{
    (void)state;
    world_run(1, run_scaled, NULL);
    world_run(2, run_scaled, NULL);
}

static void run_refusals(struct rank *r)
{
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);

    assert_int_equal(ncclAllReduce(at, at, N, 12, HVD_NCCL_SUM, r->comm, r->stream),
                     HVD_NCCL_INVALID_ARGUMENT); /* there are no integers of 16 bits */
    assert_int_equal(ncclBroadcast(at, at, N, HVD_NCCL_INT8, 2, r->comm, r->stream),
                     HVD_NCCL_INVALID_ARGUMENT);
    assert_int_equal(ncclAllReduce(at, at, N, HVD_NCCL_INT8, 9, r->comm, r->stream),
                     HVD_NCCL_INVALID_ARGUMENT);
    assert_non_null(strstr(ncclGetLastError(r->comm), "ncclAllReduce"));
    NCCL_OK(ncclAllReduce(at, at, 0, HVD_NCCL_INT8, HVD_NCCL_SUM, r->comm, r->stream));
    assert_int_equal(ncclGroupEnd(), HVD_NCCL_INVALID_USAGE);
    world_meet(r);
    GPU_OK(cuMemFree_v2(memory));
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    world_run(2, run_refusals, NULL);
}

/* --- Ranks that do not agree ------------------------------------------------------------------ */

static void run_mismatch(struct rank *r)
{
    const int what = *(const int *)r->shared;
    const bool is_other = r->rank == 1;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);
    unsigned char byte = 0;

    NCCL_OK(ncclAllReduce(at, at, is_other && what == 0 ? N - 1 : N,
                          is_other && what == 1 ? HVD_NCCL_INT32 : HVD_NCCL_FLOAT32,
                          is_other && what == 2 ? HVD_NCCL_MAX : HVD_NCCL_SUM, r->comm, r->stream));
    GPU_OK(cuStreamSynchronize(r->stream));
    if (what == 3)
        NCCL_OK(ncclBroadcast(at, at, N, HVD_NCCL_FLOAT32, is_other ? 1 : 0, r->comm, r->stream));
    GPU_OK(cuStreamSynchronize(r->stream));
    world_meet(r);
    if (r->rank == 0)
        assert_non_null(strstr(gpu_expect(FAKE_GPU_MISMATCH), "rank 1 has"));
    world_meet(r);
    fake_gpu_peek(&byte, memory, 1);
    assert_int_equal(byte, 0xdb); /* garbage */
    GPU_OK(cuMemFree_v2(memory));
}

static void counts_types_operations_and_roots_that_differ_are_found(void **state)
{
    (void)state;
    for (int what = 0; what <= 3; what++)
        world_run(2, run_mismatch, &what);
}

static void run_different(struct rank *r)
{
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);

    /* Both connect, each for something else. */
    if (r->rank == 0)
        assert_int_equal(
            ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, r->comm, r->stream),
            HVD_NCCL_INTERNAL_ERROR);
    else
        assert_int_equal(ncclBroadcast(at, at, N, HVD_NCCL_FLOAT32, 0, r->comm, r->stream),
                         HVD_NCCL_INTERNAL_ERROR);
    world_meet(r);
    if (r->rank == 0)
        assert_int_equal(fake_gpu_found(FAKE_GPU_MISMATCH), 2);
    world_meet(r);
    fake_gpu_forget();
    GPU_OK(cuMemFree_v2(memory));
}

static void different_collectives_are_found(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_STUCK_MS, 50);
    world_run(2, run_different, NULL);
    fake_gpu_set(FAKE_GPU_STUCK_MS, 2000);
}

/* --- Races ------------------------------------------------------------------------------------ */

static void run_race(struct rank *r)
{
    struct CUstream_st *other = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);

    if (r->rank == 1) /* the input is not ready */
        GPU_OK(cuMemsetD8Async(memory, 0, 4, other));
    NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, r->comm, r->stream));
    GPU_OK(cuStreamSynchronize(r->stream));
    GPU_OK(cuStreamSynchronize(other));
    world_meet(r);
    if (r->rank == 0)
        assert_non_null(
            strstr(gpu_expect(FAKE_GPU_RACE), "ncclAllReduce of 10 elements, number 1"));
    world_meet(r);
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuMemFree_v2(memory));
}

static void an_input_that_is_not_ready_is_found(void **state)
{
    (void)state;
    world_run(2, run_race, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_collective_has_its_result),
        cmocka_unit_test(messages_of_a_group_make_an_alltoall),
        cmocka_unit_test(a_group_is_one_kernel_that_orders_its_streams),
        cmocka_unit_test(arithmetic_is_that_of_nccl),
        cmocka_unit_test(a_scaling_is_applied_before_the_sum),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(counts_types_operations_and_roots_that_differ_are_found),
        cmocka_unit_test(different_collectives_are_found),
        cmocka_unit_test(an_input_that_is_not_ready_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
