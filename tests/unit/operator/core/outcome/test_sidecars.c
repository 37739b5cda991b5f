#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "tests/unit/operator/core/world.h"

/* Containers that run on after the master's own has ended, as those that a service mesh injects. */

#define POD "digits-master-abcde"
#define WITH_UPLOAD                                                                                \
    "{\"master\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"master\",\"image\":\"x\"},"  \
    "{\"name\":\"upload\",\"image\":\"u\"}]}}},\"worker\":{\"replicas\":2,\"template\":{\"spec\":" \
    "{\"containers\":[{\"name\":\"worker\",\"image\":\"x\"}]}}}%s}"

/* Adds the state of a container of the master's pod; exit_code -1: it runs. */
static void put_container(struct world *w, cJSON *list, const char *name, int exit_code)
{
    char time[HVD_RFC3339_SIZE], text[512];

    hvd_rfc3339_format(w->now_ms / 1000, time);
    if (exit_code < 0)
        (void)snprintf(text, sizeof(text),
                       "{\"name\":\"%s\",\"ready\":true,\"state\":{\"running\":{\"startedAt\":"
                       "\"%s\"}}}",
                       name, time);
    else
        (void)snprintf(text, sizeof(text),
                       "{\"name\":\"%s\",\"ready\":false,\"state\":{\"terminated\":{\"exitCode\":"
                       "%d,\"reason\":\"Error\",\"message\":\"last words of %s\",\"startedAt\":"
                       "\"%s\",\"finishedAt\":\"%s\"}}}",
                       name, exit_code, name, time, time);
    cJSON_AddItemToArray(list, cJSON_Parse(text));
}

static cJSON *write_status(struct world *w, const char *phase)
{
    cJSON *pod = world_find(w, "Pod", POD);
    cJSON *status;

    assert_non_null(pod);
    cJSON_DeleteItemFromObject(pod, "status");
    status = cJSON_AddObjectToObject(pod, "status");
    cJSON_AddStringToObject(status, "phase", phase);
    (void)world_patch(w, "Pod", POD, "{\"metadata\":{\"annotations\":{\"seen\":\"1\"}}}");
    return cJSON_AddArrayToObject(status, "containerStatuses");
}

/* The master's container has ended, the two beside it run; names may be NULL. */
static void end_master(struct world *w, int exit_code, const char *first, const char *last)
{
    cJSON *list = write_status(w, "Running");

    if (first)
        put_container(w, list, first, -1);
    put_container(w, list, "master", exit_code);
    if (last)
        put_container(w, list, last, -1);
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

static int64_t deadline_of(const struct world *w)
{
    return hvd_json_int(world_find(w, "Pod", POD), "spec.activeDeadlineSeconds", 0);
}

static void a_master_that_succeeded_beside_an_injected_container_has_succeeded(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    world_start(&w, "");
    end_master(&w, 0, "istio-proxy", NULL);
    go_on(&w, 1000);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition(&w, "Running"), "False");
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "MasterEnded");
    assert_string_equal(world_condition_text(&w, "Running", "message"),
                        "pod " POD " master exited with code 0 (attempt 1 of 1) and container "
                        "istio-proxy runs on: unless spec.master.template has it, the attempt "
                        "ends after 30 s");
    go_on(&w, 28000);
    world_is_state(&w, "Running");
    assert_int_equal(deadline_of(&w), 0);
    go_on(&w, 3000);
    world_is_state(&w, "Succeeded");
    assert_string_equal(world_condition_text(&w, "Succeeded", "message"),
                        "pod " POD " succeeded (attempt 1 of 1); container istio-proxy, which "
                        "spec.master.template does not have, ran on and is stopped");
    /* The pod ends by its deadline and stays with its log, and the workers go. */
    assert_int_equal(deadline_of(&w), 1);
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    while (world_controllers(&w)) /* the garbage collector takes the workers */
        (void)world_pass(&w);
    n_sent = w.n_sent;
    go_on(&w, 600000);
    assert_int_equal(w.n_sent, n_sent);
    world_fini(&w);
}

static void a_master_that_failed_beside_an_injected_container_has_failed(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    end_master(&w, 3, "istio-proxy", "linkerd");
    go_on(&w, 1000);
    world_is_state(&w, "Running");
    assert_non_null(strstr(world_condition_text(&w, "Running", "message"),
                           " master exited with code 3 (attempt 1 of 1) and containers "
                           "istio-proxy, linkerd run on: "));
    go_on(&w, 31000);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "pod " POD " container master exited with code 3 (attempt 1 of 1): last "
                        "words of master");
    assert_string_equal(world_status(&w, "failureLog"), "last words of master");
    assert_int_equal(deadline_of(&w), 1);
    world_fini(&w);
}

static void the_next_attempt_starts_without_the_pod_of_the_last(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    end_master(&w, 3, "istio-proxy", NULL);
    go_on(&w, 32000);
    world_is_state(&w, "Restarting");
    assert_int_equal(deadline_of(&w), 0);
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.attempts", 0), 2);
    world_fini(&w);
}

/* A container of the user's own may still have work to do. */
static void a_container_of_the_template_is_waited_for_and_reported(void **state)
{
    char spec[1024];
    struct world w;
    int n_writes;

    (void)state;
    (void)snprintf(spec, sizeof(spec), WITH_UPLOAD, "");
    world_init(&w, spec);
    world_settle(&w);
    end_master(&w, 0, "istio-proxy", "upload");
    go_on(&w, 29000);
    assert_int_equal(world_events(&w, "ContainerRunsOn"), 0);
    go_on(&w, 3000);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition_text(&w, "Running", "message"),
                        "pod " POD " container upload still runs after the master exited with "
                        "code 0 (attempt 1 of 1): the job waits for it; one that never ends "
                        "belongs into initContainers, with restartPolicy Always");
    assert_int_equal(world_events(&w, "ContainerRunsOn"), 1);
    n_writes = w.n_writes;
    go_on(&w, 3600000);
    assert_int_equal(w.n_writes, n_writes);
    /* It ends, and what is left was injected. */
    {
        cJSON *list = write_status(&w, "Running");

        put_container(&w, list, "istio-proxy", -1);
        put_container(&w, list, "master", 0);
        put_container(&w, list, "upload", 0);
    }
    go_on(&w, 1000);
    world_is_state(&w, "Succeeded");
    world_fini(&w);
}

/* The decision follows from what is persisted: another operator carries it on. */
static void a_restart_of_the_operator_keeps_the_time(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    end_master(&w, 0, "istio-proxy", NULL);
    go_on(&w, 25000);
    world_restart(&w);
    go_on(&w, 7000);
    world_is_state(&w, "Succeeded");
    assert_int_equal(deadline_of(&w), 1);
    world_fini(&w);
}

/* A container that ends soon, and a pod whose own controller ends it, need nobody. */
static void a_pod_that_ends_by_itself_is_left_to_do_so(void **state)
{
    cJSON *list;
    struct world w;

    (void)state;
    world_start(&w, "");
    end_master(&w, 0, "istio-proxy", NULL);
    go_on(&w, 10000);
    list = write_status(&w, "Succeeded");
    put_container(&w, list, "istio-proxy", 0);
    put_container(&w, list, "master", 0);
    go_on(&w, 1000);
    world_is_state(&w, "Succeeded");
    assert_string_equal(world_condition_text(&w, "Succeeded", "message"),
                        "pod " POD " succeeded (attempt 1 of 1)");
    assert_int_equal(deadline_of(&w), 0);
    world_fini(&w);
}

/* Sidecars of Kubernetes' own kind are ended by the kubelet. */
static void a_sidecar_among_the_init_containers_is_no_reason(void **state)
{
    cJSON *list;
    struct world w;

    (void)state;
    world_start(&w, "");
    list = write_status(&w, "Running");
    put_container(&w, list, "master", 0);
    list = cJSON_AddArrayToObject(cJSON_GetObjectItem(world_find(&w, "Pod", POD), "status"),
                                  "initContainerStatuses");
    put_container(&w, list, "istio-proxy", -1);
    go_on(&w, 120000);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition(&w, "Running"), "True");
    world_fini(&w);
}

/* What workers do after the master's end is no loss. */
static void workers_that_end_after_the_master_are_not_lost(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.now_ms += 5000;
    end_master(&w, 0, "istio-proxy", NULL);
    go_on(&w, 2000);
    world_end_worker(&w, "digits-worker-0", 137, "OOMKilled");
    go_on(&w, 32000);
    world_is_state(&w, "Succeeded");
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    world_fini(&w);
}

static void a_job_that_is_suspended_then_keeps_the_end_of_its_master(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    end_master(&w, 0, "istio-proxy", NULL);
    go_on(&w, 10000);
    world_edit(&w, "{\"suspend\":true}");
    go_on(&w, 1000);
    world_is_state(&w, "Succeeded");
    world_fini(&w);
}

/* The master's container has a name of the user's, and an injected one stands before it. */
static void a_container_of_another_name_is_found_behind_injected_ones(void **state)
{
    struct world w;
    cJSON *list, *containers;

    (void)state;
    world_init(&w, "{\"master\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"train\","
                   "\"image\":\"x\"}]}}},\"worker\":{\"replicas\":2,\"template\":{\"spec\":{"
                   "\"containers\":[{\"name\":\"train\",\"image\":\"x\"}]}}}}");
    world_settle(&w);
    containers = (cJSON *)hvd_json_at(world_find(&w, "Pod", POD), "spec.containers");
    assert_non_null(containers);
    cJSON_InsertItemInArray(containers, 0, cJSON_Parse("{\"name\":\"istio-proxy\"}"));
    list = write_status(&w, "Running");
    put_container(&w, list, "istio-proxy", -1);
    put_container(&w, list, "train", 4);
    go_on(&w, 32000);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "pod " POD " container train exited with code 4 (attempt 1 of 1): last "
                        "words of train");
    world_fini(&w);
}

/* A worker's container that ended counts, whatever runs beside it and in whatever order. */
static void a_worker_that_ended_beside_an_injected_container_is_lost(void **state)
{
    char time[HVD_RFC3339_SIZE], text[512];
    struct world w;
    cJSON *pod;

    (void)state;
    world_start(&w, "");
    w.now_ms += 5000;
    pod = world_find(&w, "Pod", "digits-worker-1");
    hvd_rfc3339_format(w.now_ms / 1000, time);
    (void)snprintf(text, sizeof(text),
                   "[{\"name\":\"istio-proxy\",\"state\":{\"running\":{\"startedAt\":\"%s\"}}},"
                   "{\"name\":\"worker\",\"state\":{\"terminated\":{\"exitCode\":9,\"reason\":"
                   "\"Error\",\"finishedAt\":\"%s\"}}}]",
                   time, time);
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(pod, "status"), "containerStatuses",
                              cJSON_Parse(text));
    go_on(&w, 1000);
    assert_string_equal(world_status(&w, "workerFailure.message"),
                        "worker digits-worker-1 on node node-1: container worker exited with code "
                        "9");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_that_succeeded_beside_an_injected_container_has_succeeded),
        cmocka_unit_test(a_master_that_failed_beside_an_injected_container_has_failed),
        cmocka_unit_test(the_next_attempt_starts_without_the_pod_of_the_last),
        cmocka_unit_test(a_container_of_the_template_is_waited_for_and_reported),
        cmocka_unit_test(a_restart_of_the_operator_keeps_the_time),
        cmocka_unit_test(a_pod_that_ends_by_itself_is_left_to_do_so),
        cmocka_unit_test(a_sidecar_among_the_init_containers_is_no_reason),
        cmocka_unit_test(workers_that_end_after_the_master_are_not_lost),
        cmocka_unit_test(a_container_of_another_name_is_found_behind_injected_ones),
        cmocka_unit_test(a_job_that_is_suspended_then_keeps_the_end_of_its_master),
        cmocka_unit_test(a_worker_that_ended_beside_an_injected_container_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
