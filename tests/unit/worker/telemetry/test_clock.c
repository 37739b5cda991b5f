#include "tests/unit/support.h"

#include <time.h>

#include "worker/telemetry/clock.h"

static int64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void ticks_become_the_time_of_the_monotonic_clock(void **state)
{
    struct hvd_clock clock;
    const int64_t before = monotonic_ns();

    (void)state;
    hvd_clock_init(&clock);
    hvd_clock_sync(&clock);
    while (monotonic_ns() - before < 20000000)
        ;
    hvd_clock_sync(&clock);
    const int64_t low = monotonic_ns();
    const int64_t since = hvd_clock_since_base(&clock, hvd_clock_ticks(&clock));
    const int64_t high = monotonic_ns();
    /* Within a millisecond of both, which a preempted reading needs at times. */
    assert_true(clock.base_ns + since > low - 1000000);
    assert_true(clock.base_ns + since < high + 1000000);
}

static void times_before_the_base_are_negative(void **state)
{
    struct hvd_clock clock = {.base_ticks = 1000, .ns_per_tick = 0.5};

    (void)state;
    assert_int_equal(hvd_clock_since_base(&clock, 900), -50);
    assert_int_equal(hvd_clock_since_base(&clock, 1100), 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_become_the_time_of_the_monotonic_clock),
        cmocka_unit_test(times_before_the_base_are_negative),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
