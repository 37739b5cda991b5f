#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* Workers that are lost, attempts that end, pods that do not go: what follows, and what is told. */

static int64_t number(const struct world *w, const char *path)
{
    return hvd_json_int(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"), path, -1);
}

static void has_message(const struct world *w, const char *type, const char *text)
{
    assert_string_equal(world_condition_text(w, type, "message"), text);
}

/* Goes on at the time the operator wants to be woken at. */
static void wait(struct world *w)
{
    assert_true(w->wake_at_ms > w->now_ms);
    w->now_ms = w->wake_at_ms;
    world_settle(w);
}

static char *uid_of(const struct world *w, const char *kind, const char *name)
{
    return strdup(hvd_json_str(world_find(w, kind, name), "metadata.uid"));
}

static void a_worker_killed_for_memory_ends_the_attempt_within_half_a_minute(void **state)
{
    struct world w;
    int64_t seen_ms;

    (void)state;
    world_start(&w, "");
    world_end_worker(&w, "digits-worker-1", 137, "OOMKilled");
    seen_ms = w.now_ms;
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "worker digits-worker-1 on node node-1: container worker was killed for "
                        "memory (OOMKilled, exit code 137)");
    assert_int_equal(number(&w, "workerFailure.exitCode"), 137);
    assert_non_null(strstr(world_status(&w, "message"), "OOMKilled"));
    wait(&w);
    world_is_state(&w, "Failed");
    assert_true(w.now_ms - seen_ms < 60000);
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "WorkerFailed");
    has_message(&w, "Failed",
                "worker digits-worker-1 on node node-1: container worker was killed for memory "
                "(OOMKilled, exit code 137) (attempt 1 of 1); the master did not end by itself "
                "within 30 s");
    assert_null(world_find(&w, "Job", "digits-master"));
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_int_equal(world_pass(&w), 0);
    world_fini(&w);
}

static void a_master_that_ends_for_a_lost_worker_tells_of_both(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_worker(&w, "digits-worker-0", 3, "Error");
    world_pass(&w);
    world_end_master(&w, 1, "rank 0 lost its connection");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "WorkerFailed");
    has_message(&w, "Failed",
                "worker digits-worker-0 on node node-1: container worker exited with code 3 "
                "(attempt 1 of 1); pod digits-master-abcde container master exited with code 1: "
                "rank 0 lost its connection");
    world_fini(&w);

    /* Also if both are seen at once. */
    world_start(&w, "");
    world_end_worker(&w, "digits-worker-0", 3, "Error");
    world_end_master(&w, 1, "rank 0 lost its connection");
    world_settle(&w);
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "WorkerFailed");
    world_fini(&w);
}

static void a_master_that_succeeds_all_the_same_has_succeeded(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_worker(&w, "digits-worker-0", 3, "Error");
    world_pass(&w);
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    world_is_state(&w, "Succeeded");
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

static void what_happened_before_the_master_started_is_no_loss(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    while (!world_find(&w, "Job", "digits-master")) {
        world_pass(&w);
        (void)world_controllers(&w);
    }
    world_end_worker(&w, "digits-worker-1", 1, "Error");
    w.now_ms += 2000;
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    assert_int_equal(w.wake_at_ms, 0);
    world_fini(&w);
}

static void scaling_is_no_loss(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.now_ms += 60000;
    world_edit(&w, "{\"worker\":{\"replicas\":4,\"minReplicas\":1}}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_end_worker(&w, "digits-worker-3", 1, "Error");
    world_settle(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_edit(&w, "{\"worker\":{\"replicas\":1,\"minReplicas\":1}}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void workers_that_come_back_after_scaling_were_not_lost(void **state)
{
    const cJSON *annotations;
    struct world w;

    (void)state;
    world_start(&w, "");
    world_edit(&w, "{\"worker\":{\"replicas\":1,\"minReplicas\":1}}");
    w.now_ms += 60000;
    world_pass(&w);
    annotations = hvd_json_at(world_find(&w, "Job", "digits-master"), "metadata.annotations");
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItem(annotations, HVD_ANNOTATION_WORKERS)), "1");
    assert_int_equal(
        hvd_json_int(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas", 0), 2);
    world_settle(&w);
    world_edit(&w, "{\"worker\":{\"replicas\":3,\"minReplicas\":1}}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "ready"), "3/3");
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    assert_int_equal(number(&w, "failures"), 0);
    world_fini(&w);
}

static void an_elastic_job_goes_on_without_a_worker(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":3,"
                   "\"minReplicas\":1,\"maxReplicas\":4}}");
    world_settle(&w);
    world_is_state(&w, "Running");
    world_end_worker(&w, "digits-worker-1", 137, "OOMKilled");
    world_settle(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    assert_int_equal(w.wake_at_ms, 0);
    world_fini(&w);
}

static void an_elastic_job_at_its_minimum_goes_on_without_a_worker(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":3,"
                   "\"minReplicas\":1,\"maxReplicas\":4}}");
    world_settle(&w);
    world_end_worker(&w, "digits-worker-0", 137, "OOMKilled");
    world_settle(&w);
    world_edit(&w, "{\"worker\":{\"replicas\":1,\"minReplicas\":1}}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_fini(&w);
}

static void a_lost_worker_restarts_the_whole_group_up_to_the_limit(void **state)
{
    struct world w;
    char *uid;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    uid = uid_of(&w, "Pod", "digits-worker-0");
    world_end_worker(&w, "digits-worker-1", 9, "Error");
    world_settle(&w);
    wait(&w);
    world_is_state(&w, "Running");
    assert_string_not_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
    assert_int_equal(number(&w, "attempts"), 2);
    assert_int_equal(number(&w, "failures"), 1);
    assert_int_equal(world_events(&w, "Restarting"), 1);
    world_end_worker(&w, "digits-worker-1", 9, "Error");
    world_settle(&w);
    wait(&w);
    world_is_state(&w, "Failed");
    assert_non_null(strstr(world_condition_text(&w, "Failed", "message"), "(attempt 2 of 2)"));
    free(uid);
    world_fini(&w);
}

static void the_last_lost_worker_stays_readable_and_ends_no_later_attempt(void **state)
{
    static const char lost[] =
        "worker digits-worker-1 on node node-1: container worker exited with code 9";
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    world_end_worker(&w, "digits-worker-1", 9, "Error");
    world_pass(&w);
    world_end_master(&w, 1, "lost a rank");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "attempts"), 2);
    assert_int_equal(w.wake_at_ms, 0);
    assert_string_equal(world_status(&w, "workerFailure.message"), lost);
    assert_int_equal(number(&w, "workerFailure.attempt"), 1);
    assert_null(strstr(world_condition_text(&w, "Running", "message"), "worker"));
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "workerFailure.message"), lost);
    world_end_master(&w, 3, "a mistake");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "MasterFailed");
    assert_string_equal(world_status(&w, "workerFailure.message"), lost);
    world_fini(&w);
}

static void a_worker_that_ends_again_and_again_before_the_start_fails_the_job(void **state)
{
    struct world w;
    cJSON *pod;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    pod = world_find(&w, "Pod", "digits-worker-1");
    cJSON_ReplaceItemInObject(
        pod, "status",
        cJSON_Parse(
            "{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"worker\","
            "\"restartCount\":9,\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},"
            "\"lastState\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\"}}}]}"));
    world_settle(&w);
    world_is_state(&w, "Pending");
    has_message(&w, "WorkersReady",
                "0 of 2 workers are ready; pod digits-worker-1 container keeps ending with exit "
                "code 137, OOMKilled");
    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(hvd_json_at(pod, "status.containerStatuses"), 0),
                              "restartCount", cJSON_CreateNumber(10));
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "WorkerFailed");
    has_message(&w, "Failed",
                "worker digits-worker-1: container worker was killed for memory (OOMKilled, exit "
                "code 137), after 10 restarts (attempt 1 of 1)");
    world_fini(&w);
}

#define IGNORE_DISRUPTIONS                                                                         \
    ",\"failurePolicy\":{\"rules\":[{\"action\":\"Ignore\",\"onDisruption\":true},"                \
    "{\"action\":\"Fail\",\"role\":\"Master\",\"onExitCodes\":{\"operator\":\"In\",\"values\":["   \
    "42]}}]}"

static void an_ignored_failure_does_not_count(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, IGNORE_DISRUPTIONS);
    for (int i = 1; i <= 3; i++) {
        happen(&w, "digits-worker-1", "{\"phase\":\"Failed\",\"reason\":\"Evicted\"}", false);
        world_pass(&w);
        world_end_master(&w, 1, "lost a rank");
        world_settle(&w);
        w.now_ms += 20000; /* test_retry.c is about the wait */
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(number(&w, "failures"), 0);
        assert_int_equal(number(&w, "interruptions"), i);
        assert_int_equal(number(&w, "attempts"), i + 1);
    }
    assert_int_equal(world_events(&w, "Restarting"), 3);
    world_end_master(&w, 1, "a mistake");
    world_settle(&w);
    world_is_state(&w, "Failed");
    has_message(
        &w, "Failed",
        "pod digits-master-abcde container master exited with code 1 (attempt 1 of 1 after 3 "
        "interruptions): a mistake");
    world_fini(&w);
}

static void ignored_failures_are_bounded(void **state)
{
    struct world w;
    cJSON *status;

    (void)state;
    world_start(&w, IGNORE_DISRUPTIONS);
    status = cJSON_GetObjectItem(world_find(&w, "HorovodJob", "digits"), "status");
    cJSON_ReplaceItemInObject(status, "interruptions", cJSON_CreateNumber(100));
    cJSON_ReplaceItemInObject(status, "cleaned", cJSON_CreateNumber(100));
    cJSON_ReplaceItemInObject(
        cJSON_GetObjectItem(cJSON_GetObjectItem(world_find(&w, "Job", "digits-master"), "metadata"),
                            "annotations"),
        "horovod.io/attempt", cJSON_CreateString("101"));
    happen(&w, "digits-worker-1", "{\"phase\":\"Failed\",\"reason\":\"Evicted\"}", false);
    world_pass(&w);
    world_end_master(&w, 1, "lost a rank");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_int_equal(number(&w, "interruptions"), 100);
    assert_int_equal(number(&w, "failures"), 1);
    world_fini(&w);
}

static void a_rule_may_end_the_job_at_once(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":5" IGNORE_DISRUPTIONS);
    world_end_master(&w, 42, "bad data");
    world_settle(&w);
    world_is_state(&w, "Failed");
    has_message(&w, "Failed",
                "pod digits-master-abcde container master exited with code 42 (attempt 1 of 6, "
                "failurePolicy rule 2: Fail): bad data");
    assert_int_equal(number(&w, "attempts"), 1);
    world_fini(&w);
}

static void a_pod_on_a_lost_node_is_removed_after_a_bound_and_once(void **state)
{
    struct world w;
    int writes;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    w.lost_pod = "digits-worker-1";
    world_end_master(&w, 1, "lost a rank");
    world_settle(&w);
    world_is_state(&w, "Restarting");
    assert_non_null(world_find(&w, "Pod", "digits-worker-1"));
    writes = w.n_writes;
    w.lost_pod = NULL;
    wait(&w);
    world_is_state(&w, "Running");
    assert_true(w.n_writes > writes);
    assert_int_equal(number(&w, "attempts"), 2);
    world_fini(&w);
}

static void a_master_on_a_lost_node_ends_the_attempt(void **state)
{
    struct world w;
    cJSON *meta;

    (void)state;
    world_start(&w, ",\"failurePolicy\":{\"rules\":[{\"action\":\"Ignore\",\"role\":\"Master\","
                    "\"onDisruption\":true}]}");
    w.lost_pod = "digits-master-abcde";
    meta = cJSON_GetObjectItem(world_find(&w, "Pod", "digits-master-abcde"), "metadata");
    cJSON_AddStringToObject(meta, "deletionTimestamp", "2023-11-14T22:15:00Z");
    cJSON_AddNumberToObject(meta, "deletionGracePeriodSeconds", 30);
    world_settle(&w);
    world_is_state(&w, "Running");
    w.now_ms = w.wake_at_ms;
    world_pass(&w);
    world_is_state(&w, "Restarting");
    has_message(&w, "Running",
                "pod digits-master-abcde on node node-1 was deleted and does not end (attempt 1 of "
                "1, failurePolicy rule 1: Ignore)");
    world_settle(&w);
    world_is_state(&w, "Restarting");
    w.lost_pod = NULL;
    wait(&w);
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "failures"), 0);
    assert_int_equal(number(&w, "attempts"), 2);
    world_fini(&w);
}

/* The stamp of a deletion that is long past by the clock that the operator goes by. */
static void delete_long_ago(struct world *w, const char *pod)
{
    cJSON *meta = cJSON_GetObjectItem(world_find(w, "Pod", pod), "metadata");

    w->lost_pod = pod;
    w->going_ms = w->now_ms;
    cJSON_AddStringToObject(meta, "deletionTimestamp", "2023-11-14T20:00:00Z");
    cJSON_AddNumberToObject(meta, "deletionGracePeriodSeconds", 30);
}

static void a_wrong_stamp_cuts_no_grace_period_short(void **state)
{
    struct world w;
    cJSON *pod;
    int64_t seen_ms;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2,"
                   "\"minReplicas\":1,\"maxReplicas\":2}}");
    world_settle(&w);
    delete_long_ago(&w, "digits-worker-1");
    seen_ms = w.now_ms;
    for (; w.now_ms < seen_ms + 90000; w.now_ms += 1000) {
        world_pass(&w);
        pod = world_find(&w, "Pod", "digits-worker-1");
        assert_int_equal(hvd_json_int(pod, "metadata.deletionGracePeriodSeconds", 0), 30);
        assert_true(w.wake_at_ms > w.now_ms && w.wake_at_ms <= seen_ms + 90000);
    }
    world_pass(&w);
    assert_null(world_find(&w, "Pod", "digits-worker-1"));
    world_fini(&w);
}

static void a_wrong_stamp_ends_no_master_within_its_grace_period(void **state)
{
    struct world w;
    int64_t seen_ms;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    delete_long_ago(&w, "digits-master-abcde");
    seen_ms = w.now_ms;
    for (; w.now_ms < seen_ms + 60000; w.now_ms += 1000) {
        world_pass(&w);
        world_is_state(&w, "Running");
    }
    world_pass(&w);
    world_is_state(&w, "Restarting");
    world_fini(&w);
}

static void clocks_of_nodes_that_are_behind_lose_no_worker(void **state)
{
    struct world w;
    cJSON *running;

    (void)state;
    world_start(&w, "");
    running = (cJSON *)hvd_json_at(
        cJSON_GetArrayItem(
            hvd_json_at(world_find(&w, "Pod", "digits-master-abcde"), "status.containerStatuses"),
            0),
        "state.running");
    cJSON_ReplaceItemInObject(running, "startedAt", cJSON_CreateString("2023-01-01T00:00:00Z"));
    world_settle(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_fini(&w);
}

static void a_success_before_the_suspension_was_seen_is_kept(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_master(&w, 0, NULL);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_int_equal(world_events(&w, "Suspended"), 0);
    world_fini(&w);
}

static void a_suspended_attempt_does_not_count(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"activeDeadlineSeconds\":600");
    for (int i = 1; i <= 2; i++) {
        world_edit(&w, "{\"suspend\":true}");
        world_settle(&w);
        world_is_state(&w, "Suspended");
        assert_string_equal(world_status(&w, "startTime"), "");
        assert_int_equal(w.wake_at_ms, 0);
        w.now_ms += 3600000;
        world_edit(&w, "{\"suspend\":false}");
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(number(&w, "attempts"), i + 1);
        assert_int_equal(number(&w, "interruptions"), i);
        assert_true(w.wake_at_ms > w.now_ms + 500000);
    }
    wait(&w);
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
    world_fini(&w);
}

static void a_suspended_job_has_no_hosts_also_if_its_list_was_removed(void **state)
{
    struct world w;

    (void)state;
    for (int is_removed = 0; is_removed < 2; is_removed++) {
        world_start(&w, "");
        assert_int_equal(number(&w, "hosts"), 2);
        world_edit(&w, "{\"suspend\":true}");
        if (is_removed)
            world_remove(&w, "ConfigMap", "digits-hosts");
        world_settle(&w);
        w.now_ms += 60000;
        world_settle(&w);
        world_is_state(&w, "Suspended");
        assert_int_equal(number(&w, "hosts"), 0);
        world_edit(&w, "{\"suspend\":false}");
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(number(&w, "hosts"), 2);
        world_fini(&w);
    }
}

static void a_deleted_master_is_made_again_with_new_workers(void **state)
{
    struct world w;
    char *uid;

    (void)state;
    world_start(&w, "");
    uid = uid_of(&w, "Pod", "digits-worker-0");
    world_remove(&w, "Job", "digits-master");
    while (world_controllers(&w))
        ;
    world_pass(&w);
    assert_int_equal(w.n_traced, 1);
    world_is_state(&w, "Running");
    world_pass(&w);
    world_is_state(&w, "Restarting");
    has_message(&w, "Running", "Job digits-master was deleted (attempt 1 of 1)");
    assert_int_equal(world_pass(&w), 0);
    assert_non_null(world_find(&w, "Pod", "digits-worker-0"));
    wait(&w);
    world_is_state(&w, "Running");
    assert_string_not_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
    assert_int_equal(number(&w, "failures"), 0);
    assert_int_equal(number(&w, "attempts"), 2);
    free(uid);
    world_fini(&w);
}

/* It ended while no operator ran, and was removed by its ttlSecondsAfterFinished, or by hand. */
static void a_master_that_is_gone_has_the_end_that_its_events_tell(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_remove(&w, "Job", "digits-master");
    w.trace = HVD_FAILURE_SUCCEEDED;
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    has_message(&w, "Succeeded",
                "Job digits-master succeeded (attempt 1 of 1); it was deleted before its end was "
                "read");
    assert_int_equal(number(&w, "attempts"), 1);
    assert_int_equal(w.n_traced, 1);
    world_fini(&w);

    world_start(&w, ",\"backoffLimit\":1");
    for (int attempt = 1; attempt <= 2; attempt++) {
        world_remove(&w, "Job", "digits-master");
        w.trace = HVD_FAILURE_FAILED;
        w.trace_text = "Job has reached the specified backoff limit";
        world_settle(&w);
        assert_int_equal(w.n_traced, attempt);
        assert_int_equal(number(&w, "failures"), attempt);
    }
    world_is_state(&w, "Failed");
    has_message(&w, "Failed",
                "Job digits-master failed and was deleted before its end was read: Job has reached "
                "the specified backoff limit (attempt 2 of 2)");
    world_fini(&w);
}

/* The first status waits for something to tell: the operator ends before it, and the Job is gone
 * before the next one comes. */
static void an_end_before_the_first_status_is_not_forgotten(void **state)
{
    static const struct {
        enum hvd_failure_type trace;
        const char *state;
        int n_attempts;
        bool is_same; /* process, which has seen neither the Job nor its end */
    } cases[] = {
        {HVD_FAILURE_SUCCEEDED, "Succeeded", 1, false},
        {HVD_FAILURE_FAILED, "Failed", 1, false},
        {HVD_FAILURE_NO_TRACE, "Running", 1, false},
        {HVD_FAILURE_SUCCEEDED, "Succeeded", 1, true},
        {HVD_FAILURE_FAILED, "Failed", 1, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;

        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        for (int round = 0; round < 40 && !world_find(&w, "Job", "digits-master"); round++) {
            (void)world_pass(&w);
            w.now_ms += 20;
            (void)world_controllers(&w);
        }
        assert_non_null(world_find(&w, "Job", "digits-master"));
        assert_string_equal(world_status(&w, "state"), "");
        assert_int_equal(w.n_traced, 0); /* of a job that is new nothing is asked */
        world_remove(&w, "Job", "digits-master");
        if (!cases[i].is_same) {
            world_restart(&w);
            hvd_repairs_fini(&w.repairs);
        }
        w.trace = cases[i].trace;
        w.trace_text = "Job has reached the specified backoff limit";
        world_settle(&w);
        world_is_state(&w, cases[i].state);
        assert_int_equal(number(&w, "attempts"), cases[i].n_attempts);
        assert_int_equal(w.n_traced, 1);
        world_fini(&w);
    }
}

static void a_master_that_was_only_seen_late_goes_on(void **state)
{
    struct world w;
    cJSON *job, *pod;

    (void)state;
    world_start(&w, "");
    job = cJSON_DetachItemViaPointer(w.objects, world_find(&w, "Job", "digits-master"));
    pod = cJSON_DetachItemViaPointer(w.objects, world_find(&w, "Pod", "digits-master-abcde"));
    world_pass(&w);
    world_pass(&w);
    world_is_state(&w, "Restarting");
    cJSON_AddItemToArray(w.objects, job);
    cJSON_AddItemToArray(w.objects, pod);
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "attempts"), 1);
    assert_int_equal(number(&w, "interruptions"), 0);
    world_fini(&w);
}

static void everything_may_disappear_at_once(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    for (size_t i = 0; i < WORLD_CHILDREN; i++)
        world_remove(&w, world_children[i][0], world_children[i][1]);
    world_settle(&w);
    if (w.wake_at_ms > w.now_ms)
        wait(&w);
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "Failed"), 0);
    world_fini(&w);
}

static void workers_with_old_keys_are_made_again_before_the_master_starts(void **state)
{
    struct world w;
    char *uid;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    uid = uid_of(&w, "Pod", "digits-worker-0");
    world_remove(&w, "Secret", "digits-ssh");
    w.is_kubelet_off = false;
    while (world_controllers(&w))
        ;
    world_pass(&w);
    assert_null(world_find(&w, "Job", "digits-master"));
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_not_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
    assert_int_equal(number(&w, "attempts"), 1);
    free(uid);
    world_fini(&w);
}

/* Passes and controllers until nothing happens any more, while the clock stands still. */
static void go_on_within_one_second(struct world *w)
{
    size_t n_actions = 1;
    bool changed = true;

    for (int round = 0; n_actions || changed; round++) {
        assert_true(round < 100);
        n_actions = world_pass(w);
        changed = world_controllers(w);
    }
}

static void old_keys_are_told_from_new_ones_within_one_second(void **state)
{
    struct world w;
    char *uid;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    go_on_within_one_second(&w);
    uid = uid_of(&w, "Pod", "digits-worker-0");
    world_remove(&w, "Secret", "digits-ssh");
    w.is_kubelet_off = false;
    while (world_controllers(&w))
        ;
    go_on_within_one_second(&w);
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_string_not_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
    free(uid);
    world_fini(&w);
}

static void new_keys_wait_until_the_workers_with_the_old_ones_are_gone(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    world_remove(&w, "Secret", "digits-ssh");
    world_pass(&w);
    world_pass(&w);
    assert_null(world_find(&w, "Secret", "digits-ssh"));
    assert_int_equal(
        hvd_json_int(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas", -1), 0);
    while (world_controllers(&w))
        ;
    world_pass(&w);
    assert_non_null(world_find(&w, "Secret", "digits-ssh"));
    /* Pods that come before the Secret would wait long for it. */
    assert_int_equal(
        hvd_json_int(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas", -1), 0);
    w.is_kubelet_off = false;
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void keys_that_may_not_be_made_again_leave_no_workers_that_come_and_go(void **state)
{
    struct world w;
    int n_writes;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    w.deny_kind = "Secret";
    world_remove(&w, "Secret", "digits-ssh");
    for (int i = 0; i < 20; i++) {
        world_pass(&w);
        w.now_ms += 2000;
        (void)world_controllers(&w);
    }
    assert_null(world_find(&w, "Pod", "digits-worker-0"));
    n_writes = w.n_writes;
    world_pass(&w);
    (void)world_controllers(&w);
    world_pass(&w);
    assert_int_equal(w.n_writes, n_writes);
    w.deny_kind = NULL;
    w.is_kubelet_off = false;
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

/* A job whose workers and master all came within this second. */
static void start_within_one_second(struct world *w)
{
    world_init(w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    go_on_within_one_second(w);
    assert_non_null(world_find(w, "Pod", "digits-master-abcde"));
}

static void a_worker_replaced_in_the_second_of_the_start_is_lost(void **state)
{
    struct world w;

    (void)state;
    start_within_one_second(&w);
    world_remove(&w, "Pod", "digits-worker-1");
    while (world_controllers(&w))
        ;
    w.now_ms += 5000;
    world_pass(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "a worker of digits-worker: its pod was replaced by a new one");
    world_fini(&w);

    /* As it is where workers take longer to start. */
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    go_on_within_one_second(&w);
    w.is_kubelet_off = false;
    w.now_ms += 5000;
    go_on_within_one_second(&w);
    world_remove(&w, "Pod", "digits-worker-1");
    while (world_controllers(&w))
        ;
    w.now_ms += 5000;
    world_pass(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "worker digits-worker-1 on node node-1: its pod was replaced by a new one");
    world_fini(&w);
}

static void a_worker_that_ended_in_the_second_of_the_start_is_lost(void **state)
{
    struct world w;

    (void)state;
    start_within_one_second(&w);
    world_end_worker(&w, "digits-worker-1", 9, "Error");
    w.now_ms += 5000;
    world_pass(&w);
    assert_string_equal(
        world_status(&w, "workerFailure.message"),
        "worker digits-worker-1 on node node-1: container worker exited with code 9");
    world_fini(&w);
}

static void a_worker_gone_later_is_told_of_however_old_the_others_are(void **state)
{
    struct world w;

    (void)state;
    start_within_one_second(&w);
    w.now_ms += 60000;
    world_remove(&w, "Pod", "digits-worker-1");
    world_pass(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "worker digits-worker-1: its pod is gone");
    world_fini(&w);
}

static void workers_as_old_as_the_start_are_not_lost(void **state)
{
    struct world w;

    (void)state;
    start_within_one_second(&w);
    w.now_ms += 5000;
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_edit(&w, "{\"worker\":{\"replicas\":1,\"minReplicas\":1}}");
    world_settle(&w);
    world_edit(&w, "{\"worker\":{\"replicas\":2,\"minReplicas\":1}}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_fini(&w);
}

static void a_job_of_another_manager_is_never_written_to(void **state)
{
    static const char *const more[] = {"", ",\"suspend\":true", ",\"ttlSecondsAfterFinished\":0",
                                       ",\"cleanPodPolicy\":\"Wrong\""};
    char spec[512];

    (void)state;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        struct world w;

        (void)snprintf(spec, sizeof(spec), ",\"managedBy\":\"example.com/other\"%s", more[i]);
        world_start(&w, spec);
        cJSON_AddItemToObject(
            world_find(&w, "HorovodJob", "digits"), "status",
            cJSON_Parse("{\"state\":\"Succeeded\",\"completionTime\":\"2020-01-01T00:00:00Z\","
                        "\"conditions\":[{\"type\":\"Succeeded\",\"status\":\"True\",\"reason\":"
                        "\"R\",\"message\":\"\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"}]"
                        "}"));
        world_settle(&w);
        assert_int_equal(w.n_writes, 0);
        assert_int_equal(w.wake_at_ms, 0);
        world_fini(&w);
    }
}

static void the_ttl_runs_from_the_condition_if_the_time_is_missing(void **state)
{
    struct world w;
    cJSON *status;

    (void)state;
    world_start(&w, ",\"ttlSecondsAfterFinished\":100");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    status = cJSON_GetObjectItem(world_find(&w, "HorovodJob", "digits"), "status");
    cJSON_DeleteItemFromObject(status, "completionTime");
    assert_true(world_pass(&w) <= 1); /* the correction of the status, now or later */
    assert_non_null(world_find(&w, "HorovodJob", "digits"));
    assert_true(w.wake_at_ms > w.now_ms);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_killed_for_memory_ends_the_attempt_within_half_a_minute),
        cmocka_unit_test(a_master_that_ends_for_a_lost_worker_tells_of_both),
        cmocka_unit_test(a_master_that_succeeds_all_the_same_has_succeeded),
        cmocka_unit_test(what_happened_before_the_master_started_is_no_loss),
        cmocka_unit_test(scaling_is_no_loss),
        cmocka_unit_test(workers_that_come_back_after_scaling_were_not_lost),
        cmocka_unit_test(an_elastic_job_goes_on_without_a_worker),
        cmocka_unit_test(an_elastic_job_at_its_minimum_goes_on_without_a_worker),
        cmocka_unit_test(a_lost_worker_restarts_the_whole_group_up_to_the_limit),
        cmocka_unit_test(the_last_lost_worker_stays_readable_and_ends_no_later_attempt),
        cmocka_unit_test(a_worker_that_ends_again_and_again_before_the_start_fails_the_job),
        cmocka_unit_test(an_ignored_failure_does_not_count),
        cmocka_unit_test(ignored_failures_are_bounded),
        cmocka_unit_test(a_rule_may_end_the_job_at_once),
        cmocka_unit_test(a_pod_on_a_lost_node_is_removed_after_a_bound_and_once),
        cmocka_unit_test(a_master_on_a_lost_node_ends_the_attempt),
        cmocka_unit_test(a_wrong_stamp_cuts_no_grace_period_short),
        cmocka_unit_test(a_wrong_stamp_ends_no_master_within_its_grace_period),
        cmocka_unit_test(clocks_of_nodes_that_are_behind_lose_no_worker),
        cmocka_unit_test(a_success_before_the_suspension_was_seen_is_kept),
        cmocka_unit_test(a_suspended_attempt_does_not_count),
        cmocka_unit_test(a_suspended_job_has_no_hosts_also_if_its_list_was_removed),
        cmocka_unit_test(a_deleted_master_is_made_again_with_new_workers),
        cmocka_unit_test(a_master_that_is_gone_has_the_end_that_its_events_tell),
        cmocka_unit_test(an_end_before_the_first_status_is_not_forgotten),
        cmocka_unit_test(a_master_that_was_only_seen_late_goes_on),
        cmocka_unit_test(everything_may_disappear_at_once),
        cmocka_unit_test(workers_with_old_keys_are_made_again_before_the_master_starts),
        cmocka_unit_test(old_keys_are_told_from_new_ones_within_one_second),
        cmocka_unit_test(new_keys_wait_until_the_workers_with_the_old_ones_are_gone),
        cmocka_unit_test(keys_that_may_not_be_made_again_leave_no_workers_that_come_and_go),
        cmocka_unit_test(a_worker_replaced_in_the_second_of_the_start_is_lost),
        cmocka_unit_test(a_worker_that_ended_in_the_second_of_the_start_is_lost),
        cmocka_unit_test(a_worker_gone_later_is_told_of_however_old_the_others_are),
        cmocka_unit_test(workers_as_old_as_the_start_are_not_lost),
        cmocka_unit_test(a_job_of_another_manager_is_never_written_to),
        cmocka_unit_test(the_ttl_runs_from_the_condition_if_the_time_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
