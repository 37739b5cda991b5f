#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "tests/unit/operator/core/world.h"

/* How long a job waits between attempts that fail, and what ends that. */

static int64_t number(const struct world *w, const char *path)
{
    return hvd_json_int(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"), path, -1);
}

static int64_t seconds(const struct world *w, const char *path)
{
    return hvd_rfc3339_parse(world_status(w, path));
}

/* The master fails; how long, in seconds, until the workers of the next attempt are made. Fails the
 * test if anything of the job is up before. */
static int64_t fail_and_wait(struct world *w)
{
    int64_t failed_s = w->now_ms / 1000;
    int64_t until_s;

    world_end_master(w, 1, "a mistake");
    world_pass(w);
    world_is_state(w, "Restarting");
    until_s = seconds(w, "nextAttemptTime");
    world_settle(w);
    if (until_s == 0)
        return 0;
    world_is_state(w, "Restarting");
    if (w->now_ms < until_s * 1000) {
        w->now_ms = until_s * 1000 - 1;
        world_pass(w); /* perhaps the count of hosts, which can wait */
        assert_int_equal(world_pass(w), 0);
        assert_int_equal(w->wake_at_ms, until_s * 1000);
        assert_null(world_find(w, "Pod", "digits-worker-0"));
        assert_null(world_find(w, "Pod", "digits-master-abcde"));
        w->now_ms = until_s * 1000;
        world_settle(w);
    }
    return until_s - failed_s;
}

static void the_first_restart_is_at_once_and_each_further_one_waits_twice_as_long(void **state)
{
    static const int expected[] = {0, 10, 20, 40, 80, 160, 320, 360, 360, 360};
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":10");
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(fail_and_wait(&w), expected[i]);
        world_is_state(&w, "Running");
        assert_int_equal(number(&w, "failuresInARow"), i + 1);
        assert_string_equal(world_status(&w, "nextAttemptTime"), "");
    }
    world_end_master(&w, 1, "a mistake");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_status(&w, "nextAttemptTime"), "");
    assert_int_equal(w.wake_at_ms, 0);
    world_fini(&w);
}

static void the_wait_is_told(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    (void)fail_and_wait(&w);
    world_end_master(&w, 3, "a mistake");
    world_pass(&w);
    assert_string_equal(world_condition_text(&w, "Running", "message"),
                        "pod digits-master-abcde container master exited with code 3 (attempt 2 of "
                        "4, the next one after 10 s): a mistake");
    assert_string_equal(world_status(&w, "message"),
                        world_condition_text(&w, "Running", "message"));
    world_fini(&w);
}

static void a_master_that_ran_for_ten_minutes_begins_the_row_anew(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":9");
    assert_int_equal(fail_and_wait(&w), 0);
    assert_int_equal(fail_and_wait(&w), 10);
    w.now_ms += 590000;
    assert_int_equal(fail_and_wait(&w), 20);
    w.now_ms += 600000;
    assert_int_equal(fail_and_wait(&w), 0);
    assert_int_equal(number(&w, "failuresInARow"), 1);
    assert_int_equal(fail_and_wait(&w), 10);
    world_fini(&w);
}

/* Fails the job until it waits for minutes, and leaves it so. */
static void fail_into_a_long_wait(struct world *w)
{
    for (int i = 0; i < 5; i++)
        (void)fail_and_wait(w);
    world_end_master(w, 1, NULL);
    world_settle(w);
    world_is_state(w, "Restarting");
}

static void suspending_ends_the_wait_and_the_row(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":9");
    fail_into_a_long_wait(&w);
    assert_true(seconds(&w, "nextAttemptTime") * 1000 > w.now_ms + 100000);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_is_state(&w, "Suspended");
    assert_int_equal(w.wake_at_ms, 0);
    assert_string_equal(world_status(&w, "nextAttemptTime"), "");
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(fail_and_wait(&w), 0);
    world_fini(&w);
}

static void a_failure_that_does_not_count_waits_like_one_that_does(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"failurePolicy\":{\"rules\":[{\"action\":\"Ignore\",\"role\":\"Master\"}]}");
    assert_int_equal(fail_and_wait(&w), 0);
    assert_int_equal(fail_and_wait(&w), 10);
    assert_int_equal(fail_and_wait(&w), 20);
    assert_int_equal(number(&w, "failures"), 0);
    world_fini(&w);
}

static void deleting_the_masters_job_starts_again_without_a_wait(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":9");
    for (int i = 0; i < 3; i++)
        (void)fail_and_wait(&w);
    world_remove(&w, "Job", "digits-master");
    while (world_controllers(&w))
        ;
    while (world_pass(&w) > 0)
        ;
    w.now_ms = w.wake_at_ms;
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "attempts"), 5);
    assert_int_equal(number(&w, "failuresInARow"), 3);
    world_fini(&w);
}

static void the_deadline_runs_on_while_the_job_waits(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":9,\"activeDeadlineSeconds\":300");
    fail_into_a_long_wait(&w);
    assert_true(seconds(&w, "startTime") + 300 < seconds(&w, "nextAttemptTime"));
    w.now_ms = (seconds(&w, "startTime") + 300) * 1000 - 1;
    world_pass(&w);
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.wake_at_ms, w.now_ms + 1);
    w.now_ms = w.wake_at_ms;
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
    world_fini(&w);
}

static void another_operator_waits_on(void **state)
{
    struct world w;
    int64_t until_ms;

    (void)state;
    world_start(&w, ",\"backoffLimit\":9");
    for (int i = 0; i < 4; i++)
        (void)fail_and_wait(&w);
    world_end_master(&w, 1, NULL);
    world_settle(&w);
    until_ms = seconds(&w, "nextAttemptTime") * 1000;
    w.status_written_ms = 0;
    w.n_failures = 0;
    world_pass(&w);
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.wake_at_ms, until_ms);
    world_is_state(&w, "Restarting");
    /* Its clock may be behind by a day: then nobody knows how long, and the attempt begins. */
    w.now_ms -= 86400000;
    world_pass(&w);
    assert_int_equal(
        hvd_json_int(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas", 0), 2);
    world_fini(&w);
}

static void what_somebody_scales_up_meanwhile_goes_down_again(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":9");
    for (int i = 0; i < 4; i++)
        (void)fail_and_wait(&w);
    world_end_master(&w, 1, NULL);
    world_settle(&w);
    world_is_state(&w, "Restarting");
    cJSON_ReplaceItemInObject(
        cJSON_GetObjectItem(world_find(&w, "StatefulSet", "digits-worker"), "spec"), "replicas",
        cJSON_CreateNumber(2));
    (void)world_controllers(&w);
    world_settle(&w);
    assert_null(world_find(&w, "Pod", "digits-worker-0"));
    assert_null(world_find(&w, "Job", "digits-master"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_restart_is_at_once_and_each_further_one_waits_twice_as_long),
        cmocka_unit_test(the_wait_is_told),
        cmocka_unit_test(a_master_that_ran_for_ten_minutes_begins_the_row_anew),
        cmocka_unit_test(suspending_ends_the_wait_and_the_row),
        cmocka_unit_test(a_failure_that_does_not_count_waits_like_one_that_does),
        cmocka_unit_test(deleting_the_masters_job_starts_again_without_a_wait),
        cmocka_unit_test(the_deadline_runs_on_while_the_job_waits),
        cmocka_unit_test(another_operator_waits_on),
        cmocka_unit_test(what_somebody_scales_up_meanwhile_goes_down_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
