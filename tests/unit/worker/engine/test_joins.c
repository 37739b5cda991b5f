/*
 * A rank that joins is in process sets whose other members go on: they get zeros or an error, as
 * the others of the job do, and nobody waits.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

#define ROUNDS 3
#define N_SETS 3

static const int sizes[] = {2, 3, 5, 8};
static const int fanouts[] = {0, 1};

/* Set k: all ranks in other words (0), all but the last (1), the first and the last (2). */
static int members(int size, int k, int *ranks)
{
    const int n = k == 0 ? size : k == 1 ? size - 1 : 2;

    for (int i = 0; i < n; i++)
        ranks[i] = k == 2 && i == 1 ? size - 1 : i;
    return n;
}

static bool is_member(int size, int k, int rank)
{
    int ranks[MAX_RANKS];
    const int n = members(size, k, ranks);
    bool is = false;

    for (int i = 0; i < n; i++)
        is = is || ranks[i] == rank;
    return is;
}

/* Ranks join in turn, this one as the nth of the round. */
static int turn_of(int size, int rank, int round)
{
    return (rank + round) % size;
}

/* Waits for a tensor of a set; how it ended. */
static hvd_status_t perform(struct world *w, int rank, struct hvd_submission s, uint32_t set,
                            struct hvd_err *err)
{
    struct hvd_outcome outcome = {0};
    int64_t handle = 0;

    s.set = set;
    s.is_waited_now = true;
    hvd_err_clear(err);
    hvd_status_t st = hvd_engine_submit(w->engines[rank], &s, &handle, err);
    if (st == HVD_OK)
        st = hvd_engine_wait(w->engines[rank], handle, &outcome, err);
    hvd_output_destroy(outcome.output);
    return st;
}

/* Those of the set that have not joined: a sum, a barrier, and what cannot be done with zeros. */
static void go_on(struct world *w, int rank, int k, uint32_t set, int stage, int round)
{
    int64_t value = 1;
    int want = 0;
    char name[32];
    struct hvd_err err;
    struct hvd_submission sum = {
        .request = world_request(HVD_ALLREDUCE, "sum", 1), .input = &value, .output = &value};
    struct hvd_submission barrier = {.request = world_request(HVD_BARRIER, "barrier", 1)};

    for (int r = 0; r < w->size; r++)
        want += is_member(w->size, k, r) && turn_of(w->size, r, round) >= stage;
    barrier.request.ndim = 0;
    /* Once in a while another name: agreed anew while some have joined, or known before. */
    snprintf(name, sizeof(name), "sum %d", stage % 2);
    sum.request.name = hvd_strview_of(name);
    world_expect(perform(w, rank, sum, set, &err) == HVD_OK, err.msg, rank);
    world_expect(value == want, "a sum with joined ranks is wrong", rank);
    world_expect(perform(w, rank, barrier, set, &err) == HVD_OK, err.msg, rank);
    const struct hvd_submission gather = {.request = world_request(HVD_ALLGATHER, "rows", 1),
                                          .input = &value};
    const bool is_whole = want == (k == 0 ? w->size : k == 1 ? w->size - 1 : 2);
    const hvd_status_t st = perform(w, rank, gather, set, &err);
    world_expect(st == (is_whole ? HVD_OK : HVD_ERR_MISMATCH), "an allgather", rank);
    world_expect(is_whole || strstr(err.msg, "not supported with Join") != NULL, err.msg, rank);
}

static void join(struct world *w, int rank)
{
    const struct hvd_submission s = {
        .request = {.op = HVD_JOIN, .reduce = HVD_SUM, .name = hvd_strview_of(HVD_JOIN_NAME)}};
    struct hvd_err err;

    world_expect(perform(w, rank, s, 0, &err) == HVD_OK, err.msg, rank);
}

static void in_every_set(struct world *w, int rank)
{
    uint32_t sets[N_SETS] = {0};
    int ranks[MAX_RANKS];
    struct hvd_err err;

    for (int k = 1; k < N_SETS; k++) {
        const int n = members(w->size, k, ranks);
        hvd_err_clear(&err);
        const hvd_status_t st = hvd_engine_add_set(w->engines[rank], ranks, n, &sets[k], &err);
        if (st != HVD_OK) /* there is one of these ranks already */
            sets[k] = 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int stage = 0; stage <= turn_of(w->size, rank, round); stage++)
            for (int k = 0; k < N_SETS; k++)
                if (is_member(w->size, k, rank) && (k == 0 || sets[k] > 0))
                    go_on(w, rank, k, sets[k], stage, round);
        join(w, rank);
    }
}

static void a_rank_that_joins_holds_up_none_of_its_sets(void **state)
{
    struct hvd_engine_options options = world_threaded;
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 2; i++) {
        options.tree_fanout = fanouts[i % 2];
        world_open(&w, sizes[i / 2], i + 11, &options);
        world_run(&w, in_every_set);
        world_close(&w);
        assert_int_equal(world_problems(), 0);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

/* The first rank leaves while the others have joined, in the job and in a set. */
static void leave_behind(struct world *w, int rank)
{
    const struct hvd_submission s = {
        .request = {.op = HVD_JOIN, .reduce = HVD_SUM, .name = hvd_strview_of(HVD_JOIN_NAME)}};
    int ranks[MAX_RANKS];
    struct hvd_err err;
    uint32_t set = 0;

    hvd_err_clear(&err);
    const int n = members(w->size, 2, ranks);
    const hvd_status_t st = hvd_engine_add_set(w->engines[rank], ranks, n, &set, &err);
    world_expect(st == (w->size == 2 ? HVD_ERR_CONFLICT : HVD_OK), err.msg, rank);
    if (rank > 0)
        world_expect(perform(w, rank, s, 0, &err) == HVD_ERR_SHUTDOWN, "a join has not ended",
                     rank);
    else
        world_expect(hvd_engine_shutdown(w->engines[0], &err) == HVD_OK, err.msg, rank);
    if (rank > 0)
        world_expect(hvd_engine_shutdown(w->engines[rank], &err) == HVD_OK, err.msg, rank);
}

static void joins_end_with_the_job(void **state)
{
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_open(&w, sizes[i], i, &world_threaded);
        world_run(&w, leave_behind);
        world_destroy(&w);
        assert_int_equal(world_problems(), 0);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_joins_holds_up_none_of_its_sets),
        cmocka_unit_test(joins_end_with_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
