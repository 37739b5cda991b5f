/*
 * Pods that are to go while the controllers that delete them stand still: the job names one and
 * what to look at, costs nothing meanwhile, and goes on when they work again.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS INT64_C(1000)
#define HOUR_MS (3600 * SECOND_MS)
#define ELASTIC                                                                                    \
    "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":3,\"minReplicas\":1,"           \
    "\"maxReplicas\":4}}"

/* Lets time pass in which the operator works and no controller does. */
static void pass_alone(struct world *w, int64_t ms)
{
    for (int64_t end_ms = w->now_ms + ms; w->now_ms < end_ms;) {
        while (world_pass(w) > 0)
            ;
        w->now_ms = w->wake_at_ms > w->now_ms && w->wake_at_ms < end_ms ? w->wake_at_ms : end_ms;
    }
    while (world_pass(w) > 0)
        ;
}

static void restart_operator(struct world *w)
{
    world_restart(w);
    hvd_repairs_fini(&w->repairs);
}

/* Nothing is told for 50 s; then the condition and one event name the pod, and an hour with
 * restarts of the operator costs nothing more. */
static void is_told(struct world *w, const char *text)
{
    const int n_events = world_events(w, "DeletionBlocked");
    int n_sent;

    pass_alone(w, 50 * SECOND_MS);
    assert_string_not_equal(world_condition(w, "DeletionBlocked"), "True");
    pass_alone(w, 30 * SECOND_MS);
    assert_string_equal(world_condition(w, "DeletionBlocked"), "True");
    assert_string_equal(world_condition_text(w, "DeletionBlocked", "reason"), "ObjectNotDeleted");
    if (!strstr(world_condition_text(w, "DeletionBlocked", "message"), text))
        fail_msg("%s", world_condition_text(w, "DeletionBlocked", "message"));
    pass_alone(w, 120 * SECOND_MS); /* pods that do not come are told of as well */
    n_sent = w->n_sent;
    restart_operator(w);
    pass_alone(w, HOUR_MS / 2);
    restart_operator(w);
    pass_alone(w, HOUR_MS / 2);
    assert_int_equal(w->n_sent, n_sent);
    assert_int_equal(world_events(w, "DeletionBlocked"), n_events + 1);
}

static void is_over(struct world *w, const char *state)
{
    world_settle(w);
    pass_alone(w, 60 * SECOND_MS);
    world_settle(w);
    world_is_state(w, state);
    assert_string_equal(world_condition(w, "DeletionBlocked"), "False");
}

#define COLLECTOR                                                                                  \
    "the Job digits-master that made it is gone, and the garbage collector has not deleted it: "   \
    "check kube-controller-manager, or delete the pod; further objects that do not go: 2"

static void a_job_that_is_suspended_names_what_stays(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_edit(&w, "{\"suspend\":true}");
    is_told(&w, "Pod default/digits-master-abcde is to go, as " COLLECTOR);
    assert_string_equal(world_condition(&w, "Suspended"), "False");
    world_remove(&w, "Pod", "digits-master-abcde"); /* as the text advises */
    pass_alone(&w, 60 * SECOND_MS);
    assert_non_null(strstr(
        world_condition_text(&w, "DeletionBlocked", "message"),
        "Pod default/digits-worker-0 is to go, as StatefulSet digits-worker has 0 replicas, and "
        "the StatefulSet controller has not deleted it: check kube-controller-manager"));
    is_over(&w, "Suspended");
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    world_fini(&w);
}

/* Of pods that become due one after the other the first one stays named: one event tells of all. */
static void the_pod_that_is_named_first_stays_named(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    assert_true(world_patch(&w, "Pod", "digits-master-abcde",
                            "{\"metadata\":{\"creationTimestamp\":\"2023-11-14T22:13:40Z\"}}"));
    w.now_ms += 5 * SECOND_MS; /* the pod is as if made 20 s later */
    world_edit(&w, "{\"suspend\":true}");
    pass_alone(&w, 300 * SECOND_MS);
    assert_int_equal(world_events(&w, "DeletionBlocked"), 1);
    assert_non_null(strstr(world_condition_text(&w, "DeletionBlocked", "message"),
                           "Pod default/digits-worker-0 is to go"));
    assert_non_null(strstr(world_condition_text(&w, "DeletionBlocked", "message"),
                           "further objects that do not go: 2"));
    world_fini(&w);
}

static void an_attempt_that_waits_for_pods_names_one(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    world_end_master(&w, 1, "boom");
    is_told(&w, "Pod default/digits-master-abcde is to go, as " COLLECTOR);
    world_is_state(&w, "Restarting");
    is_over(&w, "Running");
    world_fini(&w);
}

static void a_job_that_has_ended_does_not_say_that_its_workers_are_removed(void **state)
{
    (void)state;
    for (int code = 0; code < 2; code++) {
        struct world w;

        world_start(&w, "");
        world_end_master(&w, code, "boom");
        is_told(&w, "Pod default/digits-worker-0 is to go, as the StatefulSet digits-worker that "
                    "made it is gone, and the garbage collector has not deleted it");
        assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                            "the job has finished, and workers are not removed yet: see the "
                            "condition DeletionBlocked");
        is_over(&w, code ? "Failed" : "Succeeded");
        assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                            "the workers are removed: the job has finished");
        world_fini(&w);
    }
}

/* Those that a finalizer holds are no other case. */
static void workers_that_a_finalizer_holds_are_not_said_to_be_removed(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_hold(&w, "Pod", "digits-worker-1");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    pass_alone(&w, 120 * SECOND_MS);
    assert_string_equal(world_condition_text(&w, "DeletionBlocked", "reason"), "ObjectTerminating");
    assert_non_null(strstr(world_condition_text(&w, "WorkersReady", "message"), "not removed yet"));
    world_release(&w, "Pod", "digits-worker-1");
    is_over(&w, "Succeeded");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "the workers are removed: the job has finished");
    world_fini(&w);
}

static void a_worker_that_an_elastic_job_lets_go_is_named(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, ELASTIC);
    world_settle(&w);
    world_is_state(&w, "Running");
    w.now_ms += HOUR_MS;
    world_edit(&w, "{\"worker\":{\"replicas\":2}}");
    is_told(&w,
            "Pod default/digits-worker-2 is to go, as StatefulSet digits-worker has 2 replicas");
    is_over(&w, "Running");
    world_fini(&w);
}

/* Its workers know keys that are gone. */
static void a_start_that_waits_for_old_workers_names_one(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    world_remove(&w, "Secret", "digits-ssh");
    is_told(&w,
            "Pod default/digits-worker-0 is to go, as StatefulSet digits-worker has 0 replicas");
    w.is_kubelet_off = false;
    is_over(&w, "Running");
    world_fini(&w);
}

/* What somebody else removes is waited for from then on, however long ago the job ended. */
static void what_others_remove_late_has_its_time_as_well(void **state)
{
    static const char *const removed[] = {"StatefulSet", "Job"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, ",\"cleanPodPolicy\":\"None\"");
        world_end_master(&w, 0, NULL);
        world_settle(&w);
        pass_alone(&w, HOUR_MS);
        world_remove(&w, removed[i], i ? "digits-master" : "digits-worker");
        const int64_t gone_s = w.now_ms / 1000;
        if (i) /* as the store notes when the watch shows it */
            cJSON_AddNumberToObject(w.gone, "digits-master", (double)(HVD_KIND_JOB + 100 * gone_s));
        is_told(&w, i ? "Pod default/digits-master-abcde is to go, as the Job digits-master that "
                        "made it is gone"
                      : "Pod default/digits-worker-0 is to go, as the StatefulSet digits-worker");
        is_over(&w, "Succeeded");
        world_fini(&w);
    }
}

static void a_set_that_is_removed_under_the_master_has_its_time(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, ELASTIC);
    world_settle(&w);
    w.now_ms += HOUR_MS;
    world_remove(&w, "StatefulSet", "digits-worker");
    is_told(&w, "Pod default/digits-worker-0 is to go, as the StatefulSet digits-worker that made "
                "it is gone");
    world_fini(&w);
}

/* Controllers that take their time are no cause to tell of anything. */
static void controllers_that_are_slow_are_waited_for(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    world_end_master(&w, 1, "boom");
    pass_alone(&w, 50 * SECOND_MS);
    world_settle(&w);
    world_is_state(&w, "Running");
    world_edit(&w, "{\"suspend\":true}");
    pass_alone(&w, 50 * SECOND_MS);
    restart_operator(&w);
    pass_alone(&w, 50 * SECOND_MS);
    world_settle(&w);
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    assert_string_equal(world_condition(&w, "DeletionBlocked"), "");
    assert_int_equal(world_events(&w, "DeletionBlocked"), 0);
    world_fini(&w);
}

/* kubectl delete --cascade=orphan, and the job is made again: no watch reports of the StatefulSet
 * and the Job without an owner, but their pods run, and are not to go. */
static void what_an_earlier_job_has_left_is_not_to_go(void **state)
{
    static const char *const left[][2] = {{"StatefulSet", "digits-worker"},
                                          {"Job", "digits-master"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, "");
        for (size_t n = i; n < 2; n++) { /* all of it; only what the master needs */
            assert_true(world_patch(&w, left[n][0], left[n][1],
                                    "{\"metadata\":{\"ownerReferences\":null}}"));
            world_label(&w, left[n][0], left[n][1], HVD_LABEL_JOB, NULL);
        }
        for (size_t n = 0; n < WORLD_CHILDREN; n++) {
            if (strcmp(world_children[n][0], "Job") != 0 &&
                (i || strcmp(world_children[n][0], "StatefulSet") != 0))
                world_remove(&w, world_children[n][0], world_children[n][1]);
        }
        while (world_controllers(&w))
            continue;
        assert_true(world_patch(&w, "HorovodJob", "digits",
                                "{\"metadata\":{\"uid\":\"another\"},\"status\":null}"));
        restart_operator(&w);
        pass_alone(&w, HOUR_MS);
        world_settle(&w);
        assert_string_not_equal(world_condition(&w, "DeletionBlocked"), "True");
        assert_int_equal(world_events(&w, "DeletionBlocked"), 0);
        assert_int_equal(world_events(&w, "Conflict"), 1);
        assert_non_null(world_find(&w, "Pod", "digits-master-abcde"));
        if (!strstr(world_status(&w, "message"), left[i][1]))
            fail_msg("%s", world_status(&w, "message"));
        world_fini(&w);
    }
}

/* Whether it is there nobody knows. */
static void a_pod_that_cannot_be_read_is_accused_of_nothing(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_master(&w, 0, NULL);
    while (!*world_condition(&w, "Succeeded"))
        (void)world_pass(&w);
    world_label(&w, "Pod", "digits-worker-0", "horovod.io/job-name", NULL);
    world_label(&w, "Pod", "digits-worker-1", "horovod.io/job-name", NULL);
    w.unread_kind = "Pod";
    pass_alone(&w, 300 * SECOND_MS);
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_string_not_equal(world_condition(&w, "DeletionBlocked"), "True");
    w.unread_kind = NULL; /* they are there, and nobody deletes them */
    pass_alone(&w, 120 * SECOND_MS);
    assert_string_equal(world_condition(&w, "DeletionBlocked"), "True");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_cannot_be_read_is_accused_of_nothing),
        cmocka_unit_test(a_job_that_is_suspended_names_what_stays),
        cmocka_unit_test(the_pod_that_is_named_first_stays_named),
        cmocka_unit_test(an_attempt_that_waits_for_pods_names_one),
        cmocka_unit_test(a_job_that_has_ended_does_not_say_that_its_workers_are_removed),
        cmocka_unit_test(workers_that_a_finalizer_holds_are_not_said_to_be_removed),
        cmocka_unit_test(a_worker_that_an_elastic_job_lets_go_is_named),
        cmocka_unit_test(a_start_that_waits_for_old_workers_names_one),
        cmocka_unit_test(what_others_remove_late_has_its_time_as_well),
        cmocka_unit_test(a_set_that_is_removed_under_the_master_has_its_time),
        cmocka_unit_test(what_an_earlier_job_has_left_is_not_to_go),
        cmocka_unit_test(controllers_that_are_slow_are_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
