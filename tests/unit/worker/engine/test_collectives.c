#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

#define MANY 40
#define ROOM 400

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const struct hvd_engine_options options = {
    .cycle_ns = 200000, .no_background = true, .cache_capacity = 1024, .fusion_bytes = 1 << 20};

/* One thread drives all ranks; rooms of each. */
static int64_t input[MAX_RANKS][ROOM];
static int64_t output[MAX_RANKS][ROOM];
static int64_t handles[MAX_RANKS][MANY] = {0};

static void submit(struct world *w, int rank, const struct hvd_submission *s, int64_t *handle)
{
    struct hvd_err err = {0};

    if (hvd_engine_submit(w->engines[rank], s, handle, &err) != HVD_OK)
        fail_msg("rank %d: %s", rank, err.msg);
}

static hvd_status_t wait_for(struct world *w, int rank, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err)
{
    assert_int_equal(hvd_engine_poll(w->engines[rank], handle), 1);
    return hvd_engine_wait(w->engines[rank], handle, outcome, err);
}

static void expect_ok(struct world *w, int rank, int64_t handle)
{
    struct hvd_err err = {0};

    if (wait_for(w, rank, handle, NULL, &err) != HVD_OK)
        fail_msg("rank %d: %s", rank, err.msg);
}

static void expect_mismatch(struct world *w, int rank, int64_t handle, const char *words)
{
    struct hvd_err err = {0};

    assert_int_equal(wait_for(w, rank, handle, NULL, &err), HVD_ERR_MISMATCH);
    if (!strstr(err.msg, words))
        fail_msg("rank %d: %s", rank, err.msg);
}

static struct hvd_engine_counters counters_of(struct world *w, int rank)
{
    struct hvd_engine_counters counters;

    hvd_engine_read_counters(w->engines[rank], &counters);
    return counters;
}

static void for_all_sizes(void (*body)(struct world *w))
{
    struct world w;

    for (size_t i = 0; i < N_SIZES; i++) {
        world_open(&w, sizes[i], i + 3, &options);
        body(&w);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

/* --- Steady state ----------------------------------------------------------------------------- */

/* MANY sums, submitted by each rank in an order of its own. */
static void run_step(struct world *w, int n)
{
    static const int strides[] = {1, 3, 7, 9, 11, 13, 17, 19}; /* coprime to MANY */
    char name[32];

    for (int rank = 0; rank < w->size; rank++) {
        for (int i = 0; i < n; i++) {
            const int t = n == MANY ? i * strides[rank] % MANY : i;
            snprintf(name, sizeof(name), "layer%d/weight", t);
            struct hvd_request req = world_request(HVD_ALLREDUCE, name, t % 5 + 1);
            input[rank][t * 5] = rank + t;
            const struct hvd_submission s = {
                .request = req, .input = &input[rank][t * 5], .output = &output[rank][t * 5]};
            submit(w, rank, &s, &handles[rank][t]);
        }
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++) {
        for (int t = 0; t < n; t++) {
            expect_ok(w, rank, handles[rank][t]);
            assert_int_equal(output[rank][t * 5], w->size * (w->size - 1) / 2 + w->size * t);
        }
    }
}

static void one_plan_hit_a_step(struct world *w)
{
    run_step(w, MANY);
    run_step(w, MANY);
    struct hvd_engine_counters before[MAX_RANKS];
    for (int rank = 0; rank < w->size; rank++)
        before[rank] = counters_of(w, rank);
    for (int step = 0; step < 10; step++)
        run_step(w, MANY);
    for (int rank = 0; rank < w->size; rank++) {
        const struct hvd_engine_counters after = counters_of(w, rank);
        assert_int_equal(after.plan_hits - before[rank].plan_hits, 10);
        assert_int_equal(after.plan_misses, before[rank].plan_misses);
        assert_int_equal(after.plans - before[rank].plans, 10);
        assert_int_equal(after.flights - before[rank].flights, 10); /* all fused into one */
        assert_int_equal(after.tensors - before[rank].tensors, 10 * MANY);
    }
}

static void a_steady_loop_hits_one_fused_plan_each_step(void **state)
{
    (void)state;
    for_all_sizes(one_plan_hit_a_step);
}

static void no_allocation_a_step(struct world *w)
{
    for (int step = 0; step < 40; step++) /* pools of the simulation grow with its delays */
        run_step(w, MANY);
    const unsigned long before = hvd_mem_allocations();
    for (int step = 0; step < 10; step++)
        run_step(w, MANY);
    assert_int_equal(hvd_mem_allocations(), before);
}

static void a_steady_loop_allocates_nothing(void **state)
{
    (void)state;
    for_all_sizes(no_allocation_a_step);
}

static void a_steady_step_is_one_small_message_a_rank_and_direction(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, 5, 3, &options);
    run_step(&w, MANY);
    run_step(&w, MANY);
    const uint64_t before = hvd_sim_messages(w.sim);
    run_step(&w, MANY);
    assert_int_equal(hvd_sim_messages(w.sim) - before, 8);
    world_close(&w);
}

static void parts_of_the_set(struct world *w)
{
    for (int step = 0; step < 3; step++)
        for (int n = 1; n < MANY; n += 7)
            run_step(w, n);
}

static void any_part_of_the_known_tensors_may_be_asked_for(void **state)
{
    (void)state;
    for_all_sizes(parts_of_the_set);
}

/* The shape changes on all ranks, at different times seen from the coordinator. */
static void change_shapes(struct world *w)
{
    for (int step = 0; step < 12; step++) {
        int64_t own[MAX_RANKS] = {0};
        struct hvd_request req = world_request(HVD_ALLREDUCE, "grows", step / 3 + 1);
        for (int rank = 0; rank < w->size; rank++) {
            const struct hvd_submission s = {
                .request = req, .input = &input[rank][300], .output = &output[rank][300]};
            input[rank][300 + step / 3] = rank;
            submit(w, rank, &s, &own[rank]);
            for (int i = 0; i <= rank; i++)
                hvd_engine_step(w->engines[i]);
        }
        run_step(w, 3);
        for (int rank = 0; rank < w->size; rank++) {
            expect_ok(w, rank, own[rank]);
            assert_int_equal(output[rank][300 + step / 3], w->size * (w->size - 1) / 2);
        }
    }
}

static void a_tensor_that_changes_its_shape_is_agreed_anew(void **state)
{
    (void)state;
    for_all_sizes(change_shapes);
}

/* One rank asks for a cached tensor by another shape: all hear of it, and all goes on. */
static void mismatch_after_caching(struct world *w)
{
    if (w->size == 1)
        return;
    run_step(w, 3);
    for (int odd = 0; odd < w->size; odd++) {
        int64_t own[MAX_RANKS] = {0};
        run_step(w, 3);
        for (int rank = 0; rank < w->size; rank++) {
            struct hvd_request req =
                world_request(HVD_ALLREDUCE, "layer0/weight", rank == odd ? 2 : 1);
            const struct hvd_submission s = {
                .request = req, .input = input[rank], .output = output[rank]};
            submit(w, rank, &s, &own[rank]);
            hvd_engine_step(w->engines[rank]);
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            expect_mismatch(w, rank, own[rank], "Mismatched ALLREDUCE tensor shapes");
        run_step(w, 3);
    }
}

static void a_cached_tensor_that_one_rank_changes_is_a_mismatch_for_all(void **state)
{
    (void)state;
    for_all_sizes(mismatch_after_caching);
}

/* --- Reductions ------------------------------------------------------------------------------- */

static void scale_and_average(struct world *w)
{
    for (int step = 0; step < 3; step++) {
        for (int rank = 0; rank < w->size; rank++) {
            struct hvd_request req = world_request(HVD_ALLREDUCE, "scaled", 2);
            req.reduce = HVD_AVERAGE;
            req.prescale = 3;
            req.postscale = 2;
            input[rank][0] = 10;
            input[rank][1] = rank;
            const struct hvd_submission s = {
                .request = req, .input = input[rank], .output = output[rank]};
            submit(w, rank, &s, &handles[rank][0]);
            req = world_request(HVD_ALLREDUCE, "product", 1);
            req.reduce = HVD_PRODUCT;
            input[rank][10] = 2;
            const struct hvd_submission p = {
                .request = req, .input = &input[rank][10], .output = &input[rank][10]};
            submit(w, rank, &p, &handles[rank][1]);
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++) {
            expect_ok(w, rank, handles[rank][0]);
            expect_ok(w, rank, handles[rank][1]);
            assert_int_equal(output[rank][0], 60);
            assert_int_equal(output[rank][1], 3 * (w->size - 1));
            assert_int_equal(input[rank][10], 1 << w->size);
        }
    }
}

static void averages_factors_and_products_are_computed(void **state)
{
    (void)state;
    for_all_sizes(scale_and_average);
}

/* 7 rows of 2: the first ranks get one more. */
static void scatter_rows(struct world *w)
{
    for (int step = 0; step < 3; step++) {
        for (int rank = 0; rank < w->size; rank++) {
            struct hvd_request req = world_request(HVD_REDUCESCATTER, "rows", 7);
            req.ndim = 2;
            req.shape[1] = 2;
            for (int i = 0; i < 14; i++)
                input[rank][i] = rank * 100 + i;
            memset(output[rank], 0xff, sizeof(output[rank]));
            const struct hvd_submission s = {
                .request = req, .input = input[rank], .output = output[rank]};
            submit(w, rank, &s, &handles[rank][0]);
        }
        world_settle(w);
        int at = 0;
        for (int rank = 0; rank < w->size; rank++) {
            const int n = (int)hvd_rows_of(7, rank, w->size) * 2;
            expect_ok(w, rank, handles[rank][0]);
            for (int i = 0; i < n; i++, at++)
                assert_int_equal(output[rank][i], w->size * (w->size - 1) / 2 * 100 + w->size * at);
            assert_int_equal(output[rank][n], -1);
        }
        assert_int_equal(at, 14);
    }
}

static void a_reducescatter_gives_the_first_ranks_a_row_more(void **state)
{
    (void)state;
    for_all_sizes(scatter_rows);
}

/* --- Alltoall --------------------------------------------------------------------------------- */

/* Rows of 3 from one rank to another; none in some steps, so that some ranks send nothing. */
static int64_t rows_between(int from, int to, int step)
{
    return (from + 2 * to + step) % 4;
}

static void exchange_once(struct world *w, int step)
{
    int64_t other[MAX_RANKS] = {0};

    for (int rank = 0; rank < w->size; rank++) {
        int64_t splits[MAX_RANKS];
        int64_t rows = 0;
        for (int to = 0; to < w->size; to++) {
            splits[to] = rows_between(rank, to, step);
            for (int64_t i = 0; i < splits[to] * 3; i++)
                input[rank][rows * 3 + i] = rank * 1000 + to * 100 + i;
            rows += splits[to];
        }
        struct hvd_request req = world_request(HVD_ALLTOALL, "exchange", rows);
        req.ndim = 2;
        req.shape[1] = 3;
        const struct hvd_submission s = {.request = req, .input = input[rank], .splits = splits};
        submit(w, rank, &s, &handles[rank][0]);
        const struct hvd_submission sum = {.request = world_request(HVD_ALLREDUCE, "behind", 1),
                                           .input = &input[rank][350],
                                           .output = &output[rank][350]};
        input[rank][350] = 1;
        submit(w, rank, &sum, &other[rank]);
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++) {
        struct hvd_outcome outcome = {0};
        int64_t at = 0;
        assert_int_equal(wait_for(w, rank, handles[rank][0], &outcome, NULL), HVD_OK);
        const int64_t *data = outcome.output->data;
        for (int from = 0; from < w->size; from++) {
            assert_int_equal(outcome.output->rows[from], rows_between(from, rank, step));
            for (int64_t i = 0; i < outcome.output->rows[from] * 3; i++, at++)
                assert_int_equal(data[at], from * 1000 + rank * 100 + i);
        }
        assert_int_equal(outcome.output->n_rows * 3, at);
        hvd_output_destroy(outcome.output);
        expect_ok(w, rank, other[rank]);
        assert_int_equal(output[rank][350], w->size);
    }
}

static void exchange(struct world *w)
{
    for (int step = 0; step < 6; step++)
        exchange_once(w, step);
}

static void an_alltoall_may_be_uneven_and_change_each_time(void **state)
{
    (void)state;
    for_all_sizes(exchange);
}

/* --- Groups ----------------------------------------------------------------------------------- */

static void submit_group(struct world *w, int rank, int64_t odd_count, int64_t *group)
{
    struct hvd_submission s[3];
    struct hvd_err err = {0};
    static const char *const names[] = {"g1", "g2", "g3"};

    for (int i = 0; i < 3; i++) {
        s[i] = (struct hvd_submission){
            .request = world_request(HVD_ALLREDUCE, names[i], i == 1 ? odd_count : 1),
            .input = &input[rank][i * 10],
            .output = &output[rank][i * 10]};
        input[rank][i * 10] = i;
    }
    if (hvd_engine_submit_group(w->engines[rank], s, 3, group, &err) != HVD_OK)
        fail_msg("%s", err.msg);
}

static void group_together(struct world *w)
{
    int64_t group[MAX_RANKS][3] = {0};

    for (int step = 0; step < 4; step++) {
        /* All but the last rank: no tensor of the group may run before. */
        for (int rank = 0; rank < w->size - 1; rank++)
            submit_group(w, rank, 1, group[rank]);
        world_settle(w);
        for (int rank = 0; rank < w->size - 1; rank++)
            assert_int_equal(hvd_engine_poll(w->engines[rank], group[rank][0]), 0);
        submit_group(w, w->size - 1, 1, group[w->size - 1]);
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++) {
            for (int i = 0; i < 3; i++) {
                expect_ok(w, rank, group[rank][i]);
                assert_int_equal(output[rank][i * 10], i * w->size);
            }
        }
    }
    assert_true(counters_of(w, 0).plan_hits >= 2); /* groups are cached as well */
}

static void a_group_completes_as_a_whole(void **state)
{
    (void)state;
    for_all_sizes(group_together);
}

static void group_fails(struct world *w)
{
    int64_t group[MAX_RANKS][3] = {0};

    for (int step = 0; step < 3 && w->size > 1; step++) {
        for (int rank = 0; rank < w->size; rank++)
            submit_group(w, rank, rank == 1 ? 2 : 1, group[rank]);
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            for (int i = 0; i < 3; i++)
                expect_mismatch(w, rank, group[rank][i], "Mismatched ALLREDUCE tensor shapes");
        group_together(w);
    }
}

static void a_group_fails_as_a_whole_and_works_again(void **state)
{
    (void)state;
    for_all_sizes(group_fails);
}

static void group_and_single(struct world *w)
{
    int64_t group[MAX_RANKS][3] = {0};

    /* Rank 0 groups what the others submit one by one. */
    for (int step = 0; step < 3; step++) {
        submit_group(w, 0, 1, group[0]);
        for (int rank = 1; rank < w->size; rank++) {
            for (int i = 2; i >= 0; i--) {
                const char *name = i == 0 ? "g1" : i == 1 ? "g2" : "g3";
                const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, name, 1),
                                                 .input = &input[rank][i * 10],
                                                 .output = &output[rank][i * 10]};
                input[rank][i * 10] = i;
                submit(w, rank, &s, &group[rank][i]);
            }
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++)
            for (int i = 0; i < 3; i++)
                expect_ok(w, rank, group[rank][i]);
    }
}

static void ranks_may_group_differently(void **state)
{
    (void)state;
    for_all_sizes(group_and_single);
}

static void a_group_with_a_pending_name_is_refused_as_a_whole(void **state)
{
    struct hvd_submission s[2];
    int64_t group[2];
    struct world w;

    (void)state;
    world_open(&w, 2, 1, &options);
    for (int i = 0; i < 2; i++)
        s[i] = (struct hvd_submission){.request = world_request(HVD_ALLREDUCE, "same", 1),
                                       .input = input[0],
                                       .output = output[0]};
    assert_int_equal(hvd_engine_submit_group(w.engines[0], s, 2, group, NULL), HVD_ERR_EXISTS);
    s[0].request.name = hvd_strview_of("other"); /* nothing of the refused group is left */
    assert_int_equal(hvd_engine_submit_group(w.engines[0], s, 2, group, NULL), HVD_OK);
    world_close(&w);
    assert_int_equal(hvd_mem_live(), 0);
}

/* --- Join ------------------------------------------------------------------------------------- */

static void submit_join(struct world *w, int rank, int64_t *handle)
{
    const struct hvd_submission s = {
        .request = {.op = HVD_JOIN, .reduce = HVD_SUM, .name = hvd_strview_of("join.noname")}};

    submit(w, rank, &s, handle);
}

/* Rank r has r + 1 batches; who has no more joins. Every rank in turn is the first to join. */
static void join_one_by_one(struct world *w)
{
    int64_t joins[MAX_RANKS];

    for (int round = 0; round < 2; round++) {
        run_step(w, 3); /* cached, in the first round as well */
        for (int left = w->size; left > 0; left--) {
            for (int rank = 0; rank < left; rank++) {
                const struct hvd_submission s = {
                    .request = world_request(HVD_ALLREDUCE, "layer0/weight", 1),
                    .input = &input[rank][0],
                    .output = &output[rank][0]};
                struct hvd_submission fresh = s;
                fresh.request = world_request(HVD_ALLREDUCE, "not cached", 7);
                fresh.input = fresh.output = &input[rank][20];
                input[rank][0] = input[rank][20] = 5;
                submit(w, rank, &s, &handles[rank][0]);
                submit(w, rank, &fresh, &handles[rank][1]);
            }
            world_settle(w);
            for (int rank = 0; rank < left; rank++) {
                expect_ok(w, rank, handles[rank][0]);
                expect_ok(w, rank, handles[rank][1]);
                assert_int_equal(output[rank][0], 5 * left);
                assert_int_equal(input[rank][20], 5 * left);
            }
            submit_join(w, left - 1, &joins[left - 1]);
            world_settle(w);
        }
        for (int rank = 0; rank < w->size; rank++) {
            struct hvd_outcome outcome = {0};
            assert_int_equal(wait_for(w, rank, joins[rank], &outcome, NULL), HVD_OK);
            assert_int_equal(outcome.number, 0);
        }
        run_step(w, 3);
    }
}

static void ranks_that_joined_contribute_zeros_until_all_have(void **state)
{
    (void)state;
    for_all_sizes(join_one_by_one);
}

/* What zeros cannot do is refused, by name and by bit. */
static void refuse_while_joined(struct world *w)
{
    static const enum hvd_op ops[] = {HVD_ALLGATHER, HVD_BROADCAST, HVD_REDUCESCATTER};
    static const char *const words[] = {"Allgather is not supported with Join",
                                        "Broadcast is not supported with Join",
                                        "Reducescatter is not supported with Join"};
    int64_t joins[MAX_RANKS];

    if (w->size == 1)
        return;
    for (int joined = 0; joined < 2; joined++) { /* first all take part, and it is cached */
        if (joined)
            submit_join(w, 0, &joins[0]);
        for (int n = 0; n < 3; n++) {
            for (int rank = joined; rank < w->size; rank++) {
                const struct hvd_submission s = {.request = world_request(ops[n], words[n], 1),
                                                 .input = input[rank],
                                                 .output = n == 0 ? NULL : output[rank]};
                submit(w, rank, &s, &handles[rank][n]);
            }
        }
        world_settle(w);
        for (int rank = joined; rank < w->size; rank++) {
            for (int n = 0; n < 3; n++) {
                if (joined)
                    expect_mismatch(w, rank, handles[rank][n], words[n]);
                else
                    expect_ok(w, rank, handles[rank][n]);
            }
        }
    }
    for (int rank = 1; rank < w->size; rank++)
        submit_join(w, rank, &joins[rank]);
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++)
        expect_ok(w, rank, joins[rank]);
    run_step(w, 3);
}

static void what_zeros_cannot_do_is_refused_while_a_rank_has_joined(void **state)
{
    (void)state;
    for_all_sizes(refuse_while_joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_loop_hits_one_fused_plan_each_step),
        cmocka_unit_test(a_steady_loop_allocates_nothing),
        cmocka_unit_test(a_steady_step_is_one_small_message_a_rank_and_direction),
        cmocka_unit_test(any_part_of_the_known_tensors_may_be_asked_for),
        cmocka_unit_test(a_tensor_that_changes_its_shape_is_agreed_anew),
        cmocka_unit_test(a_cached_tensor_that_one_rank_changes_is_a_mismatch_for_all),
        cmocka_unit_test(averages_factors_and_products_are_computed),
        cmocka_unit_test(a_reducescatter_gives_the_first_ranks_a_row_more),
        cmocka_unit_test(an_alltoall_may_be_uneven_and_change_each_time),
        cmocka_unit_test(a_group_completes_as_a_whole),
        cmocka_unit_test(a_group_fails_as_a_whole_and_works_again),
        cmocka_unit_test(ranks_may_group_differently),
        cmocka_unit_test(a_group_with_a_pending_name_is_refused_as_a_whole),
        cmocka_unit_test(ranks_that_joined_contribute_zeros_until_all_have),
        cmocka_unit_test(what_zeros_cannot_do_is_refused_while_a_rank_has_joined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
