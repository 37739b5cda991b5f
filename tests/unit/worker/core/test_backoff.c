#include "tests/unit/support.h"

#include "worker/core/backoff.h"

#define MS INT64_C(1000000)

static const int64_t cycles_ns[] = {1, 20000, MS, 5 * MS, 50 * MS, 10000 * MS};
#define N_CYCLES (sizeof(cycles_ns) / sizeof(cycles_ns[0]))

/* Returns how late a rank notices a message that comes after wait_ns. */
static int64_t lateness_ns(int64_t wait_ns, int64_t cycle_ns, int *n_sleeps)
{
    int64_t now_ns = 0;

    for (*n_sleeps = 0; now_ns < wait_ns; ++*n_sleeps)
        now_ns += hvd_backoff_sleep_ns(now_ns, cycle_ns);
    return now_ns - wait_ns;
}

static void a_message_is_noticed_after_a_quarter_of_the_wait_at_most(void **state)
{
    int n_sleeps = 0;

    (void)state;
    for (size_t i = 1; i < N_CYCLES; i++) {
        for (int64_t wait_ns = 1; wait_ns < 100 * MS; wait_ns += wait_ns / 3 + 1) {
            const int64_t quarter_ns = wait_ns / 4;
            const int64_t least_ns = cycles_ns[i] < 50000 ? cycles_ns[i] : 50000;
            const int64_t most_ns = quarter_ns > least_ns ? quarter_ns : least_ns;
            const int64_t late_ns = lateness_ns(wait_ns, cycles_ns[i], &n_sleeps);
            assert_true(late_ns <= most_ns);
            assert_true(late_ns <= cycles_ns[i] && late_ns <= 10 * MS);
        }
    }
}

/* Each answer comes as late as the other rank noticed the message before it. */
static void delays_shrink_while_ranks_answer_each_other(void **state)
{
    int n_sleeps = 0;

    (void)state;
    for (size_t i = 0; i < N_CYCLES; i++) {
        for (int64_t begin_ns = 1; begin_ns < 100 * MS; begin_ns += begin_ns / 3 + 1) {
            int64_t wait_ns = begin_ns;
            for (int answer = 0; answer < 10; answer++)
                wait_ns = lateness_ns(wait_ns, cycles_ns[i], &n_sleeps) + 1000;
            assert_true(wait_ns <= 2 * 50000);
        }
    }
}

static void a_long_wait_takes_few_sleeps(void **state)
{
    int n_sleeps = 0;

    (void)state;
    lateness_ns(1000 * MS, 50 * MS, &n_sleeps);
    assert_in_range(n_sleeps, 100, 130); /* 96 of them of 10 ms */
    lateness_ns(1000 * MS, MS, &n_sleeps);
    assert_in_range(n_sleeps, 1000, 1020);
}

static void nobody_sleeps_with_a_cycle_time_of_0(void **state)
{
    (void)state;
    assert_int_equal(hvd_backoff_longest_ns(0), 0);
    for (int64_t idle_ns = 0; idle_ns < 1000 * MS; idle_ns += idle_ns + 1)
        assert_int_equal(hvd_backoff_sleep_ns(idle_ns, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_noticed_after_a_quarter_of_the_wait_at_most),
        cmocka_unit_test(delays_shrink_while_ranks_answer_each_other),
        cmocka_unit_test(a_long_wait_takes_few_sleeps),
        cmocka_unit_test(nobody_sleeps_with_a_cycle_time_of_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
