#include "tests/unit/support.h"

#include "operator/core/lease/server_clock.h"

#define EPOCH_MS 1700000000000 /* of our clock at the monotonic time 0 */

/* A server whose clock is ahead of ours answers a request that was sent at sent_ms. */
static int64_t learn(struct hvd_server_clock *clock, int64_t ahead_ms, int64_t sent_ms,
                     int64_t took_ms)
{
    const struct hvd_date_sample sample = {
        .date_s = (EPOCH_MS + ahead_ms + sent_ms + took_ms / 2) / 1000,
        .sent_ms = sent_ms,
        .received_ms = sent_ms + took_ms,
    };

    return hvd_server_clock_learn(clock, &sample);
}

static int64_t ahead(const struct hvd_server_clock *clock, int64_t now_ms)
{
    return hvd_server_clock_at(clock, now_ms) - EPOCH_MS - now_ms;
}

static void our_clock_counts_until_the_server_answers_and_while_it_agrees(void **state)
{
    struct hvd_server_clock clock;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS + 5000, 5000);
    assert_int_equal(ahead(&clock, 5000), 0);
    assert_false(clock.is_learned);
    for (int64_t t = 0; t < 100; t++)
        assert_int_equal(learn(&clock, 0, 10000 + t * 377, 20), 0);
    assert_true(clock.is_learned);
    assert_int_equal(ahead(&clock, 60000), 0);
}

static void a_clock_that_is_wrong_is_corrected_to_a_second_and_soon_to_less(void **state)
{
    static const int64_t aheads[] = {600000, -600000, 1500, -1500, 100000000000};

    (void)state;
    for (size_t i = 0; i < sizeof(aheads) / sizeof(aheads[0]); i++) {
        struct hvd_server_clock clock;
        int64_t error_ms;

        hvd_server_clock_init(&clock, EPOCH_MS, 0);
        (void)learn(&clock, aheads[i], 100, 10);
        error_ms = ahead(&clock, 100) - aheads[i];
        assert_true(error_ms >= -1010 && error_ms <= 1010);
        for (int64_t t = 200; t < 60000; t += 97)
            (void)learn(&clock, aheads[i], t, 10);
        error_ms = ahead(&clock, 60000) - aheads[i];
        assert_true(error_ms >= -40 && error_ms <= 40);
    }
}

static void a_slow_answer_bounds_little(void **state)
{
    struct hvd_server_clock clock;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    assert_int_equal(learn(&clock, 10000, 1000, 30000), 0);
    assert_true(learn(&clock, 10000, 40000, 10) > 8900);
}

static void one_or_two_wrong_dates_change_nothing(void **state)
{
    struct hvd_server_clock clock;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    (void)learn(&clock, 0, 0, 10);
    for (int64_t t = 1000; t < 200000; t += 1000)
        assert_int_equal(learn(&clock, t % 3000 ? 3600000 : 0, t, 10), 0);
    assert_int_equal(ahead(&clock, 200000), 0);
}

static void three_that_do_not_agree_with_each_other_change_nothing(void **state)
{
    struct hvd_server_clock clock;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    (void)learn(&clock, 0, 0, 10);
    for (int64_t t = 1000; t < 20000; t += 1000)
        assert_int_equal(learn(&clock, t * 60, t, 10), 0);
}

static void a_step_of_the_servers_clock_is_followed_at_the_third_answer(void **state)
{
    struct hvd_server_clock clock;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    (void)learn(&clock, 0, 0, 10);
    for (int step = 1; step >= -1; step -= 2) {
        int64_t to_ms = step * 500000;

        assert_int_equal(learn(&clock, to_ms, 1000, 10), 0);
        assert_int_equal(learn(&clock, to_ms, 1300, 10), 0);
        assert_true(learn(&clock, to_ms, 1600, 10) != 0);
        assert_true(ahead(&clock, 2000) > to_ms - 1010 && ahead(&clock, 2000) < to_ms + 1010);
    }
}

static void several_servers_whose_clocks_differ_by_seconds_are_tolerated(void **state)
{
    struct hvd_server_clock clock;
    int64_t last_ms = 0;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    for (int64_t t = 0; t < 600000; t += 333) {
        int64_t now_ms;

        (void)learn(&clock, (t / 333) % 3 * 2000, t, 10);
        now_ms = hvd_server_clock_at(&clock, t);
        assert_true(now_ms >= last_ms);
        assert_true(ahead(&clock, t) >= -1010 && ahead(&clock, t) <= 5010);
        last_ms = now_ms;
    }
}

static void a_clock_that_drifts_is_followed_without_a_contradiction(void **state)
{
    struct hvd_server_clock clock;
    int64_t t = 0;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    for (; t < 86400000; t += 61000)
        (void)learn(&clock, t / 5000, t, 10);
    assert_true(ahead(&clock, t) > t / 5000 - 600 && ahead(&clock, t) < t / 5000 + 600);
}

static void absurd_dates_are_left_alone(void **state)
{
    static const struct hvd_date_sample absurd[] = {
        {0, 1, 2}, {-5, 1, 2}, {1000000000, 1, 2}, {INT64_MAX, 1, 2}, {1700000600, 9, 2}};
    struct hvd_server_clock clock;

    (void)state;
    hvd_server_clock_init(&clock, EPOCH_MS, 0);
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++)
        assert_int_equal(hvd_server_clock_learn(&clock, &absurd[i]), 0);
    assert_false(clock.is_learned);
    assert_int_equal(ahead(&clock, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_clock_counts_until_the_server_answers_and_while_it_agrees),
        cmocka_unit_test(a_clock_that_is_wrong_is_corrected_to_a_second_and_soon_to_less),
        cmocka_unit_test(a_slow_answer_bounds_little),
        cmocka_unit_test(one_or_two_wrong_dates_change_nothing),
        cmocka_unit_test(three_that_do_not_agree_with_each_other_change_nothing),
        cmocka_unit_test(a_step_of_the_servers_clock_is_followed_at_the_third_answer),
        cmocka_unit_test(several_servers_whose_clocks_differ_by_seconds_are_tolerated),
        cmocka_unit_test(a_clock_that_drifts_is_followed_without_a_contradiction),
        cmocka_unit_test(absurd_dates_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
