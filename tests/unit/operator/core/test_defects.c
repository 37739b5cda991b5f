/* What is known to go wrong in operators of such jobs, and must not in this one: docs/defects.md.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define HEAD "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":"

/* A world with a short-form job of so many workers and these further members of spec. */
static void make(struct world *w, int replicas, const char *more)
{
    char spec[512];

    (void)snprintf(spec, sizeof(spec), HEAD "%d}%s}", replicas, more);
    world_init(w, spec);
}

static void start(struct world *w, int replicas, const char *more)
{
    make(w, replicas, more);
    world_settle(w);
    assert_string_equal(world_status(w, "state"), "Running");
}

static const char *hostfile(const struct world *w)
{
    return hvd_json_str(world_find(w, "ConfigMap", "digits-hosts"), "data.hostfile");
}

static cJSON *meta_of(const struct world *w, const char *kind, const char *name)
{
    return cJSON_GetObjectItem(world_find(w, kind, name), "metadata");
}

static char *uid_of(const struct world *w, const char *name)
{
    return strdup(hvd_json_str(meta_of(w, "Pod", name), "uid"));
}

static const cJSON *pod_spec(const struct world *w, const char *kind, const char *name)
{
    return hvd_json_at(world_find(w, kind, name), "spec.template.spec");
}

static void a_master_never_starts_before_the_workers_of_a_resumed_job(void **state)
{
    struct world w;

    (void)state;
    make(&w, 2, ",\"suspend\":true");
    world_settle(&w);
    w.is_kubelet_off = true;
    world_edit(&w, "{\"suspend\":false}");
    for (int i = 0; i < 20; i++) {
        world_pass(&w);
        (void)world_controllers(&w);
        w.now_ms += 1000;
        assert_null(world_find(&w, "Job", "digits-master"));
    }
    assert_int_equal(world_events(&w, "WorkersReady"), 0);
    w.is_kubelet_off = false;
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    world_fini(&w);
}

static void a_smaller_job_keeps_exactly_its_lowest_workers(void **state)
{
    struct world w;
    char *uid;

    (void)state;
    start(&w, 4, "");
    uid = uid_of(&w, "digits-worker-1");
    world_edit(&w, "{\"worker\":{\"replicas\":2,\"minReplicas\":1}}");
    world_pass(&w);
    assert_non_null(world_find(&w, "Pod", "digits-worker-3"));
    assert_string_equal(hostfile(&w),
                        "digits-worker-0.digits slots=1\ndigits-worker-1.digits slots=1\n");
    world_settle(&w);
    assert_null(world_find(&w, "Pod", "digits-worker-2"));
    assert_string_equal(hvd_json_str(meta_of(&w, "Pod", "digits-worker-1"), "uid"), uid);
    assert_string_equal(world_status(&w, "ready"), "2/2");
    free(uid);
    world_fini(&w);
}

static void workers_above_a_count_reduced_unseen_end_with_the_job(void **state)
{
    struct world w;

    (void)state;
    start(&w, 4, "");
    world_edit(&w, "{\"worker\":{\"replicas\":1}}");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Succeeded");
    for (int i = 0; i < 4; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "digits-worker-%d", i);
        assert_null(world_find(&w, "Pod", name));
    }
    world_fini(&w);
}

static void an_end_that_nobody_saw_is_found_however_late(void **state)
{
    struct world w;

    (void)state;
    start(&w, 2, ",\"backoffLimit\":3");
    assert_null(
        hvd_json_at(world_find(&w, "Job", "digits-master"), "spec.ttlSecondsAfterFinished"));
    assert_null(hvd_json_at(world_find(&w, "Job", "digits-master"), "spec.activeDeadlineSeconds"));
    world_end_master(&w, 0, NULL);
    w.now_ms += (int64_t)90 * 24 * 3600 * 1000; /* no operator for three months */
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Succeeded");
    assert_int_equal(world_events(&w, "MasterStarted"), 1);
    world_fini(&w);
}

static void a_finished_job_is_not_written_to_whatever_its_pods_do(void **state)
{
    struct world w;
    int writes;

    (void)state;
    start(&w, 2, ",\"cleanPodPolicy\":\"None\"");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    assert_string_equal(world_status(&w, "ready"), "2/2");
    writes = w.n_writes;
    w.is_kubelet_off = true;
    world_remove(&w, "Pod", "digits-worker-0");
    assert_int_equal(world_pass(&w), 0);
    (void)world_controllers(&w);
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.n_writes, writes);
    world_fini(&w);
}

static void keys_are_made_once_whatever_the_secret_holds(void **state)
{
    struct world w;
    char *before, *after;

    (void)state;
    start(&w, 2, "");
    cJSON_AddStringToObject(
        cJSON_GetObjectItem(world_find(&w, "Secret", "digits-ssh"), "stringData"), "odd", "x");
    before = cJSON_PrintUnformatted(world_find(&w, "Secret", "digits-ssh"));
    world_edit(&w, "{\"worker\":{\"replicas\":3}}");
    world_settle(&w);
    after = cJSON_PrintUnformatted(world_find(&w, "Secret", "digits-ssh"));
    assert_string_equal(before, after);
    cJSON_free(before);
    cJSON_free(after);
    world_fini(&w);
}

static void a_pod_without_an_ordinal_is_no_worker_and_breaks_nothing(void **state)
{
    static const char *const names[] = {"stray", "digits-worker-", "digits-worker-x",
                                        "digits-worker-1-2"};
    struct world w;

    (void)state;
    start(&w, 2, "");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\","
                       "\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\","
                       "\"horovod.io/job-name\":\"digits\",\"horovod.io/role\":\"worker\"}},"
                       "\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
                       "\"status\":\"True\"}]}}",
                       names[i]);
        world_put(&w, text);
    }
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_string_equal(world_status(&w, "ready"), "2/2");
    assert_null(strstr(hostfile(&w), "stray"));
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Succeeded");
    assert_non_null(world_find(&w, "Pod", "stray"));
    world_fini(&w);
}

static void time_spent_suspended_does_not_count_against_the_deadline(void **state)
{
    struct world w;

    (void)state;
    start(&w, 2, ",\"activeDeadlineSeconds\":600");
    w.now_ms += 500000;
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "startTime"), "");
    w.now_ms += 5000000;
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    w.now_ms += 500000;
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    w.now_ms += 100000;
    world_settle(&w);
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
    world_fini(&w);
}

static void a_worker_that_is_going_away_is_not_listed(void **state)
{
    struct world w;

    (void)state;
    start(&w, 2, "");
    cJSON_AddStringToObject(meta_of(&w, "Pod", "digits-worker-0"), "deletionTimestamp",
                            "2023-11-14T22:13:20Z");
    world_pass(&w);
    assert_string_equal(hostfile(&w), "digits-worker-1.digits slots=1\n");
    assert_string_equal(world_status(&w, "ready"), "1/2");
    world_fini(&w);
}

static void no_child_is_queued_by_itself(void **state)
{
    const cJSON *object = NULL;
    struct world w;
    cJSON *labels;

    (void)state;
    make(&w, 2, "");
    labels = cJSON_AddObjectToObject(meta_of(&w, "HorovodJob", "digits"), "labels");
    cJSON_AddStringToObject(labels, "kueue.x-k8s.io/queue-name", "q");
    cJSON_AddStringToObject(labels, "kueue.x-k8s.io/priority-class", "p");
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    cJSON_ArrayForEach(object, w.objects)
    {
        char *text = cJSON_PrintUnformatted(object);

        if (strcmp(hvd_json_str(object, "kind"), "HorovodJob") != 0)
            assert_null(strstr(text, "kueue"));
        cJSON_free(text);
    }
    world_fini(&w);
}

static void both_generations_of_open_mpi_are_told(void **state)
{
    static const char *const pairs[][2] = {
        {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"},
        {"OMPI_MCA_orte_keep_fqdn_hostnames", "PRTE_MCA_prte_keep_fqdn_hostnames"},
        {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"},
        {"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"},
    };
    static const char *const owners[][2] = {{"StatefulSet", "digits-worker"},
                                            {"Job", "digits-master"}};
    struct world w;

    (void)state;
    start(&w, 2, "");
    for (size_t i = 0; i < 8; i++) {
        const cJSON *spec = pod_spec(&w, owners[i % 2][0], owners[i % 2][1]);
        const cJSON *env =
            hvd_json_get(cJSON_GetArrayItem(hvd_json_get(spec, "containers"), 0), "env");
        const char *values[2] = {NULL, NULL};
        const cJSON *item = NULL;

        cJSON_ArrayForEach(item, env)
        {
            for (size_t k = 0; k < 2; k++) {
                if (strcmp(hvd_json_str(item, "name"), pairs[i / 2][k]) == 0)
                    values[k] = hvd_json_str(item, "value");
            }
        }
        assert_non_null(values[0]);
        assert_non_null(values[1]);
        assert_string_equal(values[0], values[1]);
    }
    world_fini(&w);
}

static void one_service_names_master_and_workers_ready_or_not(void **state)
{
    static const char *const owners[][2] = {{"StatefulSet", "digits-worker"},
                                            {"Job", "digits-master"}};
    const cJSON *service, *set, *item;
    struct world w;

    (void)state;
    start(&w, 2, "");
    service = world_find(&w, "Service", "digits");
    set = world_find(&w, "StatefulSet", "digits-worker");
    assert_string_equal(hvd_json_str(service, "spec.clusterIP"), "None");
    assert_true(hvd_json_true(service, "spec.publishNotReadyAddresses"));
    assert_string_equal(hvd_json_str(set, "spec.serviceName"), "digits");
    assert_string_equal(hvd_json_str(pod_spec(&w, "Job", "digits-master"), "subdomain"), "digits");
    for (size_t i = 0; i < 2; i++) {
        const cJSON *labels = hvd_json_at(world_find(&w, owners[i][0], owners[i][1]),
                                          "spec.template.metadata.labels");

        assert_true(cJSON_GetArraySize(hvd_json_at(service, "spec.selector")) > 0);
        cJSON_ArrayForEach(item, hvd_json_at(service, "spec.selector"))
        {
            const cJSON *label = cJSON_GetObjectItemCaseSensitive(labels, item->string);

            assert_non_null(label);
            assert_string_equal(label->valuestring, item->valuestring);
        }
    }
    assert_string_equal(hvd_json_str(set, "spec.podManagementPolicy"), "Parallel");
    assert_string_equal(hvd_json_str(set, "spec.updateStrategy.type"), "OnDelete");
    assert_null(hvd_json_at(set, "spec.volumeClaimTemplates"));
    world_fini(&w);
}

static void a_restarted_attempt_meets_no_process_of_the_one_before(void **state)
{
    struct world w;
    char *uids[2];

    (void)state;
    start(&w, 2, ",\"backoffLimit\":1");
    uids[0] = uid_of(&w, "digits-worker-0");
    uids[1] = uid_of(&w, "digits-worker-1");
    world_end_master(&w, 1, "boom");
    for (int i = 0; i < 60 && !world_find(&w, "Pod", "digits-master-abcde"); i++) {
        world_pass(&w);
        (void)world_controllers(&w);
    }
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_int_equal(world_events(&w, "Restarting"), 1);
    assert_string_not_equal(hvd_json_str(meta_of(&w, "Pod", "digits-worker-0"), "uid"), uids[0]);
    assert_string_not_equal(hvd_json_str(meta_of(&w, "Pod", "digits-worker-1"), "uid"), uids[1]);
    free(uids[0]);
    free(uids[1]);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_never_starts_before_the_workers_of_a_resumed_job),
        cmocka_unit_test(a_smaller_job_keeps_exactly_its_lowest_workers),
        cmocka_unit_test(workers_above_a_count_reduced_unseen_end_with_the_job),
        cmocka_unit_test(an_end_that_nobody_saw_is_found_however_late),
        cmocka_unit_test(a_finished_job_is_not_written_to_whatever_its_pods_do),
        cmocka_unit_test(keys_are_made_once_whatever_the_secret_holds),
        cmocka_unit_test(a_pod_without_an_ordinal_is_no_worker_and_breaks_nothing),
        cmocka_unit_test(time_spent_suspended_does_not_count_against_the_deadline),
        cmocka_unit_test(a_worker_that_is_going_away_is_not_listed),
        cmocka_unit_test(no_child_is_queued_by_itself),
        cmocka_unit_test(both_generations_of_open_mpi_are_told),
        cmocka_unit_test(one_service_names_master_and_workers_ready_or_not),
        cmocka_unit_test(a_restarted_attempt_meets_no_process_of_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
