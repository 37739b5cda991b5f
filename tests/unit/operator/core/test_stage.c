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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_is_slow_is_told_of_with_the_words_of_its_events),
        cmocka_unit_test(an_answer_ends_with_the_stage_that_it_was_about),
        cmocka_unit_test(a_master_that_is_slow_is_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
