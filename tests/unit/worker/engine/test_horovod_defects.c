/*
 * What Horovod 0.28 gets wrong, and what happens here instead; docs/c-api.md lists all of it.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

static const int sizes[] = {1, 2, 3, 5, 8};

static const struct hvd_engine_options options = {
    .cycle_ns = 200000, .no_background = true, .cache_capacity = 1024, .fusion_bytes = 1 << 20};

static int64_t input[MAX_RANKS][16];
static int64_t output[MAX_RANKS][16];
static int64_t handles[MAX_RANKS][4];
static int64_t joins[MAX_RANKS];

static void submit(struct world *w, int rank, const struct hvd_submission *s, int64_t *handle)
{
    struct hvd_err err = {0};

    if (hvd_engine_submit(w->engines[rank], s, handle, &err) != HVD_OK)
        fail_msg("rank %d: %s", rank, err.msg);
}

static int64_t wait_for(struct world *w, int rank, int64_t handle)
{
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};

    assert_int_equal(hvd_engine_poll(w->engines[rank], handle), 1);
    if (hvd_engine_wait(w->engines[rank], handle, &outcome, &err) != HVD_OK)
        fail_msg("rank %d: %s", rank, err.msg);
    return outcome.number;
}

static void join(struct world *w, int rank)
{
    const struct hvd_submission s = {
        .request = {.op = HVD_JOIN, .reduce = HVD_SUM, .name = hvd_strview_of("join.noname")}};

    submit(w, rank, &s, &joins[rank]);
}

static void for_all_sizes(void (*body)(struct world *w))
{
    struct world w;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_open(&w, sizes[i], i + 7, &options);
        body(&w);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

/* A sum of ones over all ranks but those that have joined, and a barrier. */
static void sum_of_the_others(struct world *w, const bool *has_joined, int n_active)
{
    static const char *const names[] = {"seen before", "new"};

    for (int rank = 0; rank < w->size; rank++) {
        const struct hvd_submission barrier = {
            .request = {.op = HVD_BARRIER, .reduce = HVD_SUM, .name = hvd_strview_of("barrier")}};
        for (int k = 0; k < 2 && !has_joined[rank]; k++) {
            const struct hvd_submission s = {
                .request = world_request(HVD_ALLREDUCE, names[k], 4 + n_active * k),
                .input = input[rank],
                .output = output[rank]};
            for (int i = 0; i < 16; i++)
                input[rank][i] = 1;
            submit(w, rank, &s, &handles[rank][k]);
        }
        if (!has_joined[rank])
            submit(w, rank, &barrier, &handles[rank][2]);
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++) {
        for (int k = 0; k < 3 && !has_joined[rank]; k++)
            wait_for(w, rank, handles[rank][k]);
        if (!has_joined[rank])
            assert_int_equal(output[rank][0], n_active);
    }
}

static void join_from_each(struct world *w)
{
    for (int first = 0; first < w->size; first++) { /* who joins first, then its neighbours */
        bool has_joined[MAX_RANKS] = {false};
        for (int n = 0; n < w->size; n++) {
            sum_of_the_others(w, has_joined, w->size - n);
            has_joined[(first + n) % w->size] = true;
            join(w, (first + n) % w->size);
            world_settle(w);
        }
        for (int rank = 0; rank < w->size; rank++)
            assert_int_equal(wait_for(w, rank, joins[rank]), (first + w->size - 1) % w->size);
    }
}

static void any_rank_may_join_first_and_barriers_go_on(void **state)
{
    (void)state;
    for_all_sizes(join_from_each);
}

static void take_the_name(struct world *w)
{
    for (int step = 0; step < 6; step++) {
        for (int rank = 0; rank < w->size; rank++) {
            const enum hvd_op op = step % 3 == 2 ? HVD_REDUCESCATTER : HVD_ALLREDUCE;
            const struct hvd_submission s = {.request = world_request(op, "twofold", 8),
                                             .input = input[rank],
                                             .output = output[rank]};
            for (int i = 0; i < 8; i++)
                input[rank][i] = i;
            submit(w, rank, &s, &handles[rank][0]);
        }
        world_settle(w);
        int64_t at = 0;
        for (int rank = 0; rank < w->size; rank++) {
            wait_for(w, rank, handles[rank][0]);
            assert_int_equal(output[rank][0], w->size * (step % 3 == 2 ? at : 0));
            at += hvd_rows_of(8, rank, w->size);
        }
    }
}

static void a_reducescatter_may_take_the_name_of_a_cached_allreduce(void **state)
{
    (void)state;
    for_all_sizes(take_the_name);
}

static void differ_in_reduction(struct world *w)
{
    for (int rank = 0; rank < w->size && w->size > 1; rank++) {
        struct hvd_submission s = {.request = world_request(HVD_REDUCESCATTER, "rows", 8),
                                   .input = input[rank],
                                   .output = output[rank]};
        s.request.reduce = rank == 1 ? HVD_AVERAGE : HVD_SUM;
        submit(w, rank, &s, &handles[rank][0]);
    }
    world_settle(w);
    for (int rank = 0; rank < w->size && w->size > 1; rank++) {
        struct hvd_err err = {0};
        assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank][0], NULL, &err),
                         HVD_ERR_MISMATCH);
        assert_non_null(strstr(err.msg, "Mismatched reduction operation: One rank sent"));
    }
    take_the_name(w);
}

static void reducescatters_that_differ_in_their_reduction_are_a_mismatch(void **state)
{
    (void)state;
    for_all_sizes(differ_in_reduction);
}

/* Of a group whose last name is pending nothing is left behind. */
static void refuse_in_part(struct world *w)
{
    struct hvd_submission s[3];
    int64_t group[3];
    static const char *const names[] = {"one", "two", "pending"};

    for (int rank = 0; rank < w->size; rank++) {
        for (int i = 0; i < 3; i++)
            s[i] = (struct hvd_submission){.request = world_request(HVD_ALLREDUCE, names[i], 1),
                                           .input = &input[rank][i],
                                           .output = &output[rank][i]};
        submit(w, rank, &s[2], &handles[rank][2]);
        assert_int_equal(hvd_engine_submit_group(w->engines[rank], s, 3, group, NULL),
                         HVD_ERR_EXISTS);
        submit(w, rank, &s[0], &handles[rank][0]);
        submit(w, rank, &s[1], &handles[rank][1]);
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++)
        for (int i = 0; i < 3; i++)
            wait_for(w, rank, handles[rank][i]);
}

static void a_group_with_a_duplicate_name_leaves_nothing_behind(void **state)
{
    (void)state;
    for_all_sizes(refuse_in_part);
}

/* Threads cannot assert. */
static int numbers[MAX_RANKS][3];

static void make_and_remove(struct world *w, int rank)
{
    const int first[] = {0};
    uint32_t id = 0;

    for (int i = 0; i < 3; i++) {
        int64_t value = 1;
        int64_t handle = 0;
        if (hvd_engine_add_set(w->engines[rank], first, 1, &id, NULL) != HVD_OK)
            return;
        const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, "of a set", 1),
                                         .input = &value,
                                         .output = &value,
                                         .set = id};
        const bool is_good =
            rank != 0 || (hvd_engine_submit(w->engines[0], &s, &handle, NULL) == HVD_OK &&
                          hvd_engine_wait(w->engines[0], handle, NULL, NULL) == HVD_OK);
        if (is_good && hvd_engine_remove_set(w->engines[rank], id, NULL) == HVD_OK)
            numbers[rank][i] = (int)id;
    }
}

static void numbers_of_process_sets_are_never_used_again(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, 3, 1, &options);
    world_run(&w, make_and_remove);
    world_close(&w);
    for (int rank = 0; rank < 3; rank++)
        for (int i = 0; i < 3; i++)
            assert_int_equal(numbers[rank][i], i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rank_may_join_first_and_barriers_go_on),
        cmocka_unit_test(a_reducescatter_may_take_the_name_of_a_cached_allreduce),
        cmocka_unit_test(reducescatters_that_differ_in_their_reduction_are_a_mismatch),
        cmocka_unit_test(a_group_with_a_duplicate_name_leaves_nothing_behind),
        cmocka_unit_test(numbers_of_process_sets_are_never_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
