#include "tests/unit/support.h"

#include "operator/app/pace.h"

#define START_US ((int64_t)7 * 3600 * 1000000)
#define SECOND_US 1000000

/* Looks as often as it may from *now_us on, until end_us. Returns how often that was. */
static unsigned look_until(struct hvd_pace *pace, int64_t *now_us, int64_t end_us)
{
    unsigned n = 0;

    for (;;) {
        *now_us += hvd_pace_wait_us(pace, *now_us);
        if (*now_us >= end_us)
            return n;
        hvd_pace_look(pace, *now_us);
        n++;
    }
}

static void what_comes_alone_is_not_delayed(void **state)
{
    struct hvd_pace pace = {0};
    int64_t now_us = START_US;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(hvd_pace_wait_us(&pace, now_us), 0);
        hvd_pace_look(&pace, now_us);
        now_us += HVD_PACE_MEAN_US;
    }
}

static void a_burst_of_a_second_is_read_every_two_milliseconds(void **state)
{
    struct hvd_pace pace = {0};
    int64_t now_us = START_US;

    (void)state;
    assert_int_equal(look_until(&pace, &now_us, START_US + SECOND_US), SECOND_US / HVD_PACE_GAP_US);
}

static void a_flood_of_a_minute_costs_a_bounded_number_of_looks(void **state)
{
    struct hvd_pace pace = {0};
    int64_t now_us = START_US;
    unsigned n = look_until(&pace, &now_us, START_US + (int64_t)60 * SECOND_US);

    (void)state;
    assert_in_range(n, 60 * SECOND_US / HVD_PACE_MEAN_US,
                    60 * SECOND_US / HVD_PACE_MEAN_US + HVD_PACE_CREDIT + 1);
}

static void credit_returns_while_little_happens(void **state)
{
    struct hvd_pace pace = {0};
    int64_t now_us = START_US;
    const int64_t later_us = START_US + (int64_t)40 * SECOND_US;

    (void)state;
    (void)look_until(&pace, &now_us, START_US + (int64_t)30 * SECOND_US);
    now_us = later_us;
    assert_int_equal(look_until(&pace, &now_us, later_us + SECOND_US), SECOND_US / HVD_PACE_GAP_US);
}

static void no_wait_is_longer_than_the_mean(void **state)
{
    struct hvd_pace pace = {0};
    int64_t now_us = START_US;

    (void)state;
    (void)look_until(&pace, &now_us, START_US + (int64_t)30 * SECOND_US);
    for (int i = 0; i < 100; i++)
        hvd_pace_look(&pace, now_us);
    assert_int_equal(hvd_pace_wait_us(&pace, now_us), HVD_PACE_MEAN_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_alone_is_not_delayed),
        cmocka_unit_test(a_burst_of_a_second_is_read_every_two_milliseconds),
        cmocka_unit_test(a_flood_of_a_minute_costs_a_bounded_number_of_looks),
        cmocka_unit_test(credit_returns_while_little_happens),
        cmocka_unit_test(no_wait_is_longer_than_the_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
