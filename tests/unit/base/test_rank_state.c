#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include "base/rank_state.h"

static void what_a_rank_says_is_read_from_the_page(void **state)
{
    (void)state;
    assert_int_equal(hvd_rank_state_get(), HVD_RANK_OUTSIDE);
    assert_int_equal(hvd_rank_state_blamed(), -1);
    hvd_rank_state_blame(3); /* there is no page yet */
    assert_int_equal(hvd_rank_state_create(), HVD_OK);
    assert_non_null(getenv(HVD_RANK_STATE_ENV));
    assert_int_equal(hvd_rank_state_blamed(), -1);
    hvd_rank_state_set(HVD_RANK_RUNNING);
    assert_int_equal(hvd_rank_state_get(), HVD_RANK_RUNNING);
}

static void the_first_rank_that_is_blamed_stays_until_the_next_job(void **state)
{
    (void)state;
    hvd_rank_state_blame(-1);
    assert_int_equal(hvd_rank_state_blamed(), -1);
    hvd_rank_state_blame(0);
    hvd_rank_state_blame(2);
    hvd_rank_state_set(HVD_RANK_ENDED);
    assert_int_equal(hvd_rank_state_blamed(), 0);
    hvd_rank_state_set(HVD_RANK_JOINING);
    assert_int_equal(hvd_rank_state_blamed(), -1);
}

static void what_a_rank_waits_for_and_that_it_joins_no_job_more_is_read(void **state)
{
    (void)state;
    assert_false(hvd_rank_state_joins_all());
    hvd_rank_state_join_all(true);
    hvd_rank_state_set(HVD_RANK_JOINING);
    assert_true(hvd_rank_state_joins_all());
    hvd_rank_state_join_all(false);
    assert_false(hvd_rank_state_joins_all());
    assert_false(hvd_rank_state_is_final());
    assert_true(hvd_rank_state_keeps_mpi()); /* it was in a job before */
    hvd_rank_state_finalise();
    hvd_rank_state_set(HVD_RANK_JOINING); /* which fails */
    assert_true(hvd_rank_state_is_final());
    assert_false(hvd_rank_state_keeps_mpi());
}

static void it_is_known_how_often_it_has_come_and_how_long_it_waits(void **state)
{
    const uint32_t before = hvd_rank_state_joins();
    char long_words[2000] = "";

    (void)state;
    hvd_rank_state_set(HVD_RANK_JOINING);
    hvd_rank_state_set(HVD_RANK_GATHERING);
    hvd_rank_state_set(HVD_RANK_MEETING);
    assert_int_equal(hvd_rank_state_joins(), before + 1);
    assert_true(hvd_rank_state_is_init(hvd_rank_state_get()));
    hvd_rank_state_set(HVD_RANK_RUNNING);
    assert_false(hvd_rank_state_is_init(hvd_rank_state_get()));
    assert_false(hvd_rank_state_is_init(HVD_RANK_OUTSIDE));
    assert_int_equal(hvd_rank_state_pid(), getpid());
    assert_int_equal(hvd_rank_state_raised(), 0);
    assert_string_equal(hvd_rank_state_words(), "");
    hvd_rank_state_raise("KeyError: 'x'");
    assert_int_equal(hvd_rank_state_raised(), getpid());
    assert_string_equal(hvd_rank_state_words(), "KeyError: 'x'");
    memset(long_words, 'x', sizeof(long_words) - 1);
    hvd_rank_state_raise(long_words);
    assert_int_equal(strlen(hvd_rank_state_words()), 1023);
    assert_int_equal(hvd_rank_state_warning_ms(), 0);
    hvd_rank_state_set_stall_times(60000, 90000);
    assert_int_equal(hvd_rank_state_warning_ms(), 60000);
    assert_int_equal(hvd_rank_state_shutdown_ms(), 90000);
    hvd_rank_state_set_stall_times(-1, INT64_MIN);
    assert_int_equal(hvd_rank_state_warning_ms(), 0);
    assert_int_equal(hvd_rank_state_shutdown_ms(), 0);
}

static void what_a_rank_has_heard_first_is_kept_until_the_next_job(void **state)
{
    char long_words[2000] = "";

    (void)state;
    hvd_rank_state_raise("");
    hvd_rank_state_set_cause("behind an exception");
    assert_string_equal(hvd_rank_state_cause(), "");
    if (fork() == 0) { /* another process, which nothing has ended */
        hvd_rank_state_set_cause("Rank 1 is lost");
        hvd_rank_state_set_cause("Rank 2 is lost");
        _exit(0);
    }
    assert_true(wait(NULL) > 0);
    assert_string_equal(hvd_rank_state_cause(), "Rank 1 is lost");
    hvd_rank_state_set(HVD_RANK_JOINING);
    assert_string_equal(hvd_rank_state_cause(), "");
    memset(long_words, 'x', sizeof(long_words) - 1);
    if (fork() == 0) {
        hvd_rank_state_set_cause(long_words);
        _exit(0);
    }
    assert_true(wait(NULL) > 0);
    assert_int_equal(strlen(hvd_rank_state_cause()), 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_says_is_read_from_the_page),
        cmocka_unit_test(the_first_rank_that_is_blamed_stays_until_the_next_job),
        cmocka_unit_test(what_a_rank_waits_for_and_that_it_joins_no_job_more_is_read),
        cmocka_unit_test(it_is_known_how_often_it_has_come_and_how_long_it_waits),
        cmocka_unit_test(what_a_rank_has_heard_first_is_kept_until_the_next_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
