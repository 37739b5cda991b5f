/*
 * The same memory in several tensors: twice in a group, and submitted again while it is pending.
 * Every rank gets what one after the other gives, whatever the others have.
 */
#include "tests/unit/support.h"

#include <string.h>

#include "tests/unit/worker/engine/world.h"

#define N 100

/* What the ranks begin with, and the sum of that over them. */
static int64_t value_of(int rank, int i)
{
    return (int64_t)(rank + 1) * (i + 1);
}

static int64_t sum_of(int size, int i)
{
    int64_t sum = 0;

    for (int rank = 0; rank < size; rank++)
        sum += value_of(rank, i);
    return sum;
}

static struct {
    int64_t own[MAX_RANKS][N];
    int64_t other[MAX_RANKS][N];
    int64_t out[MAX_RANKS][N];
} data;

static void open_world(struct world *w, int size, uint64_t seed, int64_t fusion)
{
    struct hvd_engine_options options = world_manual;

    options.fusion_bytes = fusion;
    options.cache_capacity = 64;
    world_open(w, size, seed, &options);
    for (int rank = 0; rank < size; rank++)
        for (int i = 0; i < N; i++)
            data.own[rank][i] = data.other[rank][i] = data.out[rank][i] = value_of(rank, i);
}

static int64_t submit(struct world *w, int rank, const char *name, const int64_t *in, int64_t *out)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, name, N);

    req.dtype = HVD_INT64;
    return world_submit(w, rank, &req, in, out);
}

static void wait_for(struct world *w, int rank, int64_t handle)
{
    assert_int_equal(hvd_engine_wait(w->engines[rank], handle, NULL, NULL), HVD_OK);
}

static void expect(const int64_t *got, int size, int64_t factor)
{
    for (int i = 0; i < N; i++)
        assert_int_equal(got[i], factor * sum_of(size, i));
}

/* The last of several ranks has no tied tensors, and gets the same. */
static int64_t *twin_of(int size, int rank)
{
    return rank == size - 1 && size > 1 ? data.out[rank] : data.own[rank];
}

static void submit_tied(struct world *w, int size, int rank, int64_t handles[3])
{
    int64_t *const tensors[] = {data.own[rank], data.other[rank], twin_of(size, rank)};
    static const char *const names[] = {"a", "b", "c"};

    for (int i = 0; i < N; i++)
        data.own[rank][i] = data.other[rank][i] = data.out[rank][i] = value_of(rank, i);
    for (int i = 0; i < 3; i++)
        handles[i] = submit(w, rank, names[i], tensors[i], tensors[i]);
}

/* By name, then by a bit, laid out and again. */
static void reduce_tied(struct world *w, int size)
{
    int64_t handles[MAX_RANKS][3];

    for (int rank = 0; rank < size; rank++)
        submit_tied(w, size, rank, handles[rank]);
    world_settle(w);
    for (int rank = 0; rank < size; rank++) {
        for (int i = 0; i < 3; i++)
            wait_for(w, rank, handles[rank][i]);
        expect(data.own[rank], size, 1);
        expect(data.other[rank], size, 1);
        expect(twin_of(size, rank), size, 1);
    }
}

/* They move as one: all are read before one is written. */
static void a_tensor_that_is_twice_in_what_is_fused_is_reduced_once(void **state)
{
    struct world w;

    (void)state;
    for (int size = 1; size <= 4; size++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            open_world(&w, size, seed, 1 << 20);
            for (int turn = 0; turn < 3; turn++)
                reduce_tied(&w, size);
            world_close(&w);
        }
    }
}

/* Each begins with what the one before has left. */
static void a_tensor_that_is_pending_twice_is_reduced_twice(void **state)
{
    struct world w;

    (void)state;
    for (int size = 1; size <= 4; size++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            int64_t handles[MAX_RANKS][2];
            open_world(&w, size, seed, 0);
            for (int rank = 0; rank < size; rank++) {
                handles[rank][0] = submit(&w, rank, "a", data.own[rank], data.own[rank]);
                handles[rank][1] = submit(&w, rank, "b", data.own[rank], data.own[rank]);
            }
            world_settle(&w);
            for (int rank = 0; rank < size; rank++) {
                wait_for(&w, rank, handles[rank][0]);
                wait_for(&w, rank, handles[rank][1]);
                expect(data.own[rank], size, size);
            }
            world_close(&w);
        }
    }
}

/* Reading and writing the same memory does not go together, either way round; two that read do. */
static void what_reads_memory_that_is_written_waits(void **state)
{
    struct world w;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        int64_t handles[3][4];
        open_world(&w, 3, seed, 0);
        for (int rank = 0; rank < 3; rank++) {
            handles[rank][0] = submit(&w, rank, "read", data.own[rank], data.out[rank]);
            handles[rank][1] = submit(&w, rank, "write", data.own[rank], data.own[rank]);
            handles[rank][2] = submit(&w, rank, "again", data.own[rank], data.other[rank]);
        }
        world_settle(&w);
        for (int rank = 0; rank < 3; rank++) {
            for (int i = 0; i < 3; i++)
                wait_for(&w, rank, handles[rank][i]);
            expect(data.out[rank], 3, 1);
            expect(data.own[rank], 3, 1);
            expect(data.other[rank], 3, 3);
        }
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_that_is_twice_in_what_is_fused_is_reduced_once),
        cmocka_unit_test(a_tensor_that_is_pending_twice_is_reduced_twice),
        cmocka_unit_test(what_reads_memory_that_is_written_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
