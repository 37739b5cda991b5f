#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* What the status holds of attempts and their ends: number, cause, last lines, earlier ones. */

static void has_message(const struct world *w, const char *type, const char *text)
{
    assert_string_equal(world_condition_text(w, type, "message"), text);
}

static void the_last_lines_of_a_failed_master_are_in_the_status(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    world_end_master(&w, 1, "one\ntwo\nthree\n\n");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "failureLog"), "one\ntwo\nthree");
    world_end_master(&w, 1, NULL);
    world_settle(&w);
    assert_string_equal(world_status(&w, "failureLog"), "");
    world_fini(&w);
}

#define KEY_ERROR "rank 1 on host digits-worker-1.digits raised KeyError: 'rate'"

static void a_failed_rank_leads_the_message_and_its_lines_are_the_log(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_master(
        &w, 1, "Traceback (most recent call last):\nKeyError: 'rate'\nhorovodrun: " KEY_ERROR "\n");
    world_settle(&w);
    has_message(&w, "Failed", KEY_ERROR " (attempt 1 of 1, pod digits-master-abcde)");
    assert_string_equal(world_status(&w, "message"), world_condition_text(&w, "Failed", "message"));
    assert_string_equal(
        world_status(&w, "failureLog"),
        "Traceback (most recent call last):\nKeyError: 'rate'\nhorovodrun: " KEY_ERROR);
    world_fini(&w);
}

static void a_failed_rank_is_named_behind_the_worker_that_was_lost(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_worker(&w, "digits-worker-0", 3, "Error");
    world_end_master(&w, 1, "horovodrun: " KEY_ERROR "\n");
    world_settle(&w);
    has_message(&w, "Failed",
                "worker digits-worker-0 on node node-1: container worker exited with code 3 "
                "(attempt 1 of 1); pod digits-master-abcde container master exited with code 1: "
                "horovodrun: " KEY_ERROR);
    world_fini(&w);
}

/* A pod's status and deletion as they are when something happens to it. */
static void happen(struct world *w, const char *pod, const char *status, bool is_deleting)
{
    cJSON *object = world_find(w, "Pod", pod);

    cJSON_ReplaceItemInObject(object, "status", cJSON_Parse(status));
    if (is_deleting)
        cJSON_AddStringToObject(cJSON_GetObjectItem(object, "metadata"), "deletionTimestamp",
                                "2033-01-01T00:00:00Z");
}

static void what_happened_to_a_lost_worker_is_told(void **state)
{
    static const struct {
        const char *status;
        bool is_deleting;
        const char *text;
        bool is_disruption;
    } rows[] = {
        {"{\"phase\":\"Succeeded\"}", false,
         "its program ended with exit code 0 while the job runs: a worker must keep running until "
         "the master ends",
         false},
        {"{\"phase\":\"Failed\"}", false,
         "its pod failed, and its status names no cause: its node may be lost, or another program "
         "has set its status",
         false},
        {"{\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"The node was low on memory\"}",
         false, "its pod failed: Evicted: The node was low on memory", true},
        {"{\"phase\":\"Running\",\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":"
         "\"True\",\"reason\":\"PreemptionByScheduler\",\"message\":\"for x\"}]}",
         false, "its pod has to go: PreemptionByScheduler: for x", true},
        {"{\"phase\":\"Running\"}", true, "its pod is being deleted", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        char expected[256];

        world_start(&w, "");
        happen(&w, "digits-worker-1", rows[i].status, rows[i].is_deleting);
        world_pass(&w);
        (void)snprintf(expected, sizeof(expected), "worker digits-worker-1 on node node-1: %s",
                       rows[i].text);
        assert_string_equal(world_status(&w, "workerFailure.message"), expected);
        assert_int_equal(hvd_json_true(world_find(&w, "HorovodJob", "digits"),
                                       "status.workerFailure.disruption"),
                         rows[i].is_disruption);
        world_fini(&w);
    }
}

static void a_worker_lost_while_the_operator_was_away_is_found(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_remove(&w, "Pod", "digits-worker-0");
    world_pass(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "worker digits-worker-0: its pod is gone");
    world_fini(&w);

    world_start(&w, "");
    w.now_ms += 5000;
    world_remove(&w, "Pod", "digits-worker-0");
    while (world_controllers(&w))
        ;
    world_pass(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "worker digits-worker-0 on node node-1: its pod was replaced by a new one");
    world_fini(&w);

    world_start(&w, "");
    world_remove(&w, "Pod", "digits-worker-0");
    world_remove(&w, "Pod", "digits-worker-1");
    world_pass(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "several workers of digits-worker: their pods are gone");
    world_fini(&w);
}

/* What befalls worker 1, or all, while no operator runs. */
static void befall(struct world *w, int i)
{
    if (i == 0)
        world_remove(w, "Pod", "digits-worker-1");
    else if (i == 1)
        world_remove(w, "StatefulSet", "digits-worker");
    else if (i == 2)
        world_end_worker(w, "digits-worker-1", 137, "OOMKilled");
    else if (i == 3)
        happen(w, "digits-worker-1",
               "{\"phase\":\"Running\",\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":"
               "\"True\",\"lastTransitionTime\":\"2032-01-01T00:00:00Z\"}]}",
               false);
    else
        happen(w, "digits-worker-1", "{\"phase\":\"Running\"}", true);
    if (i != 4) /* it has gone before the operator looks, else */
        while (world_controllers(w))
            ;
}

#define IGNORE ",\"failurePolicy\":{\"rules\":[{\"action\":\"Ignore\",\"onDisruption\":true}]}"

/* Whatever the rules make of disruptions: the job has failed for good. */
static void what_happens_to_workers_after_the_end_of_the_master_is_no_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct world w;

        world_start(&w, i % 2 ? IGNORE : "");
        w.now_ms += 60000;
        world_end_master(&w, 3, "no");
        w.now_ms += 6000;
        befall(&w, i / 2);
        w.now_ms += 20000;
        world_restart(&w);
        world_settle(&w);
        world_is_state(&w, "Failed");
        assert_string_equal(world_condition_text(&w, "Failed", "reason"), "MasterFailed");
        assert_string_equal(world_status(&w, "workerFailure.message"), "");
        assert_int_equal(world_events(&w, "Failed"), 1);
        world_fini(&w);
    }
}

/* The master ends for it, and the operator sees both later. */
static void what_happened_to_workers_before_the_end_of_the_master_is_a_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;

        world_start(&w, ",\"backoffLimit\":1");
        w.now_ms += 60000;
        if (i < 2) {
            befall(&w, i ? 2 : 0);
            w.now_ms += 1000;
        }
        world_end_master(&w, 3, "no");
        if (i >= 2) { /* its end is told of a little later */
            w.now_ms += 3000;
            befall(&w, i == 2 ? 0 : 2);
        }
        w.now_ms += 20000;
        world_restart(&w);
        world_pass(&w);
        assert_string_equal(world_condition_text(&w, "Running", "reason"), "WorkerFailed");
        world_fini(&w);
    }
}

/* The workers of a job that has failed go though its status may not be written. */
static void an_operator_that_starts_anew_takes_its_own_removals_for_no_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;

        world_start(&w, i % 2 ? IGNORE : "");
        w.now_ms += 60000;
        w.is_status_denied = true;
        world_end_master(&w, 3, "no");
        for (int n = 0; n < 20; n++) {
            world_pass(&w);
            world_controllers(&w);
            w.now_ms += 100;
        }
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        w.now_ms += i / 2 ? 1000 : 20000;
        world_restart(&w);
        world_pass(&w);
        w.is_status_denied = false;
        w.now_ms += 60000;
        world_settle(&w);
        world_is_state(&w, "Failed");
        assert_string_equal(world_condition_text(&w, "Failed", "reason"), "MasterFailed");
        world_fini(&w);
    }
}

/* Lets the time pass until the next attempt runs. */
static void wait_for_attempt(struct world *w)
{
    world_settle(w);
    w->now_ms += 400000;
    world_settle(w);
    world_is_state(w, "Running");
}

/* How many attempts are in status.attemptLogs. */
static int attempt_logs(const struct world *w)
{
    return cJSON_GetArraySize(
        hvd_json_at(world_find(w, "HorovodJob", "digits"), "status.attemptLogs"));
}

static void the_ends_of_the_last_five_attempts_stay_in_the_status(void **state)
{
    struct world w;
    char text[32], path[64];

    (void)state;
    world_start(&w, ",\"backoffLimit\":8");
    for (int i = 1; i <= 7; i++) {
        (void)snprintf(text, sizeof(text), "words of %d", i);
        world_end_master(&w, i, text);
        wait_for_attempt(&w);
    }
    assert_int_equal(attempt_logs(&w), 5);
    for (int i = 3; i <= 7; i++) {
        (void)snprintf(text, sizeof(text), "words of %d", i);
        (void)snprintf(path, sizeof(path), "attemptLogs.%d.log", i);
        assert_string_equal(world_status(&w, path), text);
        (void)snprintf(path, sizeof(path), "attemptLogs.%d.reason", i);
        assert_string_equal(world_status(&w, path), "MasterFailed");
    }
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "attemptLogs.8.reason"), "Suspended");
    assert_string_equal(world_status(&w, "attemptLogs.8.log"), "");
    assert_int_equal(attempt_logs(&w), 5);
    world_fini(&w);
}

static void an_attempt_whose_master_is_deleted_is_in_the_status(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_remove(&w, "Job", "digits-master");
    wait_for_attempt(&w);
    assert_string_equal(world_status(&w, "attemptLogs.1.reason"), "MasterDeleted");
    assert_int_equal(attempt_logs(&w), 1);
    world_fini(&w);
}

static void an_attempt_that_the_deadline_ends_is_in_the_status(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"activeDeadlineSeconds\":1000");
    w.now_ms += 2000000;
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_status(&w, "attemptLogs.1.reason"), "DeadlineExceeded");
    assert_string_equal(world_status(&w, "attemptLogs.1.message"), world_status(&w, "message"));
    assert_int_equal(attempt_logs(&w), 1);
    world_fini(&w);
}

static void a_deadline_before_the_first_attempt_ends_none(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},"
                   "\"activeDeadlineSeconds\":1000}");
    w.is_kubelet_off = true;
    world_settle(&w);
    w.now_ms += 2000000;
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_int_equal(attempt_logs(&w), 0);
    world_fini(&w);
}

/* The attempts of spec.backoffLimit are numbered; what interrupts one is no part of them. */
static void an_interrupted_attempt_is_none_of_those_that_are_numbered(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    has_message(&w, "Running", "pod digits-master-abcde is running (attempt 1 of 1)");
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    has_message(&w, "Running",
                "pod digits-master-abcde is running (attempt 1 of 1 after 1 interruption)");
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.attempts", 0), 2);
    world_remove(&w, "Job", "digits-master");
    world_settle(&w);
    w.now_ms += 3000;
    world_settle(&w);
    has_message(&w, "Running",
                "pod digits-master-abcde is running (attempt 1 of 1 after 2 interruptions)");
    world_end_master(&w, 1, "boom");
    world_settle(&w);
    has_message(&w, "Failed",
                "pod digits-master-abcde container master exited with code 1 (attempt 1 of 1 after "
                "2 interruptions): boom");
    world_fini(&w);
}

static void a_limit_that_is_lowered_leaves_no_attempt_above_it(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    world_end_master(&w, 1, "boom");
    world_settle(&w);
    has_message(&w, "Running", "pod digits-master-abcde is running (attempt 2 of 4)");
    world_edit(&w, "{\"backoffLimit\":0}");
    world_settle(&w);
    has_message(&w, "Running", "pod digits-master-abcde is running (attempt 2 of 2)");
    world_end_master(&w, 0, "");
    world_settle(&w);
    has_message(&w, "Succeeded", "pod digits-master-abcde succeeded (attempt 2 of 2)");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_happened_to_a_lost_worker_is_told),
        cmocka_unit_test(a_worker_lost_while_the_operator_was_away_is_found),
        cmocka_unit_test(what_happens_to_workers_after_the_end_of_the_master_is_no_loss),
        cmocka_unit_test(what_happened_to_workers_before_the_end_of_the_master_is_a_loss),
        cmocka_unit_test(an_operator_that_starts_anew_takes_its_own_removals_for_no_loss),
        cmocka_unit_test(the_last_lines_of_a_failed_master_are_in_the_status),
        cmocka_unit_test(a_failed_rank_leads_the_message_and_its_lines_are_the_log),
        cmocka_unit_test(a_failed_rank_is_named_behind_the_worker_that_was_lost),
        cmocka_unit_test(the_ends_of_the_last_five_attempts_stay_in_the_status),
        cmocka_unit_test(an_attempt_whose_master_is_deleted_is_in_the_status),
        cmocka_unit_test(an_attempt_that_the_deadline_ends_is_in_the_status),
        cmocka_unit_test(a_deadline_before_the_first_attempt_ends_none),
        cmocka_unit_test(an_interrupted_attempt_is_none_of_those_that_are_numbered),
        cmocka_unit_test(a_limit_that_is_lowered_leaves_no_attempt_above_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
