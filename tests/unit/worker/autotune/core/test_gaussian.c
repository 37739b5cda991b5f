#include "tests/unit/support.h"

#include <math.h>
#include <stdbool.h>

#include "worker/autotune/core/gaussian.h"

static struct hvd_gaussian *create(double noise)
{
    struct hvd_gaussian *g = NULL;

    assert_int_equal(hvd_gaussian_create(noise, &g), HVD_OK);
    return g;
}

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance;
}

static void without_noise_it_passes_through_what_was_seen(void **state)
{
    static const double at[][2] = {{0, 0}, {1, 0}, {0.3, 0.7}, {0.9, 0.9}, {0.5, 0.2}};
    static const double values[] = {1, 5, -3, 1000, 12};
    struct hvd_gaussian *g = create(0);

    (void)state;
    for (int i = 0; i < 5; i++)
        hvd_gaussian_add(g, at[i], values[i]);
    for (int i = 0; i < 5; i++) {
        const struct hvd_belief belief = hvd_gaussian_believe(g, at[i]);
        assert_true(near(belief.mean, values[i], 0.01));
        assert_true(belief.deviation < 1);
    }
    assert_int_equal(hvd_gaussian_best(g), 3);
    hvd_gaussian_destroy(g);
}

static void one_value_says_little_about_places_far_away(void **state)
{
    static const double here[] = {0.5, 0.5};
    static const double there[] = {0, 0};
    struct hvd_gaussian *g = create(0.1);

    (void)state;
    hvd_gaussian_add(g, here, 7);
    assert_true(near(hvd_gaussian_believe(g, here).mean, 7, 0.1));
    assert_true(hvd_gaussian_believe(g, there).deviation >
                hvd_gaussian_believe(g, here).deviation * 2);
    hvd_gaussian_destroy(g);
}

static void two_values_of_one_place_are_averaged(void **state)
{
    static const double here[] = {0.5, 0.5};
    static const double there[] = {0, 1};
    struct hvd_gaussian *g = create(0.5);

    (void)state;
    hvd_gaussian_add(g, here, 10);
    hvd_gaussian_add(g, here, 20);
    hvd_gaussian_add(g, there, 15);
    assert_true(near(hvd_gaussian_believe(g, here).mean, 15, 0.5));
    hvd_gaussian_destroy(g);
}

static void the_mean_of_a_smooth_function_is_found_between_its_values(void **state)
{
    struct hvd_gaussian *g = create(0.01);
    double worst = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            const double at[] = {i / 5.0, j / 5.0};
            hvd_gaussian_add(g, at, sin(2 * at[0]) + at[1] * at[1]);
        }
    }
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 5; j++) {
            const double at[] = {(i + 0.5) / 5, (j + 0.5) / 5};
            const double truth = sin(2 * at[0]) + at[1] * at[1];
            worst = fmax(worst, fabs(hvd_gaussian_believe(g, at).mean - truth));
        }
    }
    assert_true(worst < 0.02);
    hvd_gaussian_destroy(g);
}

/* Numbers worked out by hand: one value 0 of deviation 1, so the belief far away is N(0, 1). */
static void the_improvement_is_that_of_the_normal_distribution(void **state)
{
    static const double here[] = {0, 0};
    static const double there[] = {1, 1};
    struct hvd_gaussian *g = create(0);

    (void)state;
    hvd_gaussian_add(g, here, 4);
    assert_true(near(hvd_gaussian_improvement(g, there, 0), 0.3989423, 0.001));
    assert_true(near(hvd_gaussian_improvement(g, there, 1), 0.0833155, 0.001));
    assert_true(near(hvd_gaussian_improvement(g, here, 0), 0, 0.001));
    hvd_gaussian_destroy(g);
}

static void values_that_are_all_the_same_and_too_many_are_no_trouble(void **state)
{
    struct hvd_gaussian *g = create(0);

    (void)state;
    for (int i = 0; i < HVD_GAUSSIAN_MAX + 10; i++) {
        const double at[] = {i % 7 / 7.0, i % 11 / 11.0};
        hvd_gaussian_add(g, at, 3);
    }
    const struct hvd_belief belief = hvd_gaussian_believe(g, (const double[]){0.2, 0.2});
    assert_true(near(belief.mean, 3, 0.001));
    assert_true(isfinite(hvd_gaussian_improvement(g, (const double[]){0.7, 0.1}, 0.01)));
    hvd_gaussian_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_noise_it_passes_through_what_was_seen),
        cmocka_unit_test(one_value_says_little_about_places_far_away),
        cmocka_unit_test(two_values_of_one_place_are_averaged),
        cmocka_unit_test(the_mean_of_a_smooth_function_is_found_between_its_values),
        cmocka_unit_test(the_improvement_is_that_of_the_normal_distribution),
        cmocka_unit_test(values_that_are_all_the_same_and_too_many_are_no_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
