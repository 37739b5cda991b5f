/* A HorovodJob that is being deleted, and that another writer's finalizer holds. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS 1000
#define HOUR_MS 3600000

static void pass_time(struct world *w, int64_t ms)
{
    const int64_t end_ms = w->now_ms + ms;

    while (w->now_ms < end_ms) {
        world_settle(w);
        if (w->wake_at_ms > w->now_ms && w->wake_at_ms < end_ms)
            w->now_ms = w->wake_at_ms;
        else
            w->now_ms = end_ms;
    }
    world_settle(w);
}

static void delete_job(struct world *w)
{
    world_hold(w, "HorovodJob", "digits");
    world_remove(w, "HorovodJob", "digits");
    world_restart(w);
    world_settle(w);
}

/* The job failed because it was deleted; it makes nothing more, leaves no pod, and writes no more.
 */
static void is_ended(struct world *w, const char *reason)
{
    int n_sent;

    pass_time(w, 60 * SECOND_MS);
    world_is_state(w, strcmp(reason, "MasterSucceeded") == 0 ? "Succeeded" : "Failed");
    if (strcmp(reason, "MasterSucceeded") != 0)
        assert_string_equal(world_condition_text(w, "Failed", "reason"), reason);
    assert_string_equal(world_condition(w, "Running"), "False");
    assert_string_not_equal(world_status(w, "completionTime"), "");
    assert_null(world_find(w, "Pod", "digits-worker-0"));
    assert_null(world_find(w, "StatefulSet", "digits-worker"));
    assert_string_equal(world_condition(w, "DeletionBlocked"), "True");
    assert_non_null(strstr(world_condition_text(w, "DeletionBlocked", "message"),
                           "HorovodJob default/digits is terminating since 2023-11-14T22:1"));
    assert_int_equal(world_events(w, "DeletionBlocked"), 1);
    n_sent = w->n_sent;
    world_restart(w);
    pass_time(w, HOUR_MS);
    assert_int_equal(w->n_sent, n_sent);
    world_release(w, "HorovodJob", "digits");
    while (world_controllers(w))
        ;
    assert_int_equal(cJSON_GetArraySize(w->objects), 0);
}

static void a_master_that_runs_goes_on_and_its_end_is_recorded(void **state)
{
    (void)state;
    for (int exit_code = 0; exit_code < 2; exit_code++) {
        struct world w;

        world_start(&w, ",\"backoffLimit\":3,\"ttlSecondsAfterFinished\":10");
        delete_job(&w);
        pass_time(&w, 300 * SECOND_MS);
        world_is_state(&w, "Running");
        assert_string_equal(world_condition(&w, "Running"), "True");
        world_end_master(&w, exit_code, "boom");
        is_ended(&w, exit_code ? "MasterFailed" : "MasterSucceeded");
        world_fini(&w);
    }
}

static void no_attempt_follows_one_that_failed(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    delete_job(&w);
    world_end_master(&w, 1, "boom");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "pod digits-master-abcde container master exited with code 1 (attempt 1 of "
                        "4, the last one: the HorovodJob is being deleted): boom");
    world_fini(&w);
    world_start(&w, ",\"backoffLimit\":3");
    w.lost_pod = "digits-worker-1";
    world_end_master(&w, 1, "boom");
    world_settle(&w);
    world_is_state(&w, "Restarting");
    w.lost_pod = NULL;
    delete_job(&w);
    is_ended(&w, "Deleted");
    world_fini(&w);
}

static void its_deadline_and_the_loss_of_a_worker_count(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"activeDeadlineSeconds\":600");
    delete_job(&w);
    pass_time(&w, 700 * SECOND_MS);
    assert_null(world_find(&w, "Pod", "digits-master-abcde"));
    is_ended(&w, "DeadlineExceeded");
    world_fini(&w);
    world_start(&w, ",\"backoffLimit\":3");
    delete_job(&w);
    world_end_worker(&w, "digits-worker-0", 137, "OOMKilled");
    pass_time(&w, 60 * SECOND_MS);
    assert_non_null(strstr(world_status(&w, "workerFailure.message"), "OOMKilled"));
    assert_null(world_find(&w, "Pod", "digits-master-abcde"));
    is_ended(&w, "WorkerFailed");
    world_fini(&w);
}

static void a_master_that_was_not_started_never_is(void **state)
{
    (void)state;
    for (int is_seen = 0; is_seen < 2; is_seen++) {
        struct world w;

        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        w.is_kubelet_off = true;
        if (is_seen)
            world_settle(&w);
        delete_job(&w);
        w.is_kubelet_off = false;
        world_is_state(&w, "Failed");
        assert_null(world_find(&w, "Job", "digits-master"));
        if (!is_seen)
            assert_int_equal(cJSON_GetArraySize(w.objects), 1);
        is_ended(&w, "Deleted");
        world_fini(&w);
    }
}

static void a_suspended_job_stays_so_and_is_not_resumed(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_edit(&w, "{\"suspend\":true}");
    delete_job(&w);
    world_is_state(&w, "Suspended");
    assert_null(world_find(&w, "Pod", "digits-worker-0"));
    assert_null(world_find(&w, "Job", "digits-master"));
    world_edit(&w, "{\"suspend\":false}");
    is_ended(&w, "Deleted");
    world_fini(&w);
}

/* As the API server and the garbage collector do for --cascade=POLICY. */
static void set_finalizers(struct world *w, const char *names)
{
    char patch[128];

    (void)snprintf(patch, sizeof(patch), "{\"metadata\":{\"finalizers\":%s}}", names);
    (void)world_patch(w, "HorovodJob", "digits", patch);
}

static void children_that_are_orphaned_stay_as_they_are(void **state)
{
    struct world w;
    int n_objects, n_sent;

    (void)state;
    world_start(&w, ",\"activeDeadlineSeconds\":600");
    n_objects = cJSON_GetArraySize(w.objects);
    set_finalizers(&w, "[\"example.com/hold\",\"orphan\"]");
    world_remove(&w, "HorovodJob", "digits");
    n_sent = w.n_sent;
    pass_time(&w, HOUR_MS);
    for (size_t i = 0; i < WORLD_CHILDREN; i++) {
        (void)world_patch(&w, world_children[i][0], world_children[i][1],
                          "{\"metadata\":{\"ownerReferences\":null}}");
        pass_time(&w, SECOND_MS);
    }
    set_finalizers(&w, "[\"example.com/hold\"]");
    world_restart(&w);
    pass_time(&w, HOUR_MS);
    world_release(&w, "HorovodJob", "digits");
    pass_time(&w, SECOND_MS);
    assert_int_equal(w.n_sent, n_sent);
    assert_int_equal(cJSON_GetArraySize(w.objects), n_objects - 1);
    world_fini(&w);
}

static void the_end_of_children_that_the_garbage_collector_removes_is_recorded(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    set_finalizers(&w, "[\"example.com/hold\",\"foregroundDeletion\"]");
    world_remove(&w, "HorovodJob", "digits");
    for (size_t i = 0; i < WORLD_CHILDREN; i++)
        world_remove(&w, world_children[i][0], world_children[i][1]);
    is_ended(&w, "Deleted");
    world_fini(&w);
}

/* The garbage collector may take its time: until then the next job of the name has begun nothing.
 */
static void children_of_a_deleted_job_of_the_name_are_no_attempt(void **state)
{
    struct world w;
    cJSON *job, *meta;

    (void)state;
    world_start(&w, "");
    job = world_find(&w, "HorovodJob", "digits");
    meta = cJSON_GetObjectItemCaseSensitive(job, "metadata");
    cJSON_DeleteItemFromObjectCaseSensitive(job, "status");
    cJSON_ReplaceItemInObjectCaseSensitive(meta, "uid", cJSON_CreateString("another"));
    world_restart(&w);
    for (int i = 0; i < 60; i++) {
        w.now_ms += SECOND_MS;
        (void)world_pass(&w);
    }
    assert_true(!hvd_json_at(job, "status.attempts") ||
                hvd_json_at(job, "status.attempts")->valueint == 0);
    assert_non_null(world_find(&w, "Job", "digits-master"));
    pass_time(&w, HOUR_MS);
    world_is_state(&w, "Running");
    assert_int_equal(hvd_json_at(job, "status.attempts")->valueint, 1);
    assert_null(hvd_json_at(job, "status.attemptLogs"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_that_runs_goes_on_and_its_end_is_recorded),
        cmocka_unit_test(no_attempt_follows_one_that_failed),
        cmocka_unit_test(its_deadline_and_the_loss_of_a_worker_count),
        cmocka_unit_test(a_master_that_was_not_started_never_is),
        cmocka_unit_test(a_suspended_job_stays_so_and_is_not_resumed),
        cmocka_unit_test(children_that_are_orphaned_stay_as_they_are),
        cmocka_unit_test(children_of_a_deleted_job_of_the_name_are_no_attempt),
        cmocka_unit_test(the_end_of_children_that_the_garbage_collector_removes_is_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
