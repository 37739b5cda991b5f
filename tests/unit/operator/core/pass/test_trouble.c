#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* Causes for which pods do not run: a part of a condition, and one event each. */

#define JOB "{\"image\":\"x:1\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}"

static void waits(struct world *w, const char *pod, const char *reason, const char *message)
{
    cJSON *status = cJSON_Parse("{\"phase\":\"Pending\",\"containerStatuses\":[{\"image\":\"x:1\","
                                "\"state\":{\"waiting\":{}}}]}");
    cJSON *waiting = (cJSON *)hvd_json_at(
        cJSON_GetArrayItem(hvd_json_get(status, "containerStatuses"), 0), "state.waiting");

    cJSON_AddStringToObject(waiting, "reason", reason);
    if (message)
        cJSON_AddStringToObject(waiting, "message", message);
    cJSON_ReplaceItemInObject(world_find(w, "Pod", pod), "status", status);
}

static void cannot_be_scheduled(struct world *w, const char *pod, const char *message)
{
    cJSON *status = cJSON_Parse("{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\","
                                "\"status\":\"False\",\"reason\":\"Unschedulable\"}]}");

    cJSON_AddStringToObject(cJSON_GetArrayItem(hvd_json_get(status, "conditions"), 0), "message",
                            message);
    cJSON_ReplaceItemInObject(world_find(w, "Pod", pod), "status", status);
}

/* Two workers are there, and nothing makes them Ready. */
static void begin(struct world *w)
{
    world_init(w, JOB);
    w->is_kubelet_off = true;
    world_settle(w);
}

static void later(struct world *w)
{
    w->now_ms += 60000;
    while (world_pass(w) > 0)
        w->now_ms += 1000;
}

static const char *event(const struct world *w, const char *reason)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, w->events)
    {
        if (strcmp(hvd_json_str(item, "reason"), reason) == 0)
            return hvd_json_str(item, "message");
    }
    return "";
}

static void an_image_that_cannot_be_pulled_is_one_event_however_often_it_is_tried(void **state)
{
    static const char *const tries[][2] = {
        {"ErrImagePull", "rpc error: code = Unknown desc = dial tcp 10.0.0.1:35412: i/o timeout"},
        {"ImagePullBackOff", "Back-off pulling image \"x:1\""},
        {"ErrImagePull", "rpc error: code = Unknown desc = dial tcp 10.0.0.2:41999: i/o timeout"},
        {"ImagePullBackOff", "Back-off pulling image \"x:1\": ErrImagePull: rpc error: code = "
                             "Unknown desc = dial tcp 10.0.0.2:41999: i/o timeout"},
    };
    static const char text[] = "pod digits-worker-0 image x:1 cannot be pulled: dial tcp "
                               "10.0.0.1:35412: i/o timeout";
    struct world w;
    int n_writes;

    (void)state;
    begin(&w);
    n_writes = w.n_writes;
    for (size_t i = 0; i < 40; i++) {
        waits(&w, "digits-worker-0", tries[i % 4][0], tries[i % 4][1]);
        waits(&w, "digits-worker-1", tries[(i + 1) % 4][0], tries[(i + 1) % 4][1]);
        later(&w);
        assert_non_null(strstr(world_condition_text(&w, "WorkersReady", "message"), text));
    }
    assert_int_equal(w.n_writes - n_writes, 2); /* the event and the status */
    assert_int_equal(world_events(&w, "ImagePullFailed"), 1);
    assert_string_equal(event(&w, "ImagePullFailed"), text);
    /* Another worker has it when the first has not, and it comes back. */
    cJSON_ReplaceItemInObject(world_find(&w, "Pod", "digits-worker-0"), "status",
                              cJSON_Parse("{\"phase\":\"Running\"}"));
    later(&w);
    cJSON_ReplaceItemInObject(world_find(&w, "Pod", "digits-worker-1"), "status",
                              cJSON_Parse("{\"phase\":\"Running\"}"));
    later(&w);
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "0 of 2 workers are ready");
    waits(&w, "digits-worker-1", tries[0][0], tries[0][1]);
    later(&w);
    assert_int_equal(world_events(&w, "ImagePullFailed"), 1);
    world_fini(&w);
}

/* What an older kubelet shows between two tries says nothing of the registry. */
static void the_event_waits_for_the_words_of_the_registry(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    waits(&w, "digits-worker-0", "ImagePullBackOff", "Back-off pulling image \"x:1\"");
    later(&w);
    assert_non_null(
        strstr(world_condition_text(&w, "WorkersReady", "message"), "image x:1 cannot be pulled"));
    assert_int_equal(world_events(&w, "ImagePullFailed"), 0);
    waits(&w, "digits-worker-0", "ErrImagePull", "x:1: not found");
    later(&w);
    waits(&w, "digits-worker-0", "ImagePullBackOff", "Back-off pulling image \"x:1\"");
    later(&w);
    assert_string_equal(event(&w, "ImagePullFailed"),
                        "pod digits-worker-0 image x:1 cannot be pulled: x:1: not found");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "0 of 2 workers are ready; pod digits-worker-0 image x:1 cannot be pulled: "
                        "x:1: not found");
    world_fini(&w);
}

/* The same image, but for another reason: the condition follows. */
static void a_registry_that_says_something_else_is_quoted_anew(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    waits(&w, "digits-worker-0", "ErrImagePull", "r.example: unauthorized");
    later(&w);
    waits(&w, "digits-worker-0", "ErrImagePull", "r.example: not found");
    later(&w);
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "0 of 2 workers are ready; pod digits-worker-0 image x:1 cannot be pulled: "
                        "r.example: not found");
    assert_int_equal(world_events(&w, "ImagePullFailed"), 1);
    world_fini(&w);
}

static void what_the_scheduler_says_is_an_event_once_and_the_condition_follows_it(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    for (int i = 1; i <= 5; i++) {
        char text[128];

        (void)snprintf(text, sizeof(text), "0/%d nodes are available: %d Insufficient cpu.", i, i);
        cannot_be_scheduled(&w, "digits-worker-0", text);
        cannot_be_scheduled(&w, "digits-worker-1", text);
        later(&w);
        assert_non_null(strstr(world_condition_text(&w, "WorkersReady", "message"), text));
    }
    assert_int_equal(world_events(&w, "Unschedulable"), 1);
    assert_string_equal(event(&w, "Unschedulable"),
                        "pod digits-worker-0 cannot be scheduled: 0/1 nodes are available: 1 "
                        "Insufficient cpu.");
    /* The next cause of the same job is another event. */
    waits(&w, "digits-worker-0", "CreateContainerConfigError", "secret \"s\" not found");
    later(&w);
    assert_string_equal(event(&w, "ContainerNotStarted"),
                        "pod digits-worker-0 container cannot start: secret \"s\" not found");
    world_fini(&w);
}

static void pods_that_a_quota_refuses_are_an_event_once(void **state)
{
    static const char *const kinds[] = {"StatefulSet", "Job"};
    static const char *const texts[] = {
        "pods of StatefulSet digits-worker cannot be made: forbidden: exceeded quota",
        "the pod of Job digits-master cannot be made: forbidden: exceeded quota"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;

        world_init(&w, JOB);
        w.deny_pods_of = kinds[i];
        world_settle(&w);
        for (int n = 0; n < 30; n++) {
            w.now_ms += 30000;
            world_settle(&w);
        }
        assert_int_equal(world_events(&w, "PodsNotCreated"), 1);
        assert_string_equal(event(&w, "PodsNotCreated"), texts[i]);
        world_fini(&w);
    }
}

static void a_child_that_a_webhook_denies_is_an_event_once(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, JOB);
    w.deny_kind = "StatefulSet";
    for (int n = 0; n < 30; n++) {
        world_pass(&w);
        w.now_ms += 10000;
    }
    assert_int_equal(world_events(&w, "Denied"), 1);
    assert_non_null(strstr(event(&w, "Denied"), "StatefulSet digits-worker cannot be made"));
    world_fini(&w);
}

/* Events come before the status: an operator that dies in between writes neither twice. */
static void a_death_between_the_event_and_the_status_repeats_nothing(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    waits(&w, "digits-worker-0", "ErrImagePull", "not found");
    w.now_ms += 60000;
    w.actions_left = 1;
    (void)world_pass(&w);
    assert_true(w.is_dead);
    assert_int_equal(world_events(&w, "ImagePullFailed"), 1);
    w.is_dead = false;
    w.actions_left = -1;
    w.status_written_ms = 0;
    later(&w);
    assert_int_equal(world_events(&w, "ImagePullFailed"), 1);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_that_cannot_be_pulled_is_one_event_however_often_it_is_tried),
        cmocka_unit_test(the_event_waits_for_the_words_of_the_registry),
        cmocka_unit_test(a_registry_that_says_something_else_is_quoted_anew),
        cmocka_unit_test(what_the_scheduler_says_is_an_event_once_and_the_condition_follows_it),
        cmocka_unit_test(pods_that_a_quota_refuses_are_an_event_once),
        cmocka_unit_test(a_child_that_a_webhook_denies_is_an_event_once),
        cmocka_unit_test(a_death_between_the_event_and_the_status_repeats_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
