/* The search, on programs that are a formula: so many bytes a second for settings, and noise. */
#include "tests/unit/support.h"

#include <math.h>

#include "worker/autotune/core/tuner.h"

#define STEP_BYTES 100000000
#define N_NAMES 20

/* What settings are worth, 0 to 1. */
typedef double (*worth_fn)(double log_fusion, double log_cycle);

/* Best at 8 MiB and 1 ms, falling off smoothly. */
static double hill(double log_fusion, double log_cycle)
{
    const double x = (log_fusion - 23) / 6;
    const double y = log_cycle / 1.5;

    return exp(-x * x - y * y);
}

/* The more is fused the better; the cycle does nothing. */
static double slope(double log_fusion, double log_cycle)
{
    (void)log_cycle;
    return 0.4 + 0.6 * (log_fusion - 16) / 12;
}

/* Best in a corner, at 64 KiB and 20 ms, and a smaller summit opposite. */
static double two_summits(double log_fusion, double log_cycle)
{
    const double x = (log_fusion - 16) / 5;
    const double y = log_cycle - log10(20.0);
    const double u = (log_fusion - 27) / 4;
    const double v = log_cycle + 1;

    return exp(-x * x - y * y) + 0.7 * exp(-u * u - v * v);
}

static double worth_of(worth_fn worth, struct hvd_tuning t)
{
    return worth(log2((double)t.fusion_bytes), log10((double)t.cycle_us / 1000));
}

/* -1 to 1, about normal. */
static double noise_of(uint64_t *random)
{
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
        sum += (double)(*random >> 40) / (1 << 24) - 0.5;
    }
    return sum / 2;
}

static struct hvd_tuner_options options_of(double noise)
{
    return (struct hvd_tuner_options){.start = {.fusion_bytes = 128 << 20, .cycle_us = 1000},
                                      .warmup_samples = 3,
                                      .steps_per_sample = 10,
                                      .points = 20,
                                      .noise = noise};
}

/* Runs a program until the search is over; returns the steps it took. */
static unsigned run(struct hvd_tuner *t, worth_fn worth, double noise, uint64_t seed)
{
    struct hvd_tuner_report reports[HVD_TUNER_REPORTS];
    int64_t now_ns = 0;
    unsigned steps = 0;

    while (!hvd_tuner_is_done(t)) {
        const double speed = 1e9 * (0.05 + worth_of(worth, hvd_tuner_now(t)));
        const double factor = exp(noise * noise_of(&seed));
        now_ns += (int64_t)(STEP_BYTES / (speed * factor) * 1e9);
        for (uint64_t name = 1; name <= N_NAMES; name++)
            if (hvd_tuner_count(t, name * 0x9e3779b97f4a7c15ULL, STEP_BYTES / N_NAMES))
                hvd_tuner_end_sample(t, now_ns, reports);
        steps++;
        assert_true(steps < 100000);
    }
    return steps;
}

/* In how many of 20 searches the end is worth as much as `share` of the best. */
static int good_ends(worth_fn worth, double best, double noise, double share)
{
    int n_good = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct hvd_tuner_options options = options_of(0.8);
        struct hvd_tuner *t = NULL;
        assert_int_equal(hvd_tuner_create(&options, &t), HVD_OK);
        const unsigned steps = run(t, worth, noise, seed);
        assert_true(steps <= 1 + 10 * (3 + 5 * 20));
        n_good += worth_of(worth, hvd_tuner_now(t)) >= share * best;
        hvd_tuner_destroy(t);
    }
    return n_good;
}

static void a_hill_is_climbed_within_the_budget(void **state)
{
    (void)state;
    assert_int_equal(good_ends(hill, 1, 0, 0.9), 20);
    assert_true(good_ends(hill, 1, 0.3, 0.8) >= 18);
}

static void an_edge_is_found(void **state)
{
    (void)state;
    assert_true(good_ends(slope, 1, 0.3, 0.9) >= 18);
}

static void the_higher_of_two_summits_is_found(void **state)
{
    (void)state;
    assert_true(good_ends(two_summits, 1, 0.2, 0.8) >= 16);
}

static void the_end_is_never_much_worse_than_the_start(void **state)
{
    const struct hvd_tuning start = options_of(0.8).start;

    (void)state;
    assert_int_equal(good_ends(hill, worth_of(hill, start), 0.3, 0.9), 20);
    assert_int_equal(good_ends(slope, worth_of(slope, start), 0.3, 0.9), 20);
}

static void what_is_fixed_stays(void **state)
{
    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        struct hvd_tuner_options options = options_of(0.8);
        struct hvd_tuner *t = NULL;
        struct hvd_tuner_report reports[HVD_TUNER_REPORTS];
        int64_t now_ns = 0;
        options.start = (struct hvd_tuning){.fusion_bytes = 12345, .cycle_us = 777};
        options.is_fusion_fixed = fixed == 0;
        options.is_cycle_fixed = fixed == 1;
        assert_int_equal(hvd_tuner_create(&options, &t), HVD_OK);
        bool has_moved = false;
        while (!hvd_tuner_is_done(t)) {
            const struct hvd_tuning now = hvd_tuner_now(t);
            if (fixed == 0)
                assert_int_equal(now.fusion_bytes, 12345);
            else
                assert_int_equal(now.cycle_us, 777);
            has_moved = has_moved || now.fusion_bytes != 12345 || now.cycle_us != 777;
            now_ns += 1000000;
            if (hvd_tuner_count(t, 1, 1000))
                hvd_tuner_end_sample(t, now_ns, reports);
        }
        assert_true(has_moved);
        hvd_tuner_destroy(t);
    }
}

static void with_everything_fixed_there_is_nothing_to_do(void **state)
{
    struct hvd_tuner_options options = options_of(0.8);
    struct hvd_tuner *t = NULL;

    (void)state;
    options.is_fusion_fixed = true;
    options.is_cycle_fixed = true;
    assert_int_equal(hvd_tuner_create(&options, &t), HVD_OK);
    assert_true(hvd_tuner_is_done(t));
    assert_false(hvd_tuner_count(t, 1, 1000));
    hvd_tuner_destroy(t);
}

static void reports_tell_samples_points_and_the_best(void **state)
{
    struct hvd_tuner_options options = options_of(0.8);
    struct hvd_tuner_report reports[HVD_TUNER_REPORTS];
    struct hvd_tuner *t = NULL;
    int n[4] = {0};
    int64_t now_ns = 0;
    struct hvd_tuning best = {0};

    (void)state;
    options.points = 6;
    options.steps_per_sample = 2;
    assert_int_equal(hvd_tuner_create(&options, &t), HVD_OK);
    while (!hvd_tuner_is_done(t)) {
        now_ns += 1000000;
        if (!hvd_tuner_count(t, 1, 500))
            continue;
        const int n_reports = hvd_tuner_end_sample(t, now_ns, reports);
        for (int i = 0; i < n_reports; i++) {
            n[reports[i].phase]++;
            best = reports[i].tuning;
            if (reports[i].phase == HVD_TUNER_SAMPLE) {
                assert_int_equal(reports[i].bytes, 1000);
                assert_int_equal(reports[i].ns, 2000000);
                assert_true(fabs(reports[i].score - 500000) < 1);
            }
        }
    }
    assert_int_equal(n[HVD_TUNER_WARMUP], 3);
    assert_int_equal(n[HVD_TUNER_SAMPLE], 30);
    assert_int_equal(n[HVD_TUNER_POINT], 6);
    assert_int_equal(n[HVD_TUNER_BEST], 1);
    assert_int_equal(best.fusion_bytes, hvd_tuner_now(t).fusion_bytes);
    assert_int_equal(best.cycle_us, hvd_tuner_now(t).cycle_us);
    hvd_tuner_destroy(t);
}

static void tensors_that_come_once_end_no_sample(void **state)
{
    struct hvd_tuner_options options = options_of(0.8);
    struct hvd_tuner_report reports[HVD_TUNER_REPORTS];
    struct hvd_tuner *t = NULL;

    (void)state;
    options.steps_per_sample = 2;
    assert_int_equal(hvd_tuner_create(&options, &t), HVD_OK);
    assert_true(hvd_tuner_count(t, 1, 1));
    assert_int_equal(hvd_tuner_end_sample(t, 1, reports), 0);
    for (uint64_t name = 1; name < 100000; name++)
        assert_false(hvd_tuner_count(t, name, 1));
    assert_false(hvd_tuner_count(t, 4097, 1)); /* its place was taken before */
    assert_true(hvd_tuner_count(t, 1, 1));
    hvd_tuner_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        const struct hvd_tuner_options options = options_of(0.8);
        struct hvd_tuner *t = NULL;
        hvd_status_t st = hvd_tuner_create(&options, &t);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_tuner_destroy(t);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hill_is_climbed_within_the_budget),
        cmocka_unit_test(an_edge_is_found),
        cmocka_unit_test(the_higher_of_two_summits_is_found),
        cmocka_unit_test(the_end_is_never_much_worse_than_the_start),
        cmocka_unit_test(what_is_fixed_stays),
        cmocka_unit_test(with_everything_fixed_there_is_nothing_to_do),
        cmocka_unit_test(reports_tell_samples_points_and_the_best),
        cmocka_unit_test(tensors_that_come_once_end_no_sample),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
