/*
 * Groups that are kept apart: what moves together, whether it is known by bits or described.
 */
#include "tests/unit/support.h"

#include <stdio.h>

#include "tests/unit/worker/engine/world.h"

#define N_GROUPS 3
#define N_MEMBERS 2
#define N_ALONE 2

static const int sizes[] = {1, 2, 3, 5, 8};

static int64_t data[MAX_RANKS][N_GROUPS + 1][N_MEMBERS];
static int64_t handles[MAX_RANKS][N_GROUPS + 1][N_MEMBERS];

static struct hvd_submission tensor(int rank, int group, int member)
{
    static char names[N_GROUPS + 1][N_MEMBERS][32];

    snprintf(names[group][member], sizeof(names[group][member]), "group%d/%d", group, member);
    data[rank][group][member] = rank + group;
    return (struct hvd_submission){.request = world_request(HVD_ALLREDUCE, names[group][member], 1),
                                   .input = &data[rank][group][member],
                                   .output = &data[rank][group][member]};
}

/* Three groups, and two tensors that are in none, in an order of this rank's. */
static void submit(struct world *w, int rank)
{
    for (int k = 0; k <= N_GROUPS; k++) {
        const int group = (k + rank) % (N_GROUPS + 1);
        const struct hvd_submission s[N_MEMBERS] = {tensor(rank, group, 0), tensor(rank, group, 1)};
        if (group == N_GROUPS) {
            for (int i = 0; i < N_ALONE; i++)
                assert_int_equal(
                    hvd_engine_submit(w->engines[rank], &s[i], &handles[rank][group][i], NULL),
                    HVD_OK);
        } else {
            assert_int_equal(
                hvd_engine_submit_group(w->engines[rank], s, N_MEMBERS, handles[rank][group], NULL),
                HVD_OK);
        }
    }
}

/* The fused operations that all of it took. */
static uint64_t run(struct world *w)
{
    struct hvd_engine_counters before, after;

    hvd_engine_read_counters(w->engines[0], &before);
    for (int rank = 0; rank < w->size; rank++)
        submit(w, rank);
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++) {
        for (int group = 0; group <= N_GROUPS; group++) {
            for (int i = 0; i < N_MEMBERS; i++) {
                assert_int_equal(
                    hvd_engine_wait(w->engines[rank], handles[rank][group][i], NULL, NULL), HVD_OK);
                assert_int_equal(data[rank][group][i],
                                 w->size * (w->size - 1) / 2 + w->size * group);
            }
        }
    }
    hvd_engine_read_counters(w->engines[0], &after);
    return after.flights - before.flights;
}

static void for_all_sizes(bool keeps_apart, uint32_t capacity, uint64_t want)
{
    const struct hvd_engine_options options = {.cycle_ns = 200000,
                                               .no_background = true,
                                               .cache_capacity = capacity,
                                               .fusion_bytes = 1 << 20,
                                               .keeps_groups_apart = keeps_apart};
    struct world w;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_open(&w, sizes[i], i + 5, &options);
        for (int step = 0; step < 4; step++)
            assert_int_equal(run(&w), want);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static void groups_fuse_with_anything_unless_they_are_kept_apart(void **state)
{
    (void)state;
    for_all_sizes(false, 1024, 1);
    for_all_sizes(false, 0, 1);
}

static void groups_that_are_kept_apart_fuse_within_alone(void **state)
{
    (void)state;
    for_all_sizes(true, 1024, N_GROUPS + 1);
}

static void groups_without_a_cache_are_kept_apart_as_well(void **state)
{
    (void)state;
    for_all_sizes(true, 0, N_GROUPS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_fuse_with_anything_unless_they_are_kept_apart),
        cmocka_unit_test(groups_that_are_kept_apart_fuse_within_alone),
        cmocka_unit_test(groups_without_a_cache_are_kept_apart_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
