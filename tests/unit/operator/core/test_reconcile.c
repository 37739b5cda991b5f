#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SHORT "{\"image\":\"img\",\"command\":[\"train\"],\"worker\":{\"replicas\":2}"

static int hosts_lines(const struct world *w)
{
    const char *text = hvd_json_str(world_find(w, "ConfigMap", "digits-hosts"), "data.hostfile");
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void a_new_job_gets_its_children_and_runs(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    assert_non_null(world_find(&w, "Secret", "digits-ssh"));
    assert_non_null(world_find(&w, "Service", "digits"));
    assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_int_equal(hosts_lines(&w), 2);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition(&w, "Running"), "True");
    assert_string_equal(world_status(&w, "ready"), "2/2");
    assert_int_equal(world_events(&w, "MasterStarted"), 1);
    assert_int_equal(w.n_conflicts, 0);
    world_fini(&w);
}

static void the_children_of_a_new_job_come_before_its_status(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    assert_int_equal(world_pass(&w), 4);
    assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_int_equal(world_pass(&w), 0);
    assert_string_equal(world_status(&w, "state"), "");
    assert_true(w.wake_at_ms > w.now_ms && w.wake_at_ms <= w.now_ms + 5000);
    w.now_ms = w.wake_at_ms;
    assert_int_equal(world_pass(&w), 1);
    world_is_state(&w, "Pending");
    assert_int_equal(world_pass(&w), 0);
    world_fini(&w);
}

static void a_new_job_without_all_of_its_children_tells_why(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    w.deny_kind = "StatefulSet";
    world_pass(&w);
    world_pass(&w);
    world_is_state(&w, "Pending");
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "Denied");
    assert_non_null(world_find(&w, "ConfigMap", "digits-hosts"));
    world_fini(&w);
}

static void a_second_pass_over_a_settled_job_plans_nothing(void **state)
{
    struct world w;
    int writes;

    (void)state;
    world_start(&w, "");
    writes = w.n_writes;
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.wake_at_ms, 0);
    w.now_ms += 86400000;
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.n_writes, writes);
    world_fini(&w);
}

/* Passes and controllers with little time between them, until nothing happens any more. */
static void settle_fast(struct world *w)
{
    size_t n = 1;

    for (int round = 0; n > 0; round++) {
        n = world_pass(w);
        w->now_ms += 20;
        n += world_controllers(w) ? 1 : 0;
        assert_true(round < 200);
    }
}

static void a_new_job_in_trouble_is_told_of_at_once(void **state)
{
    struct world w;
    cJSON *pod;

    (void)state;
    world_init(&w, SHORT "}");
    w.is_kubelet_off = true;
    world_pass(&w);
    while (world_controllers(&w))
        continue;
    pod = world_find(&w, "Pod", "digits-worker-1");
    cJSON_ReplaceItemInObject(
        pod, "status",
        cJSON_Parse("{\"phase\":\"Pending\",\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{"
                    "\"waiting\":{\"reason\":\"ErrImagePull\"}}}]}"));
    assert_int_equal(world_pass(&w), 1);
    world_is_state(&w, "Pending");
    assert_non_null(strstr(world_condition_text(&w, "WorkersReady", "message"),
                           "pod digits-worker-1 image x:1 cannot be pulled"));
    world_fini(&w);
}

static void a_job_that_starts_at_once_costs_ten_writes_however_many_workers_it_has(void **state)
{
    static const int workers[] = {1, 4, 15};
    char spec[256];

    (void)state;
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        struct world w;

        (void)snprintf(spec, sizeof(spec),
                       "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":%d}}",
                       workers[i]);
        world_init(&w, spec);
        settle_fast(&w);
        world_is_state(&w, "Running");
        world_end_master(&w, 0, NULL);
        settle_fast(&w);
        world_is_state(&w, "Succeeded");
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_int_equal(w.n_writes, 10);
        world_fini(&w);
    }
}

static void a_job_that_starts_slowly_costs_eleven_writes(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    w.is_kubelet_off = true;
    settle_fast(&w);
    w.now_ms = w.wake_at_ms;
    settle_fast(&w);
    world_is_state(&w, "Pending");
    w.is_kubelet_off = false;
    settle_fast(&w);
    world_is_state(&w, "Running");
    world_end_master(&w, 0, NULL);
    settle_fast(&w);
    world_is_state(&w, "Succeeded");
    assert_int_equal(w.n_writes, 11);
    world_fini(&w);
}

static void a_master_that_does_not_start_soon_is_told_of(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    while (!world_find(&w, "Job", "digits-master")) {
        world_pass(&w);
        (void)world_controllers(&w);
        w.now_ms += 20;
    }
    w.is_kubelet_off = true;
    world_find(&w, "Job", "digits-master");
    settle_fast(&w);
    assert_string_equal(world_status(&w, "state"), "");
    assert_true(w.wake_at_ms > w.now_ms && w.wake_at_ms <= w.now_ms + 5000);
    w.now_ms = w.wake_at_ms;
    world_pass(&w);
    world_is_state(&w, "Starting");
    assert_string_equal(world_condition(&w, "WorkersReady"), "True");
    world_fini(&w);
}

static void workers_that_come_one_by_one_cost_few_writes(void **state)
{
    struct world w;
    int writes;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":15}}");
    w.is_kubelet_off = true;
    settle_fast(&w);
    writes = w.n_writes;
    for (int second = 0; second < 120; second++) {
        w.is_kubelet_off = second % 10 != 0;
        (void)world_controllers(&w);
        world_pass(&w);
        w.now_ms += 1000;
    }
    assert_string_equal(world_status(&w, "state"), "Pending");
    assert_true(w.n_writes - writes >= 3);
    assert_true(w.n_writes - writes <= 9);
    world_fini(&w);
}

static void what_troubled_the_master_is_forgotten_when_it_is_over(void **state)
{
    struct world w;
    cJSON *pod;

    (void)state;
    world_init(&w, SHORT "}");
    while (!world_find(&w, "Pod", "digits-master-abcde")) {
        world_pass(&w);
        (void)world_controllers(&w);
        w.now_ms += 20;
    }
    w.is_kubelet_off = true;
    pod = world_find(&w, "Pod", "digits-master-abcde");
    cJSON_ReplaceItemInObject(
        pod, "status",
        cJSON_Parse("{\"phase\":\"Pending\",\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{"
                    "\"waiting\":{\"reason\":\"ErrImagePull\"}}}]}"));
    settle_fast(&w);
    assert_string_equal(world_condition_text(&w, "Running", "message"),
                        "pod digits-master-abcde image x:1 cannot be pulled");
    cJSON_ReplaceItemInObject(pod, "status", cJSON_Parse("{\"phase\":\"Pending\"}"));
    w.now_ms += 60000;
    settle_fast(&w);
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "WaitingForMaster");
    assert_string_equal(world_condition_text(&w, "Running", "message"), "");
    world_fini(&w);
}

static void the_master_waits_for_every_worker_and_the_list(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    w.is_kubelet_off = true;
    world_settle(&w);
    world_is_state(&w, "Pending");
    assert_null(world_find(&w, "Job", "digits-master"));
    assert_int_equal(hosts_lines(&w), 2);
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.hosts", -1), 0);
    w.is_kubelet_off = false;
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void success_is_final_and_removes_the_workers(void **state)
{
    struct world w;
    int writes;

    (void)state;
    world_start(&w, "");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_string_equal(world_condition(&w, "Succeeded"), "True");
    assert_string_equal(world_condition(&w, "Running"), "False");
    assert_string_not_equal(world_status(&w, "completionTime"), "");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_int_equal(world_events(&w, "Succeeded"), 1);
    writes = w.n_writes;
    world_remove(&w, "Job", "digits-master");
    world_remove(&w, "Secret", "digits-ssh");
    world_settle(&w);
    assert_int_equal(w.n_writes, writes);
    world_is_state(&w, "Succeeded");
    world_fini(&w);
}

static void clean_pod_policy_says_what_is_left(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"cleanPodPolicy\":\"None\"");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_string_equal(world_status(&w, "ready"), "2/2");
    world_fini(&w);

    world_start(&w, ",\"cleanPodPolicy\":\"All\"");
    world_end_master(&w, 3, "boom");
    world_settle(&w);
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_null(world_find(&w, "Job", "digits-master"));
    world_is_state(&w, "Failed");
    world_fini(&w);
}

/* 0/2 of a job that succeeded reads as if two workers were missing. */
static void workers_that_were_removed_at_the_end_are_not_shown_as_missing(void **state)
{
    static const char *const policies[] = {"", ",\"cleanPodPolicy\":\"All\""};
    struct world w;

    (void)state;
    for (int i = 0; i < 4; i++) {
        world_start(&w, policies[i % 2]);
        world_end_master(&w, i / 2, NULL);
        world_settle(&w);
        assert_string_equal(world_status(&w, "ready"), "-");
        assert_int_equal(
            hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.workers.ready", -1), 0);
        world_fini(&w);
    }
    world_init(&w, "{\"image\":\"i\",\"worker\":{\"replicas\":1}}"); /* never had any */
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_status(&w, "ready"), "-");
    world_fini(&w);

    world_start(&w, ""); /* suspended is no end: they will be back */
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "ready"), "0/2");
    world_fini(&w);
}

/* Whichever form says it; with the first status, and with the one that follows a change. */
static void the_status_names_the_image_of_the_workers(void **state)
{
    static const char *const specs[] = {
        SHORT "}",
        "{\"master\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"master\",\"image\":"
        "\"other\"}]}}},\"worker\":{\"replicas\":2,\"template\":{\"spec\":{\"containers\":[{"
        "\"name\":\"side\",\"image\":\"s\"},{\"name\":\"worker\",\"image\":\"img\"}]}}}}"};
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        world_init(&w, specs[i]);
        world_settle(&w);
        assert_string_equal(world_status(&w, "image"), "img");
        world_fini(&w);
    }
    world_init(&w, SHORT "}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false,\"image\":\"new\"}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "image"), "new");
    world_fini(&w);
}

static void failure_tells_exit_code_and_last_line(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_end_master(&w, 3, "epoch 1\nrank 1 on digits-worker-1.digits died\n\n");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "MasterFailed");
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "pod digits-master-abcde container master exited with code 3 "
                        "(attempt 1 of 1): rank 1 on digits-worker-1.digits died");
    assert_int_equal(world_events(&w, "Failed"), 1);
    assert_int_equal(world_events(&w, "Restarting"), 0);
    world_fini(&w);
}

static void a_failed_attempt_is_followed_by_another_until_the_limit(void **state)
{
    struct world w;
    const char *old;
    char uid[32];

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    old = hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid");
    (void)snprintf(uid, sizeof(uid), "%s", old);
    world_end_master(&w, 3, "boom");
    world_pass(&w);
    world_is_state(&w, "Restarting");
    assert_non_null(world_find(&w, "Job", "digits-master"));
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_not_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
    assert_int_equal(world_events(&w, "Restarting"), 1);
    assert_int_equal(world_events(&w, "MasterStarted"), 2);
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.attempts", 0), 2);
    world_end_master(&w, 4, "boom again");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "pod digits-master-abcde container master exited with code 4 "
                        "(attempt 2 of 2): boom again");
    world_fini(&w);
}

static void a_job_failed_without_a_pod_says_why(void **state)
{
    struct world w;
    cJSON *job;

    (void)state;
    world_start(&w, "");
    job = world_find(&w, "Job", "digits-master");
    cJSON_AddItemToObject(
        cJSON_GetObjectItem(job, "status"), "conditions",
        cJSON_Parse("[{\"type\":\"Failed\",\"status\":\"True\",\"lastTransitionTime\":"
                    "\"2023-01-01T00:00:00Z\",\"message\":\"backoff limit reached\"}]"));
    world_remove(&w, "Pod", "digits-master-abcde");
    world_settle(&w);
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "Job digits-master failed (attempt 1 of 1): backoff limit reached");
    world_fini(&w);
}

static void deleted_children_are_made_again_while_the_job_runs(void **state)
{
    struct world w;

    (void)state;
    for (size_t i = 0; i < WORLD_CHILDREN; i++) {
        world_start(&w, "");
        world_remove(&w, world_children[i][0], world_children[i][1]);
        world_settle(&w);
        assert_non_null(world_find(&w, world_children[i][0], world_children[i][1]));
        world_is_state(&w, "Running");
        assert_int_equal(hosts_lines(&w), 2);
        assert_int_equal(world_events(&w, "Failed"), 0);
        world_fini(&w);
    }
}

static void drift_of_owned_fields_is_repaired(void **state)
{
    struct world w;
    struct hvd_jb jb = {0};
    cJSON *object;

    (void)state;
    world_start(&w, "");
    object = world_find(&w, "StatefulSet", "digits-worker");
    hvd_jb_int(&jb, cJSON_GetObjectItem(object, "spec"), "replicas", 1);
    assert_true(world_patch(&w, "StatefulSet", "digits-worker",
                            "{\"spec\":{\"updateStrategy\":{\"type\":\"RollingUpdate\","
                            "\"rollingUpdate\":{\"partition\":1}}}}"));
    assert_true(
        world_patch(&w, "Service", "digits", "{\"spec\":{\"selector\":{\"tier\":\"web\"}}}"));
    object = world_find(&w, "Service", "digits");
    hvd_jb_bool(&jb, cJSON_GetObjectItem(object, "spec"), "publishNotReadyAddresses", false);
    object = world_find(&w, "ConfigMap", "digits-hosts");
    hvd_jb_str(&jb, cJSON_GetObjectItem(object, "data"), "hostfile", "elsewhere slots=9\n");
    world_settle(&w);
    assert_int_equal(
        hvd_json_int(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas", 0), 2);
    object = world_find(&w, "StatefulSet", "digits-worker");
    assert_string_equal(hvd_json_str(object, "spec.updateStrategy.type"), "OnDelete");
    assert_null(hvd_json_at(object, "spec.updateStrategy.rollingUpdate"));
    assert_int_equal(
        cJSON_GetArraySize(hvd_json_at(world_find(&w, "Service", "digits"), "spec.selector")), 2);
    assert_true(
        hvd_json_true(world_find(&w, "Service", "digits"), "spec.publishNotReadyAddresses"));
    assert_int_equal(hosts_lines(&w), 2);
    world_fini(&w);
}

static void suspension_leaves_no_pods_and_resumes(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_is_state(&w, "Suspended");
    assert_null(world_find(&w, "Job", "digits-master"));
    assert_null(world_find(&w, "Pod", "digits-worker-0"));
    assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_string_equal(world_condition(&w, "Running"), "False");
    assert_string_equal(world_status(&w, "startTime"), "");
    assert_int_equal(hosts_lines(&w), 0);
    assert_int_equal(world_pass(&w), 0);

    world_edit(&w, "{\"suspend\":false,\"image\":\"new\"}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition(&w, "Suspended"), "False");
    assert_int_equal(world_events(&w, "Suspended"), 1);
    assert_int_equal(world_events(&w, "Resumed"), 1);
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItem(
            cJSON_GetArrayItem(hvd_json_at(world_find(&w, "StatefulSet", "digits-worker"),
                                           "spec.template.spec.containers"),
                               0),
            "image")),
        "new");
    world_fini(&w);
}

static void a_job_created_suspended_makes_nothing(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"suspend\":true");
    world_is_state(&w, "Suspended");
    assert_int_equal(cJSON_GetArraySize(w.objects), 1);
    assert_int_equal(world_events(&w, "Suspended"), 1);
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void a_change_made_between_suspend_and_resume_unseen_still_takes_effect(void **state)
{
    struct world w;
    const cJSON *set;

    (void)state;
    world_start(&w, "");
    world_edit(&w, "{\"suspend\":true}");
    world_edit(&w, "{\"suspend\":false,\"image\":\"new\"}");
    world_settle(&w);
    world_is_state(&w, "Running");
    set = world_find(&w, "StatefulSet", "digits-worker");
    assert_string_equal(
        hvd_json_str(cJSON_GetArrayItem(hvd_json_at(set, "spec.template.spec.containers"), 0),
                     "image"),
        "new");
    assert_int_equal(world_events(&w, "Suspended"), 1);
    world_fini(&w);
}

static void scaling_does_not_restart_an_elastic_job(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_edit(&w, "{\"worker\":{\"replicas\":3,\"minReplicas\":1}}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(hosts_lines(&w), 3);
    assert_int_equal(world_events(&w, "Suspended"), 0);
    assert_string_equal(world_status(&w, "ready"), "3/3");
    world_fini(&w);
}

static void a_job_managed_by_another_is_not_written_to(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"managedBy\":\"kueue.x-k8s.io/multikueue\"");
    assert_int_equal(w.n_writes, 0);
    world_fini(&w);
    world_start(&w, ",\"managedBy\":\"horovod.io/horovod-operator\"");
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void a_foreign_object_is_left_alone_and_retried_slowly(void **state)
{
    struct world w;
    cJSON *set;
    int writes;

    (void)state;
    world_init(&w, SHORT "}");
    world_put(&w, "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"digits-worker\","
                  "\"namespace\":\"default\"},\"spec\":{\"replicas\":7}}");
    for (int i = 0; i < 5; i++)
        world_pass(&w);
    set = world_find(&w, "StatefulSet", "digits-worker");
    assert_int_equal(hvd_json_int(set, "spec.replicas", 0), 7);
    world_is_state(&w, "Pending");
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "Conflict");
    assert_non_null(
        strstr(world_status(&w, "message"), "StatefulSet default/digits-worker exists"));
    assert_int_equal(world_events(&w, "Conflict"), 1);
    assert_true(w.wake_at_ms > w.now_ms + 50000);
    writes = w.n_writes;
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.n_writes, writes);

    world_remove(&w, "StatefulSet", "digits-worker");
    w.now_ms = w.wake_at_ms;
    w.n_failures = 0;
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "Conflict"), 1);
    world_fini(&w);
}

static void a_foreign_object_with_our_labels_is_left_alone(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    world_put(&w, "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"digits-ssh\",\"namespace\":"
                  "\"default\",\"labels\":{\"horovod.io/job-name\":\"digits\"}}}");
    world_settle(&w);
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "Conflict");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    world_fini(&w);
}

#define OUR_LABELS                                                                                 \
    ",\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":"  \
    "\"digits\"}"

/* It is no reason to end the job, and the user is told of it until it is gone. */
static void a_foreign_child_beside_a_running_master_is_told_of(void **state)
{
    static const struct {
        const char *kind, *name, *labels;
    } table[] = {{"Secret", "digits-ssh", ""},      {"Secret", "digits-ssh", OUR_LABELS},
                 {"Service", "digits", ""},         {"Service", "digits", OUR_LABELS},
                 {"ConfigMap", "digits-hosts", ""}, {"ConfigMap", "digits-hosts", OUR_LABELS}};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct world w;
        char text[512];
        int writes;

        world_start(&w, "");
        world_remove(&w, table[i].kind, table[i].name);
        (void)snprintf(
            text, sizeof(text),
            "{\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\"%s},"
            "\"spec\":{}}",
            table[i].kind, table[i].name, table[i].labels);
        world_put(&w, text);
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_string_equal(world_condition(&w, "Running"), "True");
        (void)snprintf(text, sizeof(text), "(attempt 1 of 1); %s default/%s exists and is not",
                       table[i].kind, table[i].name);
        assert_non_null(strstr(world_status(&w, "message"), text));
        assert_int_equal(world_events(&w, "Conflict"), 1);
        writes = w.n_writes;
        for (int minute = 0; minute < 10; minute++) {
            w.now_ms += 61000; /* the operator looks again once a minute */
            w.n_failures = 0;
            world_settle(&w);
        }
        assert_int_equal(w.n_writes, writes);
        world_remove(&w, table[i].kind, table[i].name);
        w.now_ms += 61000;
        w.n_failures = 0;
        world_settle(&w);
        assert_non_null(
            hvd_json_at(world_find(&w, table[i].kind, table[i].name), "metadata.ownerReferences"));
        assert_string_equal(world_status(&w, "message"),
                            "pod digits-master-abcde is running (attempt 1 of 1)");
        assert_int_equal(world_events(&w, "Conflict"), 1);
        assert_int_equal(world_events(&w, "MasterStarted"), 1);
        assert_true(w.n_writes <= writes + 3);
        world_end_master(&w, 0, NULL);
        world_settle(&w);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

static void a_child_that_is_denied_beside_a_running_master_is_told_of(void **state)
{
    static const char *const children[][2] = {
        {"Secret", "digits-ssh"}, {"Service", "digits"}, {"ConfigMap", "digits-hosts"}};

    (void)state;
    for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++) {
        struct world w;
        char text[256];

        world_start(&w, "");
        world_remove(&w, children[i][0], children[i][1]);
        w.deny_kind = children[i][0];
        for (int pass = 0; pass < 5; pass++) {
            world_pass(&w);
            w.now_ms += 30000;
        }
        world_is_state(&w, "Running");
        (void)snprintf(text, sizeof(text),
                       "(attempt 1 of 1); %s %s cannot be made, will be tried again: admission",
                       children[i][0], children[i][1]);
        assert_non_null(strstr(world_status(&w, "message"), text));
        assert_int_equal(world_events(&w, "Denied"), 1);
        w.deny_kind = NULL;
        world_settle(&w);
        assert_non_null(world_find(&w, children[i][0], children[i][1]));
        w.now_ms += 60000;
        world_settle(&w);
        assert_string_equal(world_status(&w, "message"),
                            "pod digits-master-abcde is running (attempt 1 of 1)");
        world_fini(&w);
    }
}

static void what_a_deleted_job_of_the_same_name_left_is_waited_for(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    world_put(&w,
              "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"digits-worker\",\"namespace\":"
              "\"default\",\"labels\":{\"horovod.io/job-name\":\"digits\"},\"ownerReferences\":[{"
              "\"kind\":\"HorovodJob\",\"name\":\"digits\",\"uid\":\"old\",\"controller\":true}]},"
              "\"spec\":{\"replicas\":2}}");
    world_pass(&w);
    world_pass(&w);
    assert_int_equal(world_events(&w, "Conflict"), 0);
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void a_template_that_the_api_server_refuses_fails_the_job(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SHORT "}");
    w.refuse_kind = "StatefulSet";
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "InvalidTemplate");
    assert_string_equal(world_condition_text(&w, "Failed", "message"),
                        "StatefulSet digits-worker was refused: no such field \"imag\"");
    assert_int_equal(world_events(&w, "InvalidTemplate"), 1);
    world_fini(&w);
}

static void a_wrong_spec_that_got_past_the_crd_fails_the_job(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"img\",\"worker\":{\"replicas\":1}}");
    world_settle(&w);
    world_is_state(&w, "Failed");
    assert_non_null(strstr(world_condition_text(&w, "Failed", "message"), "spec.command"));
    assert_int_equal(cJSON_GetArraySize(w.objects), 1);
    world_fini(&w);
}

static void the_deadline_is_recorded_before_the_master_is_stopped(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"activeDeadlineSeconds\":600,\"cleanPodPolicy\":\"None\"");
    world_is_state(&w, "Running");
    assert_true(w.wake_at_ms > 0);
    w.now_ms = w.wake_at_ms;
    world_pass(&w);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
    assert_non_null(world_find(&w, "Job", "digits-master"));
    world_settle(&w);
    assert_null(world_find(&w, "Job", "digits-master"));
    assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
    world_fini(&w);
}

static void a_finished_job_is_deleted_after_its_ttl(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"ttlSecondsAfterFinished\":100");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    assert_non_null(world_find(&w, "HorovodJob", "digits"));
    w.now_ms = w.wake_at_ms;
    world_settle(&w);
    assert_int_equal(cJSON_GetArraySize(w.objects), 0);
    world_fini(&w);
}

static void what_keeps_a_worker_from_being_ready_is_in_the_condition_once(void **state)
{
    static const char status[] =
        "{\"phase\":\"Pending\",\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{"
        "\"reason\":\"%s\"}}}]}";
    static const char *const reasons[] = {"ErrImagePull", "ImagePullBackOff", "ErrImagePull"};
    struct world w;
    char text[256];

    (void)state;
    world_init(&w, SHORT "}");
    w.is_kubelet_off = true;
    world_settle(&w);
    for (size_t i = 0; i < 3; i++) {
        cJSON *pod = world_find(&w, "Pod", "digits-worker-1");
        const int writes = w.n_writes;
        (void)snprintf(text, sizeof(text), status, reasons[i]);
        cJSON_ReplaceItemInObject(pod, "status", cJSON_Parse(text));
        world_pass(&w);
        assert_int_equal(w.n_writes - writes, i == 0 ? 1 : 0);
        assert_string_equal(
            world_condition_text(&w, "WorkersReady", "message"),
            "0 of 2 workers are ready; pod digits-worker-1 image x:1 cannot be pulled");
    }
    world_fini(&w);
}

static void a_lost_worker_leaves_the_list_and_the_master_is_told_twice(void **state)
{
    struct world w;
    const char *told;

    (void)state;
    world_start(&w, "");
    w.is_kubelet_off = true;
    world_remove(&w, "Pod", "digits-worker-1");
    world_pass(&w);
    assert_int_equal(hosts_lines(&w), 1);
    assert_string_equal(world_condition(&w, "WorkersReady"), "False");
    world_pass(&w);
    told = cJSON_GetStringValue(cJSON_GetObjectItem(
        hvd_json_at(world_find(&w, "Pod", "digits-master-abcde"), "metadata.annotations"),
        HVD_ANNOTATION_HOSTS));
    assert_non_null(strstr(told, "-1-"));
    assert_int_equal(world_pass(&w), 0);
    assert_int_equal(w.wake_at_ms, w.now_ms + 1000);
    w.now_ms += 1000;
    assert_true(world_pass(&w) > 0);
    told = cJSON_GetStringValue(cJSON_GetObjectItem(
        hvd_json_at(world_find(&w, "Pod", "digits-master-abcde"), "metadata.annotations"),
        HVD_ANNOTATION_HOSTS));
    assert_non_null(strstr(told, "-2-"));
    assert_int_equal(world_pass(&w), 0);
    world_is_state(&w, "Running");
    w.is_kubelet_off = false;
    world_settle(&w);
    assert_int_equal(hosts_lines(&w), 2);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_job_gets_its_children_and_runs),
        cmocka_unit_test(the_children_of_a_new_job_come_before_its_status),
        cmocka_unit_test(a_new_job_without_all_of_its_children_tells_why),
        cmocka_unit_test(a_second_pass_over_a_settled_job_plans_nothing),
        cmocka_unit_test(the_master_waits_for_every_worker_and_the_list),
        cmocka_unit_test(a_new_job_in_trouble_is_told_of_at_once),
        cmocka_unit_test(a_job_that_starts_at_once_costs_ten_writes_however_many_workers_it_has),
        cmocka_unit_test(a_job_that_starts_slowly_costs_eleven_writes),
        cmocka_unit_test(a_master_that_does_not_start_soon_is_told_of),
        cmocka_unit_test(workers_that_come_one_by_one_cost_few_writes),
        cmocka_unit_test(what_troubled_the_master_is_forgotten_when_it_is_over),
        cmocka_unit_test(success_is_final_and_removes_the_workers),
        cmocka_unit_test(clean_pod_policy_says_what_is_left),
        cmocka_unit_test(workers_that_were_removed_at_the_end_are_not_shown_as_missing),
        cmocka_unit_test(the_status_names_the_image_of_the_workers),
        cmocka_unit_test(failure_tells_exit_code_and_last_line),
        cmocka_unit_test(a_failed_attempt_is_followed_by_another_until_the_limit),
        cmocka_unit_test(a_job_failed_without_a_pod_says_why),
        cmocka_unit_test(deleted_children_are_made_again_while_the_job_runs),
        cmocka_unit_test(drift_of_owned_fields_is_repaired),
        cmocka_unit_test(suspension_leaves_no_pods_and_resumes),
        cmocka_unit_test(a_job_created_suspended_makes_nothing),
        cmocka_unit_test(a_change_made_between_suspend_and_resume_unseen_still_takes_effect),
        cmocka_unit_test(scaling_does_not_restart_an_elastic_job),
        cmocka_unit_test(a_job_managed_by_another_is_not_written_to),
        cmocka_unit_test(a_foreign_object_is_left_alone_and_retried_slowly),
        cmocka_unit_test(a_foreign_object_with_our_labels_is_left_alone),
        cmocka_unit_test(a_foreign_child_beside_a_running_master_is_told_of),
        cmocka_unit_test(a_child_that_is_denied_beside_a_running_master_is_told_of),
        cmocka_unit_test(what_a_deleted_job_of_the_same_name_left_is_waited_for),
        cmocka_unit_test(a_template_that_the_api_server_refuses_fails_the_job),
        cmocka_unit_test(a_wrong_spec_that_got_past_the_crd_fails_the_job),
        cmocka_unit_test(the_deadline_is_recorded_before_the_master_is_stopped),
        cmocka_unit_test(a_finished_job_is_deleted_after_its_ttl),
        cmocka_unit_test(what_keeps_a_worker_from_being_ready_is_in_the_condition_once),
        cmocka_unit_test(a_lost_worker_leaves_the_list_and_the_master_is_told_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
