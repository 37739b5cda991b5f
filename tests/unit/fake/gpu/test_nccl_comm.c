/* Communicators of the double: beginning, options, errors, abort and end. */
#include "tests/unit/support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/world.h"

#define N 10

static hvd_nccl_result_t reduce(const struct rank *r, struct ncclComm *comm, hvd_cu_ptr_t memory)
{
    void *at = fake_pointer(memory);

    return ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, r->stream);
}

static void run_questions(struct rank *r)
{
    int value = -1;
    hvd_nccl_result_t error = HVD_NCCL_INTERNAL_ERROR;

    NCCL_OK(ncclCommCount(r->comm, &value));
    assert_int_equal(value, r->n_ranks);
    NCCL_OK(ncclCommUserRank(r->comm, &value));
    assert_int_equal(value, r->rank);
    NCCL_OK(ncclCommCuDevice(r->comm, &value));
    assert_int_equal(value, r->rank);
    NCCL_OK(ncclCommGetAsyncError(r->comm, &error));
    assert_int_equal(error, HVD_NCCL_SUCCESS);
    NCCL_OK(ncclGetVersion(&value));
    assert_int_equal(value, 23203);
    assert_string_equal(ncclGetErrorString(HVD_NCCL_SUCCESS), "no error");
}

static void a_communicator_answers(void **state)
{
    (void)state;
    world_run(3, run_questions, NULL);
}

static atomic_bool has_begun;

static void run_late(struct rank *r)
{
    if (r->rank == 1) {
        usleep(20000);
        assert_false(has_begun);
    }
    NCCL_OK(ncclCommInitRank(&r->comm, 2, r->id, r->rank));
    has_begun = true;
}

static void an_initialisation_waits_for_all_ranks(void **state)
{
    struct fake_gpu_counts counts;

    (void)state;
    world_run_bare(2, run_late, NULL);
    fake_gpu_counts(&counts);
    assert_true(counts.blocking >= 2);
}

static void run_grouped_init(struct rank *r)
{
    struct ncclComm *comms[2] = {NULL, NULL};

    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        GPU_OK(cuCtxPushCurrent_v2(gpu_context(i)));
        NCCL_OK(ncclCommInitRank(&comms[i], 2, r->id, i));
        assert_null(comms[i]);
        GPU_OK(cuCtxPopCurrent_v2(NULL));
    }
    NCCL_OK(ncclGroupEnd());
    assert_non_null(comms[0]);
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        NCCL_OK(ncclCommAbort(comms[i]));
    NCCL_OK(ncclGroupEnd());
}

static void one_thread_initialises_several_ranks_in_a_group(void **state)
{
    (void)state;
    world_run_bare(1, run_grouped_init, NULL);
}

static void run_refused_init(struct rank *r)
{
    struct hvd_nccl_config config = world_config();
    struct ncclComm *comm = NULL;

    assert_int_equal(ncclCommInitRank(&comm, 2, r->id, 2), HVD_NCCL_INVALID_ARGUMENT);
    config.magic = 0;
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, r->id, 0, &config),
                     HVD_NCCL_INVALID_ARGUMENT);
    config = world_config();
    config.blocking = 2;
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, r->id, 0, &config),
                     HVD_NCCL_INVALID_ARGUMENT);
    GPU_OK(cuCtxPopCurrent_v2(NULL));
    assert_int_equal(ncclCommInitRank(&comm, 1, r->id, 0), HVD_NCCL_UNHANDLED_CUDA_ERROR);
    gpu_expect(FAKE_GPU_WRONG_CONTEXT);
    GPU_OK(cuCtxPushCurrent_v2(gpu_context(0)));
    assert_null(comm);
}

static void wrong_initialisations_are_refused(void **state)
{
    (void)state;
    world_run_bare(1, run_refused_init, NULL);
}

static void run_duplicate(struct rank *r)
{
    GPU_OK(cuCtxPushCurrent_v2(gpu_context(0)));
    assert_int_equal(ncclCommInitRank(&r->comm, 2, r->id, r->rank), HVD_NCCL_INVALID_USAGE);
    assert_non_null(strstr(ncclGetLastError(NULL), "Duplicate GPU"));
    assert_null(r->comm);
    GPU_OK(cuCtxPopCurrent_v2(NULL));
}

static void two_ranks_on_one_gpu_are_refused(void **state)
{
    (void)state;
    world_run_bare(2, run_duplicate, NULL);
    fake_gpu_set(FAKE_GPU_MULTI_RANK_GPU, 1);
    world_run_bare(2, run_duplicate, NULL); /* threads of one process, even so */
    fake_gpu_set(FAKE_GPU_MULTI_RANK_GPU, 0);
}

/* --- First use, and communicators that do not block ------------------------------------------- */

static void run_first_use(struct rank *r)
{
    struct fake_gpu_counts counts[3];
    hvd_cu_ptr_t memory = gpu_floats(N, 1);

    world_meet(r);
    fake_gpu_counts(&counts[0]);
    world_meet(r);
    for (int i = 1; i < 3; i++) {
        NCCL_OK(reduce(r, r->comm, memory));
        world_meet(r);
        fake_gpu_counts(&counts[i]);
        world_meet(r);
    }
    assert_int_equal(counts[1].blocking - counts[0].blocking, 2);
    assert_int_equal(counts[2].blocking - counts[1].blocking, 0);
    GPU_OK(cuStreamSynchronize(r->stream));
    GPU_OK(cuMemFree_v2(memory));
}

static void the_first_use_of_an_algorithm_waits_for_the_peers(void **state)
{
    (void)state;
    world_run(2, run_first_use, NULL);
}

static hvd_nccl_result_t settle(struct ncclComm *comm)
{
    hvd_nccl_result_t result = HVD_NCCL_IN_PROGRESS;

    while (result == HVD_NCCL_IN_PROGRESS)
        NCCL_OK(ncclCommGetAsyncError(comm, &result));
    return result;
}

static void run_nonblocking(struct rank *r)
{
    struct hvd_nccl_config config = world_config();
    struct CUevent_st *event = gpu_event();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    int count = 0;

    config.blocking = 0;
    if (r->rank == 1)
        world_meet(r);
    assert_int_equal(ncclCommInitRankConfig(&r->comm, 2, r->id, r->rank, &config),
                     HVD_NCCL_IN_PROGRESS);
    if (r->rank == 0) { /* it is alone */
        assert_int_equal(ncclCommCount(r->comm, &count), HVD_NCCL_INVALID_ARGUMENT);
        world_meet(r);
    }
    NCCL_OK(settle(r->comm));
    if (r->rank == 1) { /* rank 0 is in its call alone: an event passes the collective by */
        world_meet(r);
    } else {
        assert_int_equal(reduce(r, r->comm, memory), HVD_NCCL_IN_PROGRESS);
        GPU_OK(cuEventRecord(event, r->stream));
        GPU_OK(cuEventSynchronize(event));
        assert_true(gpu_float_at(memory, 0) == 1);
        world_meet(r);
    }
    if (r->rank == 1)
        assert_int_equal(reduce(r, r->comm, memory), HVD_NCCL_IN_PROGRESS);
    NCCL_OK(settle(r->comm));
    GPU_OK(cuStreamSynchronize(r->stream));
    assert_true(gpu_float_at(memory, 0) == 2);
    assert_int_equal(ncclCommFinalize(r->comm), HVD_NCCL_IN_PROGRESS);
    NCCL_OK(settle(r->comm));
    GPU_OK(cuEventDestroy_v2(event));
    GPU_OK(cuMemFree_v2(memory));
}

static void a_communicator_that_does_not_block_is_in_progress(void **state)
{
    (void)state;
    world_run_bare(2, run_nonblocking, NULL);
}

static void run_alone(struct rank *r)
{
    struct hvd_nccl_config config = world_config();

    config.blocking = 0;
    assert_int_equal(ncclCommInitRankConfig(&r->comm, 2, r->id, 0, &config), HVD_NCCL_IN_PROGRESS);
    usleep(5000);
    NCCL_OK(ncclCommAbort(r->comm));
    r->comm = NULL;
}

static void an_initialisation_that_waits_is_aborted(void **state)
{
    (void)state;
    world_run_bare(1, run_alone, NULL);
}

/* --- End -------------------------------------------------------------------------------------- */

/* Rank 1 does not do its part. */
static void run_abort(struct rank *r)
{
    unsigned char byte = 0;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    hvd_nccl_result_t error = 0;

    NCCL_OK(reduce(r, r->comm, memory));
    GPU_OK(cuStreamSynchronize(r->stream));
    if (r->rank == 0) {
        NCCL_OK(reduce(r, r->comm, memory));
        GPU_OK(cuMemsetD8Async(memory, 1, 4, r->stream));
        usleep(5000);
        assert_int_equal(cuStreamQuery(r->stream), HVD_CU_NOT_READY);
        NCCL_OK(ncclCommAbort(r->comm));
        GPU_OK(cuStreamSynchronize(r->stream));
        fake_gpu_peek(&byte, memory + 4, 1);
        assert_int_equal(byte, 0xdb); /* garbage, and what came behind has run */
        fake_gpu_peek(&byte, memory, 1);
        assert_int_equal(byte, 1);
        assert_int_equal(reduce(r, r->comm, memory), HVD_NCCL_INVALID_ARGUMENT);
        gpu_expect(FAKE_GPU_AFTER_ABORT);
        assert_int_equal(ncclCommGetAsyncError(r->comm, &error), HVD_NCCL_INVALID_ARGUMENT);
        gpu_expect(FAKE_GPU_AFTER_ABORT);
    } else {
        NCCL_OK(ncclCommAbort(r->comm));
    }
    world_meet(r);
    r->comm = NULL;
    GPU_OK(cuMemFree_v2(memory));
}

static void an_abort_ends_the_kernel_and_leaves_garbage(void **state)
{
    (void)state;
    world_run(2, run_abort, NULL);
}

/* Two communicators wait for rank 1; freeing the first would wait for the kernel of the second. */
static void run_two_aborts(struct rank *r)
{
    const struct hvd_nccl_id *id = r->shared;
    struct ncclComm *second = NULL;
    struct CUstream_st *other = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    hvd_cu_ptr_t more = gpu_floats(N, 1);
    void *at = fake_pointer(more);

    NCCL_OK(ncclCommInitRank(&second, 2, *id, r->rank));
    if (r->rank == 0) {
        NCCL_OK(reduce(r, r->comm, memory));
        NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, second, other));
    }
    world_meet(r);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclCommAbort(r->comm));
    NCCL_OK(ncclCommAbort(second));
    NCCL_OK(ncclGroupEnd());
    r->comm = NULL;
    GPU_OK(cuStreamSynchronize(other));
    GPU_OK(cuStreamSynchronize(r->stream));
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuMemFree_v2(memory));
    GPU_OK(cuMemFree_v2(more));
}

static void communicators_are_aborted_together_in_a_group(void **state)
{
    struct hvd_nccl_id id;

    (void)state;
    NCCL_OK(ncclGetUniqueId(&id));
    fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 0);
    world_run(2, run_two_aborts, &id);
    fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 1);
}

static void run_lone_abort(struct rank *r)
{
    struct ncclComm *second = NULL;
    struct hvd_nccl_id *id = r->shared;
    struct CUstream_st *other = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);

    NCCL_OK(ncclCommInitRank(&second, 2, *id, r->rank));
    if (r->rank == 0) {
        fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 0);
        NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, second, other));
        world_meet(r);
        NCCL_OK(ncclCommAbort(r->comm)); /* waits until rank 1 has done its part of the second */
        gpu_expect(FAKE_GPU_BLOCKING);
        fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 1);
    } else {
        world_meet(r);
        while (fake_gpu_calls("ncclCommAbort") == 0)
            usleep(1000);
        NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, second, other));
        GPU_OK(cuStreamSynchronize(other));
        NCCL_OK(ncclCommAbort(r->comm));
    }
    GPU_OK(cuStreamSynchronize(other));
    assert_true(gpu_float_at(memory, 0) == 2);
    NCCL_OK(ncclCommDestroy(second));
    r->comm = NULL;
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuMemFree_v2(memory));
}

static void an_abort_waits_for_kernels_of_other_communicators(void **state)
{
    struct hvd_nccl_id id;

    (void)state;
    NCCL_OK(ncclGetUniqueId(&id));
    world_run(2, run_lone_abort, &id);
}

static void run_errors(struct rank *r)
{
    hvd_nccl_result_t error = HVD_NCCL_SUCCESS;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);

    world_meet(r);
    if (r->rank == 0) {
        fake_gpu_set_async_error(0, HVD_NCCL_REMOTE_ERROR);
        NCCL_OK(ncclCommGetAsyncError(r->comm, &error));
        assert_int_equal(error, HVD_NCCL_REMOTE_ERROR);
        fake_gpu_set_async_error(0, 0);
        fake_gpu_fail("ncclAllReduce", 1, HVD_NCCL_SYSTEM_ERROR);
        assert_int_equal(reduce(r, r->comm, memory), HVD_NCCL_SYSTEM_ERROR);
        fake_gpu_fail("ncclGroupEnd", 1, HVD_NCCL_INTERNAL_ERROR);
        NCCL_OK(ncclGroupStart());
        NCCL_OK(reduce(r, r->comm, memory));
        assert_int_equal(ncclGroupEnd(), HVD_NCCL_INTERNAL_ERROR);
    }
    world_meet(r);
    NCCL_OK(reduce(r, r->comm, memory));
    GPU_OK(cuStreamSynchronize(r->stream));
    assert_true(gpu_float_at(memory, 0) == 2);
    GPU_OK(cuMemFree_v2(memory));
}

static void calls_fail_on_request(void **state)
{
    (void)state;
    world_run(2, run_errors, NULL);
}

/* The call hangs until another thread lets it go. */
static void run_hang(struct rank *r)
{
    if (r->rank == 0) {
        fake_gpu_hang("ncclCommInitRank", 1);
        has_begun = false;
    }
    world_meet(r);
    if (r->rank == 1) {
        usleep(20000);
        assert_false(has_begun);
        fake_gpu_release();
    }
    NCCL_OK(ncclCommInitRank(&r->comm, 2, r->id, r->rank));
    has_begun = true;
    if (r->rank == 0)
        fake_gpu_hang("ncclCommAbort", 1);
    world_meet(r);
    if (r->rank == 0) {
        NCCL_OK(ncclCommAbort(r->comm));
    } else {
        usleep(20000);
        fake_gpu_release();
        NCCL_OK(ncclCommAbort(r->comm));
    }
    r->comm = NULL;
}

static void an_initialisation_and_an_abort_can_hang(void **state)
{
    (void)state;
    world_run_bare(2, run_hang, NULL);
}

static void run_versions(struct rank *r)
{
    fake_gpu_set(FAKE_GPU_NCCL_VERSION, 23203);
    world_meet(r);
    while (r->rank == 1 && fake_gpu_calls("ncclCommInitRank") == 0)
        usleep(1000); /* the other rank has read it by then */
    if (r->rank == 1)
        fake_gpu_set(FAKE_GPU_NCCL_VERSION, 22907);
    assert_int_equal(ncclCommInitRank(&r->comm, 2, r->id, r->rank), HVD_NCCL_INVALID_USAGE);
    world_meet(r);
    assert_int_equal(fake_gpu_found(FAKE_GPU_MISMATCH), 2);
    world_meet(r);
    fake_gpu_set(FAKE_GPU_NCCL_VERSION, 23203);
    fake_gpu_forget();
}

static void versions_that_differ_are_found(void **state)
{
    (void)state;
    world_run_bare(2, run_versions, NULL);
}

static void run_leak(struct rank *r)
{
    world_meet(r);
    if (r->rank == 0) {
        assert_true(fake_gpu_check_leaks() > 0);
        assert_true(fake_gpu_found(FAKE_GPU_LEAK) >= 2);
        fake_gpu_forget();
    }
    world_meet(r);
}

static void communicators_that_are_left_are_found(void **state)
{
    (void)state;
    world_run(2, run_leak, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_communicator_answers),
        cmocka_unit_test(an_initialisation_waits_for_all_ranks),
        cmocka_unit_test(one_thread_initialises_several_ranks_in_a_group),
        cmocka_unit_test(wrong_initialisations_are_refused),
        cmocka_unit_test(two_ranks_on_one_gpu_are_refused),
        cmocka_unit_test(the_first_use_of_an_algorithm_waits_for_the_peers),
        cmocka_unit_test(a_communicator_that_does_not_block_is_in_progress),
        cmocka_unit_test(an_initialisation_that_waits_is_aborted),
        cmocka_unit_test(an_abort_ends_the_kernel_and_leaves_garbage),
        cmocka_unit_test(communicators_are_aborted_together_in_a_group),
        cmocka_unit_test(an_abort_waits_for_kernels_of_other_communicators),
        cmocka_unit_test(calls_fail_on_request),
        cmocka_unit_test(an_initialisation_and_an_abort_can_hang),
        cmocka_unit_test(versions_that_differ_are_found),
        cmocka_unit_test(communicators_that_are_left_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
