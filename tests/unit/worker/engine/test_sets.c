#include "tests/unit/support.h"

#include <string.h>

#include "tests/unit/worker/engine/world.h"

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Blocks that the simulator keeps of every set until its end. */
#define SIM_KEEPS 3
#define UNDER_WAY 20 /* messages, the last set */
#define NAMES 10     /* of a rank's tensors: as many as were ever there at once have room for one */

static hvd_status_t sum_in(struct world *w, int rank, uint32_t set, int64_t *value,
                           struct hvd_err *err)
{
    const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, "sum", 1),
                                     .input = value,
                                     .output = value,
                                     .set = set,
                                     .is_waited_now = true};
    int64_t handle = 0;
    hvd_status_t st = hvd_engine_submit(w->engines[rank], &s, &handle, err);

    return st == HVD_OK ? hvd_engine_wait(w->engines[rank], handle, NULL, err) : st;
}

/* Ranks 0 to n - 1, given backwards. */
static uint32_t add_first(struct world *w, int rank, int n)
{
    int ranks[MAX_RANKS];
    struct hvd_err err = {0};
    uint32_t id = 0;

    for (int i = 0; i < n; i++)
        ranks[i] = n - 1 - i;
    world_expect(hvd_engine_add_set(w->engines[rank], ranks, n, &id, &err) == HVD_OK, err.msg,
                 rank);
    return id;
}

/* Sets of the first 1, 2, ... ranks: every member sums in each, as often as it likes. */
static void sum_in_all_sets(struct world *w, int rank)
{
    uint32_t ids[MAX_RANKS];

    for (int n = 1; n < w->size; n++) {
        ids[n] = add_first(w, rank, n);
        world_expect((int)ids[n] == n, "a set has another number", rank);
    }
    for (int n = w->size - 1; n >= 1; n--) {
        for (int i = 0; rank < n && i < 4; i++) {
            struct hvd_err err = {0};
            int64_t value = rank + 1;
            world_expect(sum_in(w, rank, ids[n], &value, &err) == HVD_OK, err.msg, rank);
            world_expect(value == n * (n + 1) / 2, "a sum in a set is wrong", rank);
        }
    }
    int64_t value = 1;
    world_expect(sum_in(w, rank, 0, &value, NULL) == HVD_OK && value == w->size, "the job", rank);
    world_expect(hvd_engine_sets(w->engines[rank], NULL, 0) == w->size, "sets are missing", rank);
}

/* Who is refused, and how. */
static void be_refused(struct world *w, int rank)
{
    const int twice[] = {0, 0};
    const int outside[] = {w->size};
    const int one[] = {rank == 0 ? 0 : 1};
    struct hvd_self self;
    struct hvd_err err = {0};
    uint32_t id = 0;
    int ranks[MAX_RANKS];

    if (w->size < 3)
        return;
    const uint32_t two = add_first(w, rank, 2);
    world_expect(hvd_engine_add_set(w->engines[rank], (const int[]){0, 1}, 2, &id, NULL) ==
                     HVD_ERR_CONFLICT,
                 "the same set twice", rank);
    world_expect(hvd_engine_add_set(w->engines[rank], twice, 2, &id, NULL) == HVD_ERR_INVALID,
                 "twice", rank);
    world_expect(hvd_engine_add_set(w->engines[rank], outside, 1, &id, NULL) == HVD_ERR_INVALID,
                 "outside", rank);
    world_expect(hvd_engine_add_set(w->engines[rank], one, 1, &id, &err) == HVD_ERR_MISMATCH,
                 "no mismatch", rank);
    world_expect(strstr(err.msg, "Different ranks tried to set up mismatching") != NULL, err.msg,
                 rank);
    world_expect(hvd_engine_self(w->engines[rank], two, &self, NULL) ==
                     (rank < 2 ? HVD_OK : HVD_ERR_DENIED),
                 "place", rank);
    world_expect(hvd_engine_set_ranks(w->engines[rank], two, ranks, MAX_RANKS) == 2 &&
                     ranks[1] == 1,
                 "ranks", rank);
    world_expect(hvd_engine_remove_set(w->engines[rank], two + 1, NULL) == HVD_ERR_NOT_FOUND,
                 "no set", rank);
    world_expect(hvd_engine_agree(w->engines[rank], 5, NULL) == HVD_OK, "agree", rank);
    world_expect(hvd_engine_agree(w->engines[rank], rank, NULL) == HVD_ERR_MISMATCH, "disagree",
                 rank);
}

/* A tensor that its peer never submits ends with the set. */
static void remove_with_a_tensor_pending(struct world *w, int rank)
{
    int64_t value = 1;
    int64_t handle = 0;
    struct hvd_err err = {0};

    if (w->size < 2)
        return;
    const uint32_t id = add_first(w, rank, w->size - 1 < 2 ? 1 : 2);
    const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, "alone", 1),
                                     .input = &value,
                                     .output = &value,
                                     .set = id};
    if (rank == 0 && w->size > 2)
        world_expect(hvd_engine_submit(w->engines[0], &s, &handle, NULL) == HVD_OK, "submit", 0);
    world_expect(hvd_engine_remove_set(w->engines[rank], id, NULL) == HVD_OK, "remove", rank);
    if (handle != 0) {
        world_expect(hvd_engine_wait(w->engines[0], handle, NULL, &err) == HVD_ERR_SHUTDOWN, "wait",
                     0);
        world_expect(strstr(err.msg, "Process set has been removed") != NULL, err.msg, 0);
    }
    if (rank == 0)
        world_expect(sum_in(w, rank, id, &value, NULL) == HVD_ERR_SHUTDOWN, "a removed set works",
                     rank);
}

/* A set is made, used by all its members, and removed. */
static void use_and_remove(struct world *w, int rank)
{
    const int n = w->size - 1;

    if (n < 1)
        return;
    const uint32_t id = add_first(w, rank, n);
    for (int i = 0; rank < n && i < 4; i++) {
        int64_t value = rank + 1;
        world_expect(sum_in(w, rank, id, &value, NULL) == HVD_OK, "sum", rank);
    }
    world_expect(hvd_engine_remove_set(w->engines[rank], id, NULL) == HVD_OK, "remove", rank);
    int64_t value = 1;
    world_expect(rank >= n || sum_in(w, rank, id, &value, NULL) == HVD_ERR_SHUTDOWN, "removed",
                 rank);
}

/* Blocks once all ranks have let go of what they do not need. */
static long settled(struct world *w)
{
    world_run(w, use_and_remove);
    world_settle(w);
    return hvd_mem_live();
}

static void removed_sets_keep_no_memory_but_their_names(void **state)
{
    struct world w;

    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        world_open(&w, sizes[i], i + 1, &world_threaded);
        settled(&w);
        const long before = settled(&w);
        for (int n = 0; n < 5; n++)
            settled(&w);
        /* The ranks of a set, which every rank remembers, and what the simulator keeps. A set that
         * is kept is a dozen blocks on each of its ranks. */
        assert_true(hvd_mem_live() - before <=
                    5 * (w.size + SIM_KEEPS) + NAMES * w.size + UNDER_WAY);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void run(void (*body)(struct world *w, int rank))
{
    struct world w;

    for (size_t i = 0; i < N_SIZES; i++) {
        world_open(&w, sizes[i], i + 1, &world_threaded);
        world_run(&w, body);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void sets_do_not_wait_for_ranks_outside(void **state)
{
    (void)state;
    run(sum_in_all_sets);
}

static void sets_that_cannot_be_are_refused_on_every_rank(void **state)
{
    (void)state;
    run(be_refused);
}

static void a_set_that_is_removed_ends_what_is_pending_in_it(void **state)
{
    (void)state;
    run(remove_with_a_tensor_pending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_do_not_wait_for_ranks_outside),
        cmocka_unit_test(sets_that_cannot_be_are_refused_on_every_rank),
        cmocka_unit_test(a_set_that_is_removed_ends_what_is_pending_in_it),
        cmocka_unit_test(removed_sets_keep_no_memory_but_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
