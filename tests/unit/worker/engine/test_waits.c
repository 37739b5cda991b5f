/*
 * Waits that give up: after a time, or at once, when what is asked for takes longer than some
 * microseconds.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

#define N_THREADS 3
#define N_ROUNDS 40
#define MANY_ELEMENTS 4096 /* of 8 bytes: more than a brief wait reduces */

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static atomic_bool gave_up;

/* The others submit once rank 0 has waited for nothing. */
static void one_gives_up_for_a_while(struct world *w, int rank)
{
    const struct hvd_request req = world_request(HVD_ALLREDUCE, "late", 1);
    int64_t data = rank + 1;
    int64_t handle = 0;
    const struct hvd_submission s = {.request = req, .input = &data, .output = &data};
    struct hvd_engine *e = w->engines[rank];
    struct hvd_err err = {0};

    while (rank > 0 && !atomic_load(&gave_up))
        sched_yield();
    world_expect(hvd_engine_submit(e, &s, &handle, &err) == HVD_OK, err.msg, rank);
    if (rank == 0) {
        world_expect(hvd_engine_wait_for(e, handle, 1000000, NULL, &err) == HVD_INPROGRESS, "done",
                     0);
        atomic_store(&gave_up, true);
    }
    world_expect(hvd_engine_wait_for(e, handle, INT64_C(3600) * 1000000000, NULL, &err) == HVD_OK,
                 err.msg, rank);
    world_expect(data == w->size * (w->size + 1) / 2, "a sum is wrong", rank);
    (void)hvd_engine_shutdown(e, NULL);
}

static void a_wait_that_gave_up_is_taken_up_again(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 1; n < N_SIZES; n++) {
        atomic_store(&gave_up, false);
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, one_gives_up_for_a_while);
        world_destroy(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void a_brief_wait_ends_a_small_tensor_and_leaves_a_large_one(void **state)
{
    static int64_t many[MANY_ELEMENTS];
    struct hvd_err err = {0};
    struct world w;
    int64_t one = 7;

    (void)state;
    world_open(&w, 1, 1, &world_manual);
    const struct hvd_request small = world_request(HVD_ALLREDUCE, "small", 1);
    const struct hvd_request large = world_request(HVD_ALLREDUCE, "large", MANY_ELEMENTS);
    for (int turn = 0; turn < 3; turn++) { /* asked for by name, then by its bit */
        const int64_t handle = world_submit(&w, 0, &small, &one, &one);
        assert_int_equal(hvd_engine_wait_for(w.engines[0], handle, 0, NULL, &err), HVD_OK);
        assert_int_equal(hvd_engine_wait_for(w.engines[0], handle, 0, NULL, &err),
                         HVD_ERR_NOT_FOUND);
        hvd_err_clear(&err);
    }
    const int64_t big = world_submit(&w, 0, &large, many, many);
    const int64_t late = world_submit(&w, 0, &small, &one, &one);
    assert_int_equal(hvd_engine_wait_for(w.engines[0], late, 0, NULL, &err), HVD_INPROGRESS);
    assert_int_equal(hvd_engine_wait_for(w.engines[0], big, 0, NULL, &err), HVD_INPROGRESS);
    assert_int_equal(hvd_engine_wait(w.engines[0], big, NULL, &err), HVD_OK);
    assert_int_equal(hvd_engine_wait_for(w.engines[0], late, 0, NULL, &err), HVD_OK);
    world_close(&w);
    assert_int_equal(hvd_mem_live(), 0);
    assert_int_equal(world_problems(), 0);
}

/* One thread goes from rank to rank: no wait may stay, and together they get there. */
static void brief_waits_alone_complete_a_job(void **state)
{
    const struct hvd_request req = world_request(HVD_ALLREDUCE, "t", 1);
    int64_t data[MAX_RANKS] = {0};
    int64_t handles[MAX_RANKS] = {0};
    struct hvd_err err = {0};
    struct world w;

    (void)state;
    for (size_t n = 0; n < N_SIZES; n++) {
        int left = sizes[n];
        world_open(&w, sizes[n], n, &world_manual);
        for (int rank = 0; rank < w.size; rank++) {
            data[rank] = rank + 1;
            handles[rank] = world_submit(&w, rank, &req, &data[rank], &data[rank]);
        }
        for (int turn = 0; turn < 1000 && left > 0; turn++) {
            const int rank = turn % w.size;
            if (handles[rank] == 0)
                continue;
            const hvd_status_t st =
                hvd_engine_wait_for(w.engines[rank], handles[rank], 0, NULL, &err);
            if (st == HVD_INPROGRESS)
                continue;
            assert_int_equal(st, HVD_OK);
            assert_int_equal(data[rank], w.size * (w.size + 1) / 2);
            handles[rank] = 0;
            left--;
        }
        assert_int_equal(left, 0);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

/* --- Together ----------------------------------------------------------------------------------
 */

struct thread_of_rank {
    struct world *w;
    int rank;
    int number;
};

/* Waits at once, for a microsecond, and as long as it takes; the other threads do so as well. */
static void *wait_in_all_ways(void *arg)
{
    const struct thread_of_rank *self = arg;
    struct hvd_engine *e = self->w->engines[self->rank];
    const int size = self->w->size;
    struct hvd_err err = {0};
    char name[16];

    snprintf(name, sizeof(name), "t%d", self->number);
    const struct hvd_request req = world_request(HVD_ALLREDUCE, name, 1);
    for (int round = 0; round < N_ROUNDS; round++) {
        int64_t data = self->rank + round;
        const int64_t handle = world_submit(self->w, self->rank, &req, &data, &data);
        hvd_status_t st = hvd_engine_wait_for(e, handle, 0, NULL, &err);
        if (st == HVD_INPROGRESS)
            st = hvd_engine_wait_for(e, handle, 1000, NULL, &err);
        if (st == HVD_INPROGRESS)
            st = hvd_engine_wait(e, handle, NULL, &err);
        world_expect(st == HVD_OK, err.msg, self->rank);
        world_expect(data == size * (size - 1) / 2 + size * round, "a sum is wrong", self->rank);
    }
    return NULL;
}

static void run_threads(struct world *w, int rank)
{
    pthread_t threads[N_THREADS];
    struct thread_of_rank args[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        args[i] = (struct thread_of_rank){.w = w, .rank = rank, .number = i};
        if (pthread_create(&threads[i], NULL, wait_in_all_ways, &args[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_of_all_ranks_wait_in_all_ways_at_once(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 0; n < N_SIZES; n++) {
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, run_threads);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_gave_up_is_taken_up_again),
        cmocka_unit_test(a_brief_wait_ends_a_small_tensor_and_leaves_a_large_one),
        cmocka_unit_test(brief_waits_alone_complete_a_job),
        cmocka_unit_test(threads_of_all_ranks_wait_in_all_ways_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
