/* Splitting a communicator of the double, and families that share resources. */
#include "tests/unit/support.h"

#include <stdatomic.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/world.h"

#define N 10

static hvd_nccl_result_t reduce(const struct rank *r, struct ncclComm *comm, hvd_cu_ptr_t memory)
{
    void *at = fake_pointer(memory);

    return ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, r->stream);
}

/* Even and odd ranks, in the opposite order; rank 4 takes no part. */
static void run_split(struct rank *r)
{
    struct ncclComm *comm = NULL;
    int value = -1;

    NCCL_OK(ncclCommSplit(r->comm, r->rank == 4 ? HVD_NCCL_SPLIT_NO_COLOR : r->rank % 2, -r->rank,
                          &comm, NULL));
    assert_true((comm == NULL) == (r->rank == 4));
    if (!comm)
        return;
    hvd_cu_ptr_t memory = gpu_floats(N, (float)(r->rank + 1));
    NCCL_OK(ncclCommCount(comm, &value));
    assert_int_equal(value, 2);
    NCCL_OK(ncclCommUserRank(comm, &value));
    assert_int_equal(value, r->rank < 2 ? 1 : 0);
    NCCL_OK(reduce(r, comm, memory));
    GPU_OK(cuStreamSynchronize(r->stream));
    assert_true(gpu_float_at(memory, N - 1) == (r->rank % 2 ? 6 : 4));
    NCCL_OK(ncclCommDestroy(comm));
    GPU_OK(cuMemFree_v2(memory));
}

static void a_split_makes_communicators_by_color_and_key(void **state)
{
    (void)state;
    world_run(5, run_split, NULL);
}

/* A communicator whose parts share its resources; both its ranks become a part. */
static void split_family(struct rank *r, struct ncclComm **part)
{
    struct hvd_nccl_config config = world_config();

    config.split_share = 1;
    NCCL_OK(ncclCommInitRankConfig(&r->comm, 2, r->id, r->rank, &config));
    NCCL_OK(ncclCommSplit(r->comm, 0, r->rank, part, NULL));
}

static void run_family(struct rank *r)
{
    struct ncclComm *part = NULL;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);

    split_family(r, &part);
    world_meet(r);
    NCCL_OK(ncclCommAbort(part));
    world_meet(r);
    if (r->rank == 0) {
        assert_int_equal(reduce(r, r->comm, memory), HVD_NCCL_INVALID_ARGUMENT);
        gpu_expect(FAKE_GPU_AFTER_ABORT);
    }
    world_meet(r);
    NCCL_OK(ncclCommAbort(r->comm));
    r->comm = NULL;
    GPU_OK(cuMemFree_v2(memory));
}

static void an_abort_spoils_those_that_share_resources(void **state)
{
    (void)state;
    world_run_bare(2, run_family, NULL);
}

static void run_aborted_split(struct rank *r)
{
    struct ncclComm *part = NULL;

    if (r->rank == 0) {
        assert_int_equal(ncclCommSplit(r->comm, 0, 0, &part, NULL), HVD_NCCL_INTERNAL_ERROR);
        assert_null(part);
        world_meet(r);
    } else { /* stands in for a thread of rank 0 */
        while (fake_gpu_calls("ncclCommSplit") == 0)
            usleep(1000);
        NCCL_OK(ncclCommAbort(*(struct ncclComm **)r->shared));
        world_meet(r);
    }
    r->comm = NULL;
}

static void run_abort_split(struct rank *r)
{
    static struct ncclComm *first;

    NCCL_OK(ncclCommInitRank(&r->comm, 2, r->id, r->rank));
    if (r->rank == 0)
        first = r->comm;
    r->shared = &first;
    world_meet(r);
    struct ncclComm *own = r->comm;
    run_aborted_split(r);
    if (r->rank == 1)
        NCCL_OK(ncclCommAbort(own));
}

static void an_abort_of_the_parent_ends_a_split_that_waits(void **state)
{
    (void)state;
    world_run_bare(2, run_abort_split, NULL);
}

static void run_busy_split(struct rank *r)
{
    struct ncclComm *part = NULL;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);

    NCCL_OK(reduce(r, r->comm, memory));
    GPU_OK(cuStreamSynchronize(r->stream));
    fake_gpu_stop_device(r->rank, true);
    NCCL_OK(reduce(r, r->comm, memory));
    world_meet(r);
    NCCL_OK(ncclCommSplit(r->comm, 0, 0, &part, NULL));
    world_meet(r);
    if (r->rank == 0) {
        assert_int_equal(fake_gpu_found(FAKE_GPU_BLOCKING), 2);
        fake_gpu_forget();
    }
    fake_gpu_stop_device(r->rank, false);
    world_meet(r);
    NCCL_OK(ncclCommDestroy(part));
    GPU_OK(cuStreamSynchronize(r->stream));
    GPU_OK(cuMemFreeAsync(memory, r->stream));
}

static void a_split_beside_collectives_is_found(void **state)
{
    (void)state;
    world_run(2, run_busy_split, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_makes_communicators_by_color_and_key),
        cmocka_unit_test(an_abort_spoils_those_that_share_resources),
        cmocka_unit_test(an_abort_of_the_parent_ends_a_split_that_waits),
        cmocka_unit_test(a_split_beside_collectives_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
