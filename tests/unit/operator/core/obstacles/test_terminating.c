/* Objects that are being deleted and do not go: a finalizer, or a lost node, holds them. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS 1000
#define HOUR_MS 3600000

/* Lets time pass, with everybody at work. */
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

/* The condition names the object, the finalizer and the time, in one event too; an hour costs
 * nothing. */
static void is_told(struct world *w, const char *kind, const char *name)
{
    const int n_events = world_events(w, "DeletionBlocked");
    char text[128];
    int n_writes;

    pass_time(w, 60 * SECOND_MS);
    (void)snprintf(text, sizeof(text), "%s default/%s is terminating since 2023-11-14T22:1", kind,
                   name);
    assert_string_equal(world_condition(w, "DeletionBlocked"), "True");
    assert_string_equal(world_condition_text(w, "DeletionBlocked", "reason"), "ObjectTerminating");
    if (strncmp(world_condition_text(w, "DeletionBlocked", "message"), text, strlen(text)) != 0)
        fail_msg("%s", world_condition_text(w, "DeletionBlocked", "message"));
    assert_non_null(strstr(world_condition_text(w, "DeletionBlocked", "message"),
                           "held by finalizers [example.com/hold]"));
    assert_int_equal(world_events(w, "DeletionBlocked"), n_events + 1);
    pass_time(w, 300 * SECOND_MS);
    n_writes = w->n_sent;
    world_restart(w);
    pass_time(w, HOUR_MS);
    assert_int_equal(w->n_sent, n_writes);
}

static void is_over(const struct world *w)
{
    assert_string_equal(world_condition(w, "DeletionBlocked"), "False");
    assert_string_equal(world_condition_text(w, "DeletionBlocked", "reason"), "ObjectsGone");
}

static void a_held_child_is_named_and_made_again_as_soon_as_it_goes(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORLD_CHILDREN; i++) {
        const char *kind = world_children[i][0], *name = world_children[i][1];
        struct world w;
        char *uid;

        world_start(&w, ",\"backoffLimit\":3");
        uid = strdup(hvd_json_str(world_find(&w, kind, name), "metadata.uid"));
        world_hold(&w, kind, name);
        world_remove(&w, kind, name);
        world_settle(&w);
        assert_string_equal(world_condition(&w, "DeletionBlocked"), "");
        is_told(&w, kind, name);
        world_is_state(&w, "Running");
        world_release(&w, kind, name);
        pass_time(&w, 60 * SECOND_MS);
        world_is_state(&w, "Running");
        is_over(&w);
        assert_string_not_equal(hvd_json_str(world_find(&w, kind, name), "metadata.uid"), uid);
        free(uid);
        world_fini(&w);
    }
}

/* What an attempt that ended leaves, and what holds up the next one. */
static const char *const left[][2] = {{"StatefulSet", "digits-worker"},
                                      {"Job", "digits-master"},
                                      {"Pod", "digits-worker-0"},
                                      {"Pod", "digits-master-abcde"}};
#define N_LEFT (sizeof(left) / sizeof(left[0]))

static void a_restart_that_waits_for_a_held_object_names_it_and_goes_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LEFT; i++) {
        const char *kind = left[i][0], *name = left[i][1];
        struct world w;

        world_start(&w, ",\"backoffLimit\":1");
        world_hold(&w, kind, name);
        if (i == 0)
            world_remove(&w, kind, name);
        world_end_master(&w, 1, "boom");
        is_told(&w, kind, name);
        world_is_state(&w, "Restarting");
        assert_non_null(strstr(world_status(&w, "message"), name));
        assert_null(world_find(&w, "Pod", "digits-worker-1"));
        world_release(&w, kind, name);
        world_settle(&w);
        world_is_state(&w, "Running");
        is_over(&w);
        assert_non_null(strstr(world_status(&w, "message"), "attempt 2 of 2"));
        world_fini(&w);
    }
}

static void pods_of_a_held_set_or_job_are_removed_when_the_job_ends_or_is_suspended(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool is_suspended = i % 2;
        const char *const *held = left[i / 2];
        struct world w;

        world_start(&w, i < 2 ? "" : ",\"activeDeadlineSeconds\":100");
        world_hold(&w, held[0], held[1]);
        world_remove(&w, held[0], held[1]);
        if (is_suspended)
            world_edit(&w, "{\"suspend\":true}");
        else if (i < 2)
            world_end_master(&w, 0, NULL);
        pass_time(&w, 200 * SECOND_MS);
        world_is_state(&w, is_suspended ? "Suspended" : i < 2 ? "Succeeded" : "Failed");
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        assert_null(world_find(&w, "Pod", "digits-worker-1"));
        if (is_suspended || i >= 2)
            assert_null(world_find(&w, "Pod", "digits-master-abcde"));
        assert_non_null(world_find(&w, held[0], held[1]));
        assert_string_equal(world_condition(&w, "DeletionBlocked"), "True");
        world_fini(&w);
    }
}

static void a_job_is_suspended_once_its_pods_are_gone_and_resumes_once_all_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LEFT; i++) {
        const char *kind = left[i][0], *name = left[i][1];
        const bool is_pod = strcmp(kind, "Pod") == 0;
        struct world w;

        world_start(&w, "");
        world_hold(&w, kind, name);
        if (i == 0)
            world_remove(&w, kind, name);
        world_edit(&w, "{\"suspend\":true}");
        is_told(&w, kind, name);
        world_is_state(&w, "Suspended");
        assert_string_equal(world_condition(&w, "Suspended"), is_pod ? "False" : "True");
        assert_string_equal(world_condition_text(&w, "Suspended", "reason"),
                            is_pod ? "Suspending" : "Suspended");
        assert_int_equal(world_events(&w, "Suspended"), 1);
        world_edit(&w, "{\"suspend\":false}");
        pass_time(&w, 60 * SECOND_MS);
        assert_string_equal(world_condition(&w, "Suspended"), "False");
        assert_non_null(strstr(world_status(&w, "message"), name));
        assert_int_equal(world_events(&w, "Resumed"), 0);
        world_release(&w, kind, name);
        pass_time(&w, 20 * SECOND_MS);
        world_is_state(&w, "Running");
        assert_string_equal(world_condition_text(&w, "Suspended", "reason"), "Resumed");
        assert_int_equal(world_events(&w, "Resumed"), 1);
        is_over(&w);
        world_fini(&w);
    }
}

/* The job is deleted and made again under the same name, while an object of the old one stays. */
static void make_again(struct world *w)
{
    cJSON *old = world_find(w, "HorovodJob", "digits"), *made;

    made = cJSON_CreateObject();
    cJSON_AddItemToObject(made, "spec", cJSON_Duplicate(cJSON_GetObjectItem(old, "spec"), true));
    world_remove(w, "HorovodJob", "digits");
    while (world_controllers(w))
        ;
    world_restart(w);
    cJSON_AddItemToObject(
        world_put(w, "{\"kind\":\"HorovodJob\",\"metadata\":{\"name\":\"digits\",\"namespace\":"
                     "\"default\",\"generation\":1}}"),
        "spec", cJSON_DetachItemFromObject(made, "spec"));
    cJSON_Delete(made);
}

static void a_job_made_again_names_what_is_left_of_the_old_one(void **state)
{
    static const char *const old[][2] = {
        {"Secret", "digits-ssh"}, {"ConfigMap", "digits-hosts"}, {"StatefulSet", "digits-worker"},
        {"Job", "digits-master"}, {"Pod", "digits-worker-0"},    {"Pod", "digits-master-abcde"}};

    (void)state;
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        struct world w;

        world_start(&w, "");
        world_hold(&w, old[i][0], old[i][1]);
        make_again(&w);
        is_told(&w, old[i][0], old[i][1]);
        if (i < 2) /* nothing mounts the keys and the list of the old job */
            assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        world_release(&w, old[i][0], old[i][1]);
        pass_time(&w, 30 * SECOND_MS);
        world_is_state(&w, "Running");
        is_over(&w);
        world_fini(&w);
    }
}

/* kubectl delete statefulset --cascade=orphan */
static void orphan_set(struct world *w)
{
    for (int i = 0; i < 2; i++)
        (void)world_patch(w, "Pod", i ? "digits-worker-1" : "digits-worker-0",
                          "{\"metadata\":{\"ownerReferences\":null}}");
    world_remove(w, "StatefulSet", "digits-worker");
}

static void workers_of_a_set_that_was_deleted_without_them_are_adopted_by_the_next_one(void **state)
{
    static const char *const specs[] = {
        "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}",
        "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2,\"minReplicas\":1,"
        "\"maxReplicas\":2}}"};

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct world w;
        char *uid, *list;

        world_init(&w, specs[i]);
        world_settle(&w);
        world_is_state(&w, "Running");
        uid = strdup(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"));
        list = strdup(hvd_json_str(world_find(&w, "ConfigMap", "digits-hosts"), "data.hostfile"));
        orphan_set(&w);
        w.now_ms += 5 * SECOND_MS;
        for (int pass = 0; pass < 3; pass++) { /* before any controller does something */
            (void)world_pass(&w);
            assert_string_equal(
                hvd_json_str(world_find(&w, "ConfigMap", "digits-hosts"), "data.hostfile"), list);
        }
        pass_time(&w, 120 * SECOND_MS);
        world_is_state(&w, "Running");
        assert_string_equal(world_status(&w, "workerFailure.message"), "");
        assert_string_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
        assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
        free(uid);
        free(list);
        world_fini(&w);
    }
}

static void workers_whose_set_was_deleted_without_them_go_with_the_attempt(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, "");
        orphan_set(&w);
        if (i == 0)
            world_edit(&w, "{\"suspend\":true}");
        else
            world_end_master(&w, 0, NULL);
        pass_time(&w, 60 * SECOND_MS);
        world_is_state(&w, i == 0 ? "Suspended" : "Succeeded");
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        assert_null(world_find(&w, "Pod", "digits-worker-1"));
        world_fini(&w);
    }
}

/* They know keys, or a list, that the master will not have, and no set takes them down. */
static void workers_without_a_set_that_the_job_cannot_use_are_removed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world w;

        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        w.is_kubelet_off = true;
        world_settle(&w);
        orphan_set(&w);
        if (i == 0)
            world_remove(&w, "Secret", "digits-ssh");
        else
            (void)world_patch(&w, "ConfigMap", "digits-hosts",
                              "{\"immutable\":true,\"data\":{\"hostfile\":\"other\"}}");
        w.is_kubelet_off = false;
        pass_time(&w, 120 * SECOND_MS);
        world_is_state(&w, "Running");
        world_fini(&w);
    }
}

static void a_garbage_collector_that_does_not_work_is_told(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    cJSON_ReplaceItemInObject(
        cJSON_GetArrayItem(
            hvd_json_at(world_find(&w, "Service", "digits"), "metadata.ownerReferences"), 0),
        "uid", cJSON_CreateString("uid-of-an-old-job"));
    while (w.now_ms < INT64_C(1700000000000) + 120 * SECOND_MS) {
        (void)world_pass(&w);
        w.now_ms += 10 * SECOND_MS;
    }
    assert_string_equal(world_condition(&w, "DeletionBlocked"), "True");
    assert_non_null(strstr(world_condition_text(&w, "DeletionBlocked", "message"),
                           "Service default/digits belongs to a deleted HorovodJob of this name"));
    assert_int_equal(world_events(&w, "DeletionBlocked"), 1);
    world_fini(&w);
}

static void a_pod_on_a_lost_node_is_named_with_its_node(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    w.lost_pod = "digits-worker-1";
    world_end_master(&w, 1, "boom");
    pass_time(&w, 75 * SECOND_MS);
    world_is_state(&w, "Restarting");
    assert_non_null(strstr(world_condition_text(&w, "DeletionBlocked", "message"),
                           "Pod default/digits-worker-1 is terminating since "));
    assert_non_null(strstr(world_condition_text(&w, "DeletionBlocked", "message"),
                           "the kubelet of node node-1"));
    w.lost_pod = NULL;
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Running");
    is_over(&w);
    world_fini(&w);
}

static void many_held_objects_are_counted_and_told_in_one_event_for_each_named(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    for (size_t i = 0; i < WORLD_CHILDREN; i++) {
        world_hold(&w, world_children[i][0], world_children[i][1]);
        world_remove(&w, world_children[i][0], world_children[i][1]);
    }
    pass_time(&w, 60 * SECOND_MS);
    assert_non_null(strstr(world_condition_text(&w, "DeletionBlocked", "message"),
                           "; further objects that do not go: 4"));
    assert_int_equal(world_events(&w, "DeletionBlocked"), 1);
    world_fini(&w);
}

static void a_pod_that_a_finalizer_holds_is_not_removed_again_and_again(void **state)
{
    struct world w;
    cJSON *meta;

    (void)state;
    world_start(&w, "");
    w.lost_pod = "digits-worker-1";
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    meta = cJSON_GetObjectItem(world_find(&w, "Pod", "digits-worker-1"), "metadata");
    cJSON_ReplaceItemInObject(meta, "deletionGracePeriodSeconds", cJSON_CreateNumber(0));
    w.now_ms += 86400000;
    assert_int_equal(world_pass(&w), 2); /* the condition DeletionBlocked, and its event */
    assert_int_equal(world_pass(&w), 0);
    assert_non_null(world_find(&w, "Pod", "digits-worker-1"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_a_finalizer_holds_is_not_removed_again_and_again),
        cmocka_unit_test(a_held_child_is_named_and_made_again_as_soon_as_it_goes),
        cmocka_unit_test(a_restart_that_waits_for_a_held_object_names_it_and_goes_on),
        cmocka_unit_test(pods_of_a_held_set_or_job_are_removed_when_the_job_ends_or_is_suspended),
        cmocka_unit_test(a_job_is_suspended_once_its_pods_are_gone_and_resumes_once_all_is),
        cmocka_unit_test(a_job_made_again_names_what_is_left_of_the_old_one),
        cmocka_unit_test(
            workers_of_a_set_that_was_deleted_without_them_are_adopted_by_the_next_one),
        cmocka_unit_test(workers_whose_set_was_deleted_without_them_go_with_the_attempt),
        cmocka_unit_test(workers_without_a_set_that_the_job_cannot_use_are_removed),
        cmocka_unit_test(a_garbage_collector_that_does_not_work_is_told),
        cmocka_unit_test(a_pod_on_a_lost_node_is_named_with_its_node),
        cmocka_unit_test(many_held_objects_are_counted_and_told_in_one_event_for_each_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
