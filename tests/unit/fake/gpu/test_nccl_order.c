/* Collectives beside each other: room on the device, launch order, waits for the whole device. */
#include "tests/unit/support.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/world.h"

#define N 10

/* Two communicators over the same ranks. */
struct shared {
    struct hvd_nccl_id second;
    bool is_crossed; /* rank 1 launches them the other way round */
    bool is_one_stream;
    atomic_int n_done;
};

static void all_reduce(struct ncclComm *comm, struct CUstream_st *stream, hvd_cu_ptr_t memory)
{
    void *at = fake_pointer(memory);

    NCCL_OK(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream));
}

/* Whether both streams come to their end, or ranks are found to be stuck. */
static bool settles(const struct rank *r, struct CUstream_st *other)
{
    while (cuStreamQuery(r->stream) != HVD_CU_SUCCESS || cuStreamQuery(other) != HVD_CU_SUCCESS) {
        if (fake_gpu_found(FAKE_GPU_LAUNCH_ORDER) > 0)
            return false;
        usleep(1000);
    }
    return true;
}

/* Streams overtake each other, so the order of calls alone does not order the starts. */
static void await_start(const struct rank *r, struct CUstream_st *stream)
{
    while (fake_gpu_occupied(r->rank) == 0 && cuStreamQuery(stream) == HVD_CU_NOT_READY)
        usleep(100);
}

/* Launches one collective of each communicator; returns whether both end. */
static void run_two(struct rank *r)
{
    struct shared *shared = r->shared;
    const bool is_crossed = shared->is_crossed && r->rank == 1;
    struct ncclComm *second = NULL;
    struct CUstream_st *other = shared->is_one_stream ? r->stream : gpu_stream();
    hvd_cu_ptr_t x = gpu_floats(N, 1);
    hvd_cu_ptr_t y = gpu_floats(N, 1);

    NCCL_OK(ncclCommInitRank(&second, r->n_ranks, shared->second, r->rank));
    world_meet(r);
    if (is_crossed)
        all_reduce(second, other, y);
    if (is_crossed)
        await_start(r, other);
    all_reduce(r->comm, r->stream, x);
    if (!is_crossed)
        await_start(r, r->stream);
    if (!is_crossed)
        all_reduce(second, other, y);
    shared->n_done += settles(r, other);
    world_meet(r);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclCommAbort(r->comm));
    NCCL_OK(ncclCommAbort(second));
    NCCL_OK(ncclGroupEnd());
    r->comm = NULL;
    GPU_OK(cuStreamSynchronize(other));
    GPU_OK(cuStreamSynchronize(r->stream));
    if (other != r->stream)
        GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuMemFree_v2(x));
    GPU_OK(cuMemFree_v2(y));
}

/* Runs it on two ranks with so many channels; returns how many ranks came to the end. */
static int run_with(struct shared *shared, int channels)
{
    struct hvd_nccl_id id;

    NCCL_OK(ncclGetUniqueId(&id));
    shared->second = id;
    shared->n_done = 0;
    fake_gpu_set(FAKE_GPU_CHANNELS, channels);
    world_run(2, run_two, shared);
    return shared->n_done;
}

static int begin(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 0);
    fake_gpu_set(FAKE_GPU_STUCK_MS, 50);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 1);
    fake_gpu_set(FAKE_GPU_STUCK_MS, 2000);
    fake_gpu_set(FAKE_GPU_CHANNELS, 24);
    return 0;
}

static void one_order_needs_no_room_for_all(void **state)
{
    struct shared shared = {.is_crossed = false};

    (void)state;
    assert_int_equal(run_with(&shared, 100), 2);
}

static void different_orders_need_room_for_all(void **state)
{
    struct shared shared = {.is_crossed = true};

    (void)state;
    assert_int_equal(run_with(&shared, 60), 2);
}

/* gpu_end would report what is found, so the finding is taken before. */
static void run_stuck(struct rank *r)
{
    struct shared *shared = r->shared;
    struct rank inner = *r;

    (void)shared;
    run_two(&inner);
    r->comm = NULL;
    world_meet(r);
    if (r->rank == 0) {
        assert_true(fake_gpu_found(FAKE_GPU_LAUNCH_ORDER) >= 1);
        assert_int_equal(fake_gpu_found(FAKE_GPU_LAUNCH_ORDER), fake_gpu_found_any());
        fake_gpu_forget();
    }
    world_meet(r);
}

static void run_stuck_with(struct shared *shared, int channels)
{
    struct hvd_nccl_id id;

    NCCL_OK(ncclGetUniqueId(&id));
    shared->second = id;
    shared->n_done = 0;
    fake_gpu_set(FAKE_GPU_CHANNELS, channels);
    world_run(2, run_stuck, shared);
    assert_int_equal(shared->n_done, 0);
}

static void different_orders_without_room_are_found(void **state)
{
    struct shared shared = {.is_crossed = true};

    (void)state;
    run_stuck_with(&shared, 100);
}

static void different_orders_on_one_stream_are_found(void **state)
{
    struct shared shared = {.is_crossed = true, .is_one_stream = true};

    (void)state;
    run_stuck_with(&shared, 24);
}

static void in_program_order_collectives_wait_for_each_other(void **state)
{
    struct shared shared = {.is_crossed = true};

    (void)state;
    fake_gpu_set(FAKE_GPU_LAUNCH_ORDER_IMPLICIT, 1);
    run_stuck_with(&shared, 10);
    fake_gpu_set(FAKE_GPU_LAUNCH_ORDER_IMPLICIT, 0);
}

/* --- Connecting in a call --------------------------------------------------------------------- */

static void run_crossed_connect(struct rank *r)
{
    const struct hvd_nccl_id *id = r->shared;
    struct ncclComm *second = NULL;
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);

    NCCL_OK(ncclCommInitRank(&second, r->n_ranks, *id, r->rank));
    assert_int_equal(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM,
                                   r->rank == 0 ? r->comm : second, r->stream),
                     HVD_NCCL_INTERNAL_ERROR);
    world_meet(r);
    if (r->rank == 0) {
        assert_int_equal(fake_gpu_found(FAKE_GPU_LAUNCH_ORDER), 2);
        fake_gpu_forget();
    }
    world_meet(r);
    NCCL_OK(ncclCommDestroy(second));
    GPU_OK(cuMemFree_v2(memory));
}

static void first_uses_in_different_orders_are_found(void **state)
{
    struct hvd_nccl_id id;

    (void)state;
    NCCL_OK(ncclGetUniqueId(&id));
    fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 1);
    world_run(2, run_crossed_connect, &id);
    fake_gpu_set(FAKE_GPU_RUNTIME_CONNECT, 0);
}

/* --- Beside a collective ---------------------------------------------------------------------- */

/* What waits for the whole device, by number. */
static void wait_for_device(const struct rank *r, int what, struct CUmod_st *module,
                            hvd_cu_ptr_t unused, void *pinned)
{
    struct CUfunc_st *add = NULL;
    struct CUmod_st *late = NULL;

    if (what == 0) {
        GPU_OK(cuMemFree_v2(unused));
    } else if (what == 1) {
        GPU_OK(cuMemFreeHost(pinned));
    } else if (what == 2) {
        GPU_OK(cuModuleGetFunction(&add, module, "gpu_add"));
        GPU_OK(gpu_launch_add(add, r->stream, unused, N, 1));
    } else {
        late = gpu_module();
        gpu_expect(FAKE_GPU_BLOCKING);
        GPU_OK(cuModuleUnload(late));
    }
}

static void run_beside(struct rank *r)
{
    struct CUmod_st *module = gpu_module();
    struct CUstream_st *other = gpu_stream();
    hvd_cu_ptr_t memory = gpu_floats(N, 1);

    for (int what = 0; what < 4; what++) {
        hvd_cu_ptr_t unused = gpu_floats(N, 1);
        void *pinned = NULL;
        GPU_OK(cuMemHostAlloc(&pinned, 8, 0));
        all_reduce(r->comm, other, memory);
        world_meet(r);
        if (r->rank == 0) {
            assert_true(fake_gpu_settle(20000)); /* in any schedule: the host has not looked */
            wait_for_device(r, what, module, unused, pinned);
            gpu_expect(FAKE_GPU_BLOCKING);
        }
        world_meet(r);
        GPU_OK(cuStreamSynchronize(other));
        GPU_OK(cuStreamSynchronize(r->stream));
        if (r->rank != 0 || what != 0)
            GPU_OK(cuMemFree_v2(unused));
        if (r->rank != 0 || what != 1)
            GPU_OK(cuMemFreeHost(pinned));
        world_meet(r);
    }
    GPU_OK(cuModuleUnload(module));
    GPU_OK(cuStreamDestroy_v2(other));
    GPU_OK(cuMemFree_v2(memory));
}

static void what_waits_for_the_device_beside_a_collective_is_found(void **state)
{
    (void)state;
    world_run(2, run_beside, NULL);
}

/* A peer whose device is stopped is one that is dead. */
static void run_dead_peer(struct rank *r)
{
    hvd_cu_ptr_t memory = gpu_floats(N, 1);

    if (r->rank == 0)
        fake_gpu_stop_device(1, true);
    world_meet(r);
    all_reduce(r->comm, r->stream, memory);
    if (r->rank == 0) {
        usleep(20000);
        assert_int_equal(cuStreamQuery(r->stream), HVD_CU_NOT_READY);
        NCCL_OK(ncclCommAbort(r->comm));
        fake_gpu_stop_device(1, false);
    }
    world_meet(r);
    if (r->rank == 1)
        NCCL_OK(ncclCommAbort(r->comm));
    r->comm = NULL;
    GPU_OK(cuStreamSynchronize(r->stream));
    GPU_OK(cuMemFree_v2(memory));
}

static void a_dead_peer_is_waited_for_until_the_abort(void **state)
{
    (void)state;
    world_run(2, run_dead_peer, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_order_needs_no_room_for_all),
        cmocka_unit_test(different_orders_need_room_for_all),
        cmocka_unit_test(different_orders_without_room_are_found),
        cmocka_unit_test(different_orders_on_one_stream_are_found),
        cmocka_unit_test(in_program_order_collectives_wait_for_each_other),
        cmocka_unit_test(first_uses_in_different_orders_are_found),
        cmocka_unit_test(what_waits_for_the_device_beside_a_collective_is_found),
        cmocka_unit_test(a_dead_peer_is_waited_for_until_the_abort),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
