#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "tests/unit/operator/core/world.h"

/* Pods that are slow without a cause in their status: what their user reads, and what it costs. */

#define JOB "{\"image\":\"x:1\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}"
#define CREATING                                                                                   \
    "\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"worker\",\"ready\":false,"           \
    "\"state\":{\"waiting\":{\"reason\":\"ContainerCreating\"}}}]"
#define RUNNING(list, name, more)                                                                  \
    "\"" list "\":[{\"name\":\"" name "\"," more "\"state\":{\"running\":{\"startedAt\":\"%s\"}}}" \
    "]"

/* The status of a worker's pod as its kubelet writes it, at the time of the world. */
static void write_status(struct world *w, const char *pod, const char *status)
{
    char time[HVD_RFC3339_SIZE], members[512], text[1024];
    cJSON *object = world_find(w, "Pod", pod), *parsed;
    cJSON *spec = cJSON_GetObjectItem(object, "spec");
    const char *hole = strstr(status, "%s");

    hvd_rfc3339_format(w->now_ms / 1000, time);
    (void)snprintf(members, sizeof(members), "%.*s%s%s", (int)(hole ? hole - status : 999), status,
                   hole ? time : "", hole ? hole + 2 : "");
    (void)snprintf(text, sizeof(text),
                   "{%s,\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\","
                   "\"lastTransitionTime\":\"%s\"}]}",
                   members, time);
    parsed = cJSON_Parse(text);
    assert_non_null(parsed);
    cJSON_ReplaceItemInObject(object, "status", parsed);
    if (!hvd_json_get(spec, "nodeName"))
        cJSON_AddStringToObject(spec, "nodeName", "node-1");
    cJSON_DeleteItemFromObject(spec, "initContainers");
    cJSON_AddItemToObject(
        spec, "initContainers",
        cJSON_Parse("[{\"name\":\"side\",\"restartPolicy\":\"Always\"},{\"name\":\"fetch\"}]"));
}

static void begin(struct world *w)
{
    world_init(w, JOB);
    w->is_kubelet_off = true;
    world_settle(w);
}

/* Passes when the operator wants them, for so long. */
static void go_on(struct world *w, int64_t for_ms)
{
    for (int64_t end_ms = w->now_ms + for_ms; w->now_ms < end_ms;) {
        while (world_pass(w) > 0)
            ;
        w->now_ms = w->wake_at_ms > w->now_ms && w->wake_at_ms < end_ms ? w->wake_at_ms : end_ms;
    }
    while (world_pass(w) > 0)
        ;
}

static const struct row {
    const char *status;
    const char *words; /* of the event; NULL: there is none */
    const char *text;
    const char *reason; /* of the job's event */
} rows[] = {
    {CREATING, "MountVolume.SetUp failed for volume \"data\" : secret \"s\" not found",
     "pod digits-worker-0 cannot start: MountVolume.SetUp failed for volume \"data\" : secret "
     "\"s\" not found",
     "ContainerNotStarted"},
    {CREATING, "Failed to create pod sandbox: plugin type=\"calico\" failed (add): no address",
     "pod digits-worker-0 cannot start: Failed to create pod sandbox: plugin type=\"calico\" "
     "failed (add): no address",
     "ContainerNotStarted"},
    {CREATING, NULL,
     "pod digits-worker-0 has not started on node node-1 after 2 minutes: its events name no "
     "cause, a large image may still be pulled",
     "ContainerNotStarted"},
    {"\"phase\":\"Pending\"," RUNNING("initContainerStatuses", "fetch", "\"ready\":false,"), NULL,
     "pod digits-worker-0 init container fetch has not ended after 2 minutes",
     "InitContainerNotEnded"},
    {"\"phase\":\"Pending\"," RUNNING("initContainerStatuses", "side", "\"started\":false,"),
     "Startup probe failed: 503",
     "pod digits-worker-0 sidecar side is not ready: Startup probe failed: 503",
     "ContainerNotReady"},
    {"\"phase\":\"Pending\"," RUNNING("initContainerStatuses", "side", "\"started\":false,"), NULL,
     "pod digits-worker-0 sidecar side has not started after 2 minutes", "ContainerNotStarted"},
    {"\"phase\":\"Running\"," RUNNING("containerStatuses", "worker", "\"ready\":false,"),
     "Readiness probe failed: dial tcp 10.0.0.7:2222: connect: connection refused",
     "pod digits-worker-0 container worker is not ready: Readiness probe failed: dial tcp "
     "10.0.0.7:2222: connect: connection refused",
     "ContainerNotReady"},
    {"\"phase\":\"Running\"," RUNNING("containerStatuses", "worker", "\"ready\":false,"), NULL,
     "pod digits-worker-0 container worker is not ready after 2 minutes: its events name no "
     "cause, see its readiness probe",
     "ContainerNotReady"},
};

static void a_pod_that_is_slow_is_told_of_with_the_words_of_its_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        char message[1024];
        int n_writes, n_asked;

        begin(&w);
        go_on(&w, 10000);
        w.pod_words = rows[i].words;
        (void)world_patch(&w, "Pod", "digits-worker-1", "{\"status\":{\"phase\":\"Running\"}}");
        write_status(&w, "digits-worker-0", rows[i].status);
        go_on(&w, 10000);
        assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                            "0 of 2 workers are ready");
        assert_int_equal(w.n_explained, 0); /* most pods start within 15 s */
        go_on(&w, rows[i].words ? 6000 : 111000);
        (void)snprintf(message, sizeof(message), "0 of 2 workers are ready; %s", rows[i].text);
        assert_string_equal(world_condition_text(&w, "WorkersReady", "message"), message);
        assert_string_equal(world_status(&w, "message"), message);
        assert_int_equal(world_events(&w, rows[i].reason), 1);
        /* It stays so for an hour, which costs no write and few questions. */
        n_writes = w.n_writes;
        n_asked = w.n_explained;
        go_on(&w, 3600000);
        assert_int_equal(w.n_writes, n_writes);
        assert_in_range(w.n_explained - n_asked, 0, 40);
        /* It is Ready. */
        cJSON_ReplaceItemInObject(world_find(&w, "Pod", "digits-worker-0"), "status",
                                  cJSON_Parse("{\"phase\":\"Running\",\"conditions\":[{\"type\":"
                                              "\"Ready\",\"status\":\"True\"}]}"));
        go_on(&w, 500);
        assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                            "1 of 2 workers are ready");
        world_fini(&w);
    }
}

/* What was asked about the start of a pod is no answer about its readiness. */
static void an_answer_ends_with_the_stage_that_it_was_about(void **state)
{
    struct world w;

    (void)state;
    begin(&w);
    w.pod_words = "secret not found";
    write_status(&w, "digits-worker-0", CREATING);
    go_on(&w, 20000);
    assert_non_null(strstr(world_status(&w, "message"), "cannot start: secret not found"));
    write_status(
        &w, "digits-worker-0",
        "\"phase\":\"Running\"," RUNNING("containerStatuses", "worker", "\"ready\":false,"));
    go_on(&w, 1000);
    assert_string_equal(world_status(&w, "message"), "0 of 2 workers are ready");
    world_fini(&w);
}

static void a_master_that_is_slow_is_told_of(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, JOB);
    world_settle(&w);
    w.is_kubelet_off = true;
    w.pod_words = "Multi-Attach error for volume \"data\"";
    write_status(&w, "digits-master-abcde", CREATING);
    go_on(&w, 20000);
    assert_string_equal(world_condition_text(&w, "Running", "message"),
                        "pod digits-master-abcde cannot start: Multi-Attach error for volume "
                        "\"data\"");
    assert_int_equal(world_events(&w, "ContainerNotStarted"), 1);
    world_fini(&w);
}

static void a_pod_in_phase_unknown_is_told_of_with_its_node(void **state)
{
    static const char text[] = "is in phase Unknown: see whether node node-1 works";

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *pod = i ? "digits-worker-1" : "digits-master-abcde";
        struct world w;
        char message[256];

        world_init(&w, JOB);
        world_settle(&w);
        w.is_kubelet_off = true;
        (void)world_patch(&w, "Pod", pod, "{\"spec\":{\"nodeName\":\"node-1\"}}");
        (void)world_patch(&w, "Pod", pod,
                          "{\"status\":{\"phase\":\"Unknown\",\"reason\":\"NodeLost\","
                          "\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}");
        go_on(&w, 31000);
        (void)snprintf(message, sizeof(message), "%spod %s %s",
                       i ? "1 of 2 workers are ready; " : "", pod, text);
        assert_string_equal(world_condition_text(&w, i ? "WorkersReady" : "Running", "message"),
                            message);
        assert_int_equal(world_events(&w, "PodUnknown"), 1);
        world_fini(&w);
    }
}

/* A readiness gate that nobody opens, or a node that is cut off: its containers are as they were.
 */
static void a_pod_that_is_not_ready_though_its_containers_are_is_told_of(void **state)
{
    struct world w;
    int n_writes;

    (void)state;
    begin(&w);
    write_status(
        &w, "digits-worker-0",
        "\"phase\":\"Running\"," RUNNING("containerStatuses", "worker", "\"ready\":true,"));
    cJSON_AddItemToArray(
        (cJSON *)hvd_json_at(world_find(&w, "Pod", "digits-worker-0"), "status.conditions"),
        cJSON_Parse("{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
                    "\"ReadinessGatesNotReady\",\"lastTransitionTime\":\"2023-11-14T22:13:20Z\"}"));
    go_on(&w, 60000);
    assert_string_equal(world_status(&w, "message"), "0 of 2 workers are ready");
    go_on(&w, 60000);
    assert_string_equal(world_status(&w, "message"),
                        "0 of 2 workers are ready; pod digits-worker-0 is not ready after 2 "
                        "minutes though its containers are: see its readinessGates, and whether "
                        "node node-1 works");
    assert_int_equal(world_events(&w, "ContainerNotReady"), 1);
    n_writes = w.n_writes;
    go_on(&w, 3600000);
    assert_int_equal(w.n_writes, n_writes);
    world_fini(&w);
}

/* Nobody makes the pods of a set, as when its controller is down. */
static void a_set_without_pods_is_told_of_though_no_event_is(void **state)
{
    static const char text[] =
        "0 of 2 workers are ready; 2 of 2 pods of StatefulSet digits-worker have not been made "
        "after 2 minutes: the StatefulSet controller has not seen the StatefulSet yet, see whether "
        "kube-controller-manager runs";
    struct world w;
    int n_writes;

    (void)state;
    world_init(&w, JOB);
    go_on(&w, 115000);
    assert_string_equal(world_status(&w, "message"), "0 of 2 workers are ready");
    go_on(&w, 20000);
    assert_string_equal(world_status(&w, "message"), text);
    assert_int_equal(world_events(&w, "PodsNotCreated"), 1);
    n_writes = w.n_writes;
    go_on(&w, 3600000);
    assert_int_equal(w.n_writes, n_writes);
    world_restart(&w);
    go_on(&w, 300000);
    assert_int_equal(w.n_writes, n_writes);
    /* It sees the set, and makes none all the same; one pod of two. */
    assert_true(world_patch(&w, "StatefulSet", "digits-worker",
                            "{\"metadata\":{\"generation\":1},\"status\":{"
                            "\"observedGeneration\":1}}"));
    go_on(&w, 60000);
    assert_non_null(strstr(world_status(&w, "message"),
                           "2 of 2 pods of StatefulSet digits-worker have not been made after 2 "
                           "minutes: its events name no cause"));
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "2 of 2 workers are ready");
    assert_int_equal(world_events(&w, "PodsNotCreated"), 1);
    world_fini(&w);
}

static void a_job_without_a_pod_is_told_of_though_no_event_is(void **state)
{
    static const char *const cases[][2] = {
        {"{}", "the Job controller has not seen the Job yet, see whether kube-controller-manager "
               "runs"},
        {"{\"status\":{\"startTime\":\"2024-01-01T00:00:00Z\"}}", "its events name no cause"},
        {"{\"spec\":{\"managedBy\":\"example.com/queue\"}}",
         "its spec.managedBy names another controller, example.com/queue"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;
        char text[512];
        int n_writes;

        world_init(&w, JOB);
        w.deny_pods_of = "Job";
        w.is_mute = true;
        world_settle(&w);
        (void)world_patch(&w, "Job", "digits-master", cases[i][0]);
        go_on(&w, 100000);
        assert_null(
            strstr(world_condition_text(&w, "Running", "message"), "has not been made after"));
        go_on(&w, 30000);
        (void)snprintf(text, sizeof(text),
                       "the pod of Job digits-master has not been made after 2 minutes: %s",
                       cases[i][1]);
        assert_string_equal(world_condition_text(&w, "Running", "message"), text);
        assert_int_equal(world_events(&w, "PodsNotCreated"), 1);
        n_writes = w.n_writes;
        go_on(&w, 3600000);
        assert_int_equal(w.n_writes, n_writes);
        w.deny_pods_of = NULL;
        world_settle(&w);
        world_is_state(&w, "Running");
        world_fini(&w);
    }
}

/* A set of many workers, whose pods come one by one. */
static void a_set_that_still_makes_pods_is_left_to_do_so(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"x:1\",\"command\":[\"t\"],\"worker\":{\"replicas\":6}}");
    w.is_kubelet_off = true;
    while (world_pass(&w) > 0)
        ;
    assert_true(world_controllers(&w)); /* makes all at once: two are to come */
    world_remove(&w, "Pod", "digits-worker-5");
    world_remove(&w, "Pod", "digits-worker-4");
    go_on(&w, 110000);
    world_controllers(&w);
    world_remove(&w, "Pod", "digits-worker-5");
    go_on(&w, 100000);
    assert_null(strstr(world_status(&w, "message"), "have not been made"));
    go_on(&w, 30000);
    assert_non_null(
        strstr(world_status(&w, "message"), "1 of 6 pods of StatefulSet digits-worker"));
    world_fini(&w);
}

/* A pod that no scheduler takes, or that may not be scheduled yet. */
static void a_pod_that_no_scheduler_takes_is_told_of(void **state)
{
    static const char *const cases[][3] = {
        {"\"phase\":\"Pending\"", "{\"spec\":{\"schedulerName\":\"mine\"}}",
         "has not been placed on a node after 2 minutes, and no cause is known: see whether "
         "scheduler mine runs"},
        {"\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
         "\"reason\":\"SchedulingGated\"}]",
         "{}",
         "is held by its spec.schedulingGates for more than 2 minutes: the program that set them "
         "has to remove them"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char status[256], text[512];
        struct world w;
        int n_writes;

        begin(&w);
        (void)snprintf(status, sizeof(status), "{\"status\":{%s}}", cases[i][0]);
        (void)world_patch(&w, "Pod", "digits-worker-0", status);
        (void)world_patch(&w, "Pod", "digits-worker-0", cases[i][1]);
        go_on(&w, 100000);
        assert_string_equal(world_status(&w, "message"), "0 of 2 workers are ready");
        go_on(&w, 30000);
        (void)snprintf(text, sizeof(text), "0 of 2 workers are ready; pod digits-worker-0 %s",
                       cases[i][2]);
        assert_string_equal(world_status(&w, "message"), text);
        assert_int_equal(world_events(&w, "Unschedulable"), 1);
        n_writes = w.n_writes;
        go_on(&w, 3600000);
        assert_int_equal(w.n_writes, n_writes);
        assert_int_equal(w.n_explained, 0);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_is_slow_is_told_of_with_the_words_of_its_events),
        cmocka_unit_test(an_answer_ends_with_the_stage_that_it_was_about),
        cmocka_unit_test(a_pod_in_phase_unknown_is_told_of_with_its_node),
        cmocka_unit_test(a_pod_that_is_not_ready_though_its_containers_are_is_told_of),
        cmocka_unit_test(a_master_that_is_slow_is_told_of),
        cmocka_unit_test(a_set_without_pods_is_told_of_though_no_event_is),
        cmocka_unit_test(a_job_without_a_pod_is_told_of_though_no_event_is),
        cmocka_unit_test(a_set_that_still_makes_pods_is_left_to_do_so),
        cmocka_unit_test(a_pod_that_no_scheduler_takes_is_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
