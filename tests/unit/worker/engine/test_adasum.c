/*
 * Adasum through the engine, against the definition: whole vectors, two at a time, as double.
 */
#include "tests/unit/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"
#include "tests/unit/worker/reduce/reference.h"

#define MANY 7
#define LONGEST 67

static const int sizes[] = {1, 2, 4, 8};

static const struct hvd_engine_options options = {
    .cycle_ns = 200000, .no_background = true, .cache_capacity = 1024, .fusion_bytes = 1 << 20};

/* Tensors of every rank, as the type has them; [MANY] guards the end. */
static char input[MAX_RANKS][MANY][LONGEST * 8];
static char output[MAX_RANKS][MANY][LONGEST * 8 + 8];
static int64_t handles[MAX_RANKS][MANY];

/* What a result of the type may be off, relative to the largest element. */
static double tolerance(enum hvd_dtype dtype)
{
    switch ((int)dtype) {
    case HVD_FLOAT64:
        return 1e-13;
    case HVD_FLOAT32:
        return 1e-5;
    case HVD_FLOAT16:
        return 1e-2;
    default:
        return 8e-2;
    }
}

/* a = adasum(a, b) */
static void add(double *a, const double *b, int64_t count)
{
    double dots[3] = {0, 0, 0};

    for (int64_t i = 0; i < count; i++) {
        dots[0] += a[i] * b[i];
        dots[1] += a[i] * a[i];
        dots[2] += b[i] * b[i];
    }
    const double p = dots[1] == 0 ? 1 : 1 - dots[0] / dots[1] / 2;
    const double q = dots[2] == 0 ? 1 : 1 - dots[0] / dots[2] / 2;
    for (int64_t i = 0; i < count; i++)
        a[i] = p * a[i] + q * b[i];
}

/* The Adasum of the ranks [first, first + n) of tensor t into out. */
static void expect(const struct hvd_request *req, int t, int first, int n, double *out)
{
    const int64_t count = req->shape[0];
    double right[LONGEST] = {0};

    if (n == 1) {
        for (int64_t i = 0; i < count; i++)
            out[i] = reference_get(req->dtype, input[first][t], i) * req->prescale;
        return;
    }
    expect(req, t, first, n / 2, out);
    expect(req, t, first + n / 2, n / 2, right);
    add(out, right, count);
}

static struct hvd_request request(enum hvd_dtype dtype, int t, int64_t count)
{
    static char names[MANY][16];

    snprintf(names[t], sizeof(names[t]), "grad%d", t);
    struct hvd_request req = world_request(HVD_ALLREDUCE, names[t], count);
    req.dtype = dtype;
    req.reduce = HVD_ADASUM;
    return req;
}

static void check_tensor(struct world *w, const struct hvd_request *req, int t, int64_t count)
{
    double want[LONGEST] = {0};
    double largest = 1e-3;
    struct hvd_err err = {0};
    const size_t bytes = (size_t)count * hvd_dtype_size((int)req->dtype);

    expect(req, t, 0, w->size, want);
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i] * req->postscale));
    for (int rank = 0; rank < w->size; rank++) {
        if (hvd_engine_wait(w->engines[rank], handles[rank][t], NULL, &err) != HVD_OK)
            fail_msg("rank %d: %s", rank, err.msg);
        assert_memory_equal(output[rank][t], output[0][t], bytes); /* the same bits */
        assert_int_equal(output[rank][t][bytes], 0x55);
    }
    for (int64_t i = 0; i < count; i++) {
        const double got = reference_get(req->dtype, output[0][t], i);
        if (fabs(got - want[i] * req->postscale) > tolerance(req->dtype) * largest)
            fail_msg("%s, %d ranks, tensor %d of %d, element %d: %.17g instead of %.17g",
                     hvd_dtype_name((int)req->dtype), w->size, t, (int)count, (int)i, got,
                     want[i] * req->postscale);
    }
}

/* n tensors of these counts at once; those of a call fuse unless the options say no. */
static void run(struct world *w, enum hvd_dtype dtype, const int64_t *counts, int n,
                const double scale[2])
{
    for (int rank = 0; rank < w->size; rank++) {
        for (int k = 0; k < n; k++) {
            const int t = (k + rank) % n; /* in an order of its own */
            struct hvd_request req = request(dtype, t, counts[t]);
            req.prescale = scale[0];
            req.postscale = scale[1];
            const struct hvd_submission s = {
                .request = req, .input = input[rank][t], .output = output[rank][t]};
            memset(output[rank][t], 0x55, sizeof(output[rank][t]));
            assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &handles[rank][t], NULL),
                             HVD_OK);
        }
    }
    world_settle(w);
    for (int t = 0; t < n; t++) {
        struct hvd_request req = request(dtype, t, counts[t]);
        req.prescale = scale[0];
        req.postscale = scale[1];
        check_tensor(w, &req, t, counts[t]);
    }
}

static void fill(struct world *w, enum hvd_dtype dtype, uint64_t seed)
{
    for (int rank = 0; rank < w->size; rank++)
        for (int t = 0; t < MANY; t++)
            for (int i = 0; i < LONGEST; i++)
                reference_set(dtype, input[rank][t], i,
                              (double)(reference_random(&seed) % 2001) / 1000.0 - 1);
}

static void for_all_sizes(const struct hvd_engine_options *o, void (*body)(struct world *w))
{
    struct world w;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world_open(&w, sizes[i], i + 11, o);
        body(&w);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static const enum hvd_dtype types[] = {HVD_FLOAT16, HVD_FLOAT32, HVD_FLOAT64, HVD_BFLOAT16};
static const double none[2] = {1, 1};

static void every_length(struct world *w)
{
    static const int64_t lengths[] = {1, 2, 3, 5, 7, 8, 9, 16, 31, 64, 67};

    for (size_t d = 0; d < sizeof(types) / sizeof(types[0]); d++) {
        fill(w, types[d], d + 1);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
            run(w, types[d], &lengths[i], 1, none);
    }
}

static void a_tensor_alone_of_any_length_is_added_adaptively(void **state)
{
    (void)state;
    for_all_sizes(&options, every_length);
}

static void fused(struct world *w)
{
    static const int64_t counts[MANY] = {5, 1, 67, 8, 3, 1, 30};
    struct hvd_engine_counters before, after;

    for (size_t d = 0; d < sizeof(types) / sizeof(types[0]); d++) {
        for (int step = 0; step < 3; step++) { /* described, laid out, laid out before */
            fill(w, types[d], d * 10 + (uint64_t)step);
            hvd_engine_read_counters(w->engines[0], &before);
            run(w, types[d], counts, MANY, none);
        }
        hvd_engine_read_counters(w->engines[0], &after);
        assert_int_equal(after.flights - before.flights, 1);
    }
}

static void fused_tensors_keep_coefficients_of_their_own(void **state)
{
    (void)state;
    for_all_sizes(&options, fused);
}

static void the_same_one_by_one(struct world *w)
{
    static const int64_t counts[MANY] = {5, 1, 67, 8, 3, 1, 30};

    fill(w, HVD_FLOAT64, 99);
    for (int step = 0; step < 3; step++)
        run(w, HVD_FLOAT64, counts, MANY, none);
}

static void without_fusion_tensors_move_one_behind_the_other(void **state)
{
    struct hvd_engine_options alone = options;

    (void)state;
    alone.fusion_bytes = 0;
    for_all_sizes(&alone, the_same_one_by_one);
}

static void a_chunk_size_divides_what_partners_send(void **state)
{
    struct hvd_engine_options small = options;

    (void)state;
    for (int64_t bytes = 1; bytes < 200; bytes = bytes * 3 + 2) {
        small.adasum_chunk_bytes = bytes;
        for_all_sizes(&small, the_same_one_by_one);
    }
}

static void scaled(struct world *w)
{
    static const int64_t counts[MANY] = {5, 1, 67, 8, 3, 1, 30};
    const double scale[2] = {0.25, 3};

    for (size_t d = 0; d < sizeof(types) / sizeof(types[0]); d++) {
        fill(w, types[d], 5);
        run(w, types[d], counts, MANY, scale);
        run(w, types[d], counts, 1, scale);
    }
}

static void inputs_and_results_are_scaled(void **state)
{
    (void)state;
    for_all_sizes(&options, scaled);
}

/* Rank r has 1 in element r, or all the same: the two ends of what Adasum does. */
static void ends(struct world *w)
{
    const int64_t count = 8;

    for (int parallel = 0; parallel < 2; parallel++) {
        for (int rank = 0; rank < w->size; rank++)
            for (int i = 0; i < count; i++)
                reference_set(HVD_FLOAT32, input[rank][0], i, parallel ? i : i == rank);
        run(w, HVD_FLOAT32, &count, 1, none);
        for (int i = 0; i < count; i++)
            assert_true(reference_get(HVD_FLOAT32, output[0][0], i) ==
                        (parallel ? i : i < w->size));
    }
}

static void orthogonal_vectors_are_added_and_parallel_ones_averaged(void **state)
{
    (void)state;
    for_all_sizes(&options, ends);
}

static void zeros(struct world *w)
{
    const int64_t count = 9;

    for (int who = 0; who <= w->size; who++) { /* all but one, or all */
        for (int rank = 0; rank < w->size; rank++)
            for (int i = 0; i < count; i++)
                reference_set(HVD_FLOAT16, input[rank][0], i, rank == who ? i + 1 : 0);
        run(w, HVD_FLOAT16, &count, 1, none);
        for (int i = 0; i < count; i++)
            assert_true(reference_get(HVD_FLOAT16, output[0][0], i) == (who < w->size ? i + 1 : 0));
    }
}

static void vectors_of_zeros_change_nothing(void **state)
{
    (void)state;
    for_all_sizes(&options, zeros);
}

/* One NaN spoils its tensor, on every rank alike, and no other that is fused with it. */
static void not_numbers(struct world *w)
{
    static const int64_t counts[2] = {9, 3};

    for (int who = 0; who < w->size; who++) {
        fill(w, HVD_FLOAT32, 3);
        reference_set(HVD_FLOAT32, input[who][0], 4, (double)NAN);
        for (int rank = 0; rank < w->size; rank++) {
            for (int t = 0; t < 2; t++) {
                const struct hvd_submission s = {.request = request(HVD_FLOAT32, t, counts[t]),
                                                 .input = input[rank][t],
                                                 .output = output[rank][t]};
                memset(output[rank][t], 0x55, sizeof(output[rank][t]));
                assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &handles[rank][t], NULL),
                                 HVD_OK);
            }
        }
        world_settle(w);
        for (int rank = 0; rank < w->size; rank++) {
            assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank][0], NULL, NULL),
                             HVD_OK);
            assert_memory_equal(output[rank][0], output[0][0], 9 * sizeof(float));
        }
        assert_true(isnan(reference_get(HVD_FLOAT32, output[0][0], 4)));
        const struct hvd_request good = request(HVD_FLOAT32, 1, counts[1]);
        check_tensor(w, &good, 1, counts[1]);
    }
}

static void a_nan_spoils_its_own_tensor_alone(void **state)
{
    (void)state;
    for_all_sizes(&options, not_numbers);
}

static void steady(struct world *w)
{
    static const int64_t counts[MANY] = {5, 1, 67, 8, 3, 1, 30};

    fill(w, HVD_FLOAT32, 1);
    for (int step = 0; step < 40; step++)
        run(w, HVD_FLOAT32, counts, MANY, none);
    const unsigned long before = hvd_mem_allocations();
    for (int step = 0; step < 10; step++)
        run(w, HVD_FLOAT32, counts, MANY, none);
    assert_int_equal(hvd_mem_allocations(), before);
}

static void a_steady_loop_of_adasums_allocates_nothing(void **state)
{
    (void)state;
    for_all_sizes(&options, steady);
}

/* A sum and an alltoall around it: the collectives of an Adasum are not mixed up with others. */
static void among_others(struct world *w)
{
    static int64_t sum[MAX_RANKS], rows[MAX_RANKS][MAX_RANKS];
    static const int64_t splits[MAX_RANKS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t count = 33;
    int64_t others[MAX_RANKS][2] = {{0}};

    fill(w, HVD_FLOAT64, 17);
    for (int step = 0; step < 4; step++) {
        for (int rank = 0; rank < w->size; rank++) {
            const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, "sum", 1),
                                             .input = &sum[rank],
                                             .output = &sum[rank]};
            const struct hvd_submission x = {.request =
                                                 world_request(HVD_ALLTOALL, "exchange", w->size),
                                             .input = rows[rank],
                                             .splits = splits};
            sum[rank] = rank;
            assert_int_equal(hvd_engine_submit(w->engines[rank], &x, &others[rank][0], NULL),
                             HVD_OK);
            assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &others[rank][1], NULL),
                             HVD_OK);
        }
        run(w, HVD_FLOAT64, &count, 1, none);
        for (int rank = 0; rank < w->size; rank++) {
            assert_int_equal(hvd_engine_wait(w->engines[rank], others[rank][0], NULL, NULL),
                             HVD_OK);
            assert_int_equal(hvd_engine_wait(w->engines[rank], others[rank][1], NULL, NULL),
                             HVD_OK);
            assert_int_equal(sum[rank], w->size * (w->size - 1) / 2);
        }
    }
}

static void other_collectives_go_before_and_behind(void **state)
{
    (void)state;
    for_all_sizes(&options, among_others);
}

/* The last rank has joined: it is a vector of zeros. */
static void joined(struct world *w)
{
    static const int64_t counts[MANY] = {5, 1, 67, 8, 3, 1, 30};
    const struct hvd_submission join = {
        .request = {.op = HVD_JOIN, .reduce = HVD_SUM, .name = hvd_strview_of("join.noname")}};
    const int last = w->size - 1;
    int64_t joins[MAX_RANKS] = {0};

    fill(w, HVD_FLOAT64, 4);
    run(w, HVD_FLOAT64, counts, 3, none); /* cached */
    memset(input[last], 0, sizeof(input[last]));
    assert_int_equal(hvd_engine_submit(w->engines[last], &join, &joins[last], NULL), HVD_OK);
    for (int rank = 0; rank < last; rank++) {
        for (int t = 0; t < MANY; t++) { /* some cached, some not */
            const struct hvd_submission s = {.request = request(HVD_FLOAT64, t, counts[t]),
                                             .input = input[rank][t],
                                             .output = output[rank][t]};
            assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &handles[rank][t], NULL),
                             HVD_OK);
        }
    }
    world_settle(w);
    for (int rank = 0; rank < last; rank++) {
        double want[LONGEST] = {0};
        for (int t = 0; t < MANY; t++) {
            assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank][t], NULL, NULL),
                             HVD_OK);
            const struct hvd_request req = request(HVD_FLOAT64, t, counts[t]);
            expect(&req, t, 0, w->size, want);
            for (int64_t i = 0; i < counts[t]; i++)
                assert_true(fabs(reference_get(HVD_FLOAT64, output[rank][t], i) - want[i]) < 1e-12);
        }
        assert_int_equal(hvd_engine_submit(w->engines[rank], &join, &joins[rank], NULL), HVD_OK);
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++)
        assert_int_equal(hvd_engine_wait(w->engines[rank], joins[rank], NULL, NULL), HVD_OK);
}

static void a_rank_that_joined_is_a_vector_of_zeros(void **state)
{
    (void)state;
    for_all_sizes(&options, joined);
}

/* Two tensors whose nth allocation from their submission on fails; whether there was an nth. */
static bool fail_one(unsigned long nth)
{
    struct world w;
    const int64_t counts[2] = {9, 3};

    world_open(&w, 2, nth, &options);
    fill(&w, HVD_FLOAT32, nth);
    for (int rank = 0; rank < 2; rank++) {
        for (int t = 0; t < 2; t++) {
            const struct hvd_submission s = {.request = request(HVD_FLOAT32, t, counts[t]),
                                             .input = input[rank][t],
                                             .output = output[rank][t]};
            assert_int_equal(hvd_engine_submit(w.engines[rank], &s, &handles[rank][t], NULL),
                             HVD_OK);
        }
    }
    hvd_mem_fail_nth(nth);
    world_settle(&w);
    const bool has_failed = hvd_mem_fired();
    hvd_mem_fail_nth(0);
    world_settle(&w);
    for (int rank = 0; rank < 2; rank++) {
        for (int t = 0; t < 2; t++) {
            assert_int_equal(hvd_engine_poll(w.engines[rank], handles[rank][t]), 1);
            const hvd_status_t st = hvd_engine_wait(w.engines[rank], handles[rank][t], NULL, NULL);
            assert_true(st == HVD_OK || has_failed);
        }
    }
    world_close(&w);
    assert_int_equal(hvd_mem_live(), 0);
    return has_failed;
}

static void an_adasum_that_lacks_memory_ends_on_every_rank(void **state)
{
    unsigned long nth = 1;

    (void)state;
    while (fail_one(nth))
        nth++;
    assert_true(nth > 8);
}

static void other_numbers_of_ranks_are_refused_in_the_words_of_horovod(void **state)
{
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_op_layout_check_adasum(1, NULL), HVD_OK);
    assert_int_equal(hvd_op_layout_check_adasum(64, NULL), HVD_OK);
    assert_int_equal(hvd_op_layout_check_adasum(3, &err), HVD_ERR_INVALID);
    assert_non_null(
        strstr(err.msg, "Running Adasum with non-power of 2 ranks is not supported yet."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_alone_of_any_length_is_added_adaptively),
        cmocka_unit_test(fused_tensors_keep_coefficients_of_their_own),
        cmocka_unit_test(without_fusion_tensors_move_one_behind_the_other),
        cmocka_unit_test(a_chunk_size_divides_what_partners_send),
        cmocka_unit_test(inputs_and_results_are_scaled),
        cmocka_unit_test(orthogonal_vectors_are_added_and_parallel_ones_averaged),
        cmocka_unit_test(vectors_of_zeros_change_nothing),
        cmocka_unit_test(a_nan_spoils_its_own_tensor_alone),
        cmocka_unit_test(a_steady_loop_of_adasums_allocates_nothing),
        cmocka_unit_test(other_collectives_go_before_and_behind),
        cmocka_unit_test(a_rank_that_joined_is_a_vector_of_zeros),
        cmocka_unit_test(an_adasum_that_lacks_memory_ends_on_every_rank),
        cmocka_unit_test(other_numbers_of_ranks_are_refused_in_the_words_of_horovod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
