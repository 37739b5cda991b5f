#include "tests/unit/support.h"

#include "worker/launch/core/deadline.h"

#define STEP_MS 200

/* Looks every STEP_MS for that long; the last step that was due, and when in *at_ms. */
static enum hvd_deadline_step pass(struct hvd_deadline *deadline, int64_t *now_ms, int64_t ms,
                                   bool is_held, int64_t *at_ms)
{
    enum hvd_deadline_step last = HVD_DEADLINE_WAIT;

    for (const int64_t end_ms = *now_ms + ms; *now_ms < end_ms; *now_ms += STEP_MS) {
        const enum hvd_deadline_step step = hvd_deadline_look(deadline, *now_ms, true, is_held);

        if (step != HVD_DEADLINE_WAIT) {
            last = step;
            *at_ms = *now_ms;
        }
    }
    return last;
}

static void mpirun_is_stopped_then_killed_each_once_behind_the_grace(void **state)
{
    static const int64_t graces_ms[] = {0, 30000};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hvd_deadline deadline = {.grace_ms = graces_ms[i]};
        const int64_t due_ms = graces_ms[i] + HVD_DEADLINE_END_MS;
        int64_t now_ms = 1000;
        int64_t at_ms = 0;

        assert_int_equal(pass(&deadline, &now_ms, due_ms, false, &at_ms), HVD_DEADLINE_WAIT);
        assert_int_equal(pass(&deadline, &now_ms, HVD_DEADLINE_STOP_MS, false, &at_ms),
                         HVD_DEADLINE_STOP);
        assert_int_equal(at_ms, 1000 + due_ms);
        assert_int_equal(pass(&deadline, &now_ms, 60000, false, &at_ms), HVD_DEADLINE_KILL);
        assert_int_equal(at_ms, 1000 + due_ms + HVD_DEADLINE_STOP_MS);
        assert_int_equal(pass(&deadline, &now_ms, 60000, false, &at_ms), HVD_DEADLINE_WAIT);
    }
}

static void a_job_that_goes_on_has_no_deadline(void **state)
{
    struct hvd_deadline deadline = {0};

    (void)state;
    for (int64_t now_ms = 1; now_ms < 3600000; now_ms += 1000)
        assert_int_equal(hvd_deadline_look(&deadline, now_ms, false, false), HVD_DEADLINE_WAIT);
    assert_int_equal(deadline.waited_ms, 0);
}

static void time_in_which_nobody_reads_or_nobody_looked_does_not_count(void **state)
{
    struct hvd_deadline deadline = {0};
    int64_t now_ms = 1000;
    int64_t at_ms = 0;

    (void)state;
    assert_int_equal(pass(&deadline, &now_ms, 5000, false, &at_ms), HVD_DEADLINE_WAIT);
    assert_int_equal(pass(&deadline, &now_ms, 600000, true, &at_ms), HVD_DEADLINE_WAIT);
    now_ms += 600000; /* the launcher was stopped */
    assert_int_equal(pass(&deadline, &now_ms, 3000, false, &at_ms), HVD_DEADLINE_WAIT);
    assert_int_equal(pass(&deadline, &now_ms, 2000, false, &at_ms), HVD_DEADLINE_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpirun_is_stopped_then_killed_each_once_behind_the_grace),
        cmocka_unit_test(a_job_that_goes_on_has_no_deadline),
        cmocka_unit_test(time_in_which_nobody_reads_or_nobody_looked_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
