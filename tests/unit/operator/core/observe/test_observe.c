#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/core/observe/observe.h"

#define META(more) "\"metadata\":{\"namespace\":\"ns\",\"name\":\"digits\",\"uid\":\"u\"" more "}"
#define WORKER_LABELS                                                                              \
    ",\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":"  \
    "\"digits\",\"horovod.io/role\":\"worker\"}"
#define MASTER_LABELS                                                                              \
    ",\"labels\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":"  \
    "\"digits\",\"horovod.io/role\":\"master\"}"

static void observe(enum hvd_kind kind, const char *text, struct hvd_object *out)
{
    cJSON *object = NULL;

    assert_int_equal(hvd_object_read(kind, hvd_strview_of(text), &object), HVD_OK);
    assert_int_equal(hvd_observe(kind, object, out, NULL), HVD_OK);
    hvd_json_drop(object);
}

static void metadata_tells_whose_child_it_is(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(HVD_KIND_SECRET,
            "{" META(",\"resourceVersion\":\"9\",\"deletionTimestamp\":\"2023-11-14T22:13:20Z\","
                     "\"finalizers\":[\"example.com/a\",7,\"orphan\"],"
                     "\"creationTimestamp\":\"2023-11-14T22:13:20Z\",\"ownerReferences\":[{\"uid\":"
                     "\"x\"},{\"uid\":\"y\",\"kind\":\"HorovodJob\",\"name\":\"digits\","
                     "\"controller\":true}]" MASTER_LABELS) ",\"data\":{\"id\":\"c2VjcmV0\"}}",
            &out);
    assert_string_equal(out.meta.owner_uid, "y");
    assert_string_equal(out.meta.owner_kind, "HorovodJob");
    assert_string_equal(out.meta.job, "digits");
    assert_int_equal(out.meta.role, HVD_ROLE_MASTER);
    assert_int_equal(out.meta.created_s, 1700000000);
    assert_true(out.meta.is_deleting);
    assert_int_equal(out.meta.deletion_s, 1700000000);
    assert_string_equal(out.meta.finalizers, "example.com/a, orphan");
    assert_true(out.meta.is_in_sight);
    assert_int_equal(out.meta.lost_labels, 0);
    hvd_observe_object_fini(&out);
}

static void an_object_without_uid_is_refused(void **state)
{
    cJSON *object = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"}}");
    struct hvd_object out = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_observe(HVD_KIND_POD, object, &out, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg, "Pod without namespace, name or uid");
    assert_int_equal(hvd_observe(HVD_KIND_POD, NULL, &out, NULL), HVD_ERR_INVALID);
    cJSON_Delete(object);
}

static void a_job_shows_its_attempt_and_its_end(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(
        HVD_KIND_JOB,
        "{" META(
            ",\"annotations\":{\"horovod.io/attempt\":\"3\"}") ",\"status\":{\"conditions\":[{"
                                                               "\"type\":\"FailureTarget\","
                                                               "\"status\":\"True\"},{"
                                                               "\"type\":\"Failed\",\"status\":"
                                                               "\"True\",\"lastTransitionTime\":"
                                                               "\"2023-11-14T22:13:20Z\","
                                                               "\"message\":\"why\"},{\"type\":"
                                                               "\"Complete\",\"status\":\"False\"}]"
                                                               "}}",
        &out);
    assert_int_equal(out.u.job.attempt, 3);
    assert_true(out.u.job.is_failed);
    assert_false(out.u.job.is_complete);
    assert_int_equal(out.u.job.failed_s, 1700000000);
    assert_string_equal(out.u.job.message, "why");
    hvd_observe_object_fini(&out);
}

static void a_service_is_judged_by_its_selector(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(HVD_KIND_SERVICE,
            "{" META("") ",\"spec\":{\"clusterIP\":\"None\",\"publishNotReadyAddresses\":true,"
                         "\"selector\":{\"app.kubernetes.io/managed-by\":\"horovod-operator\","
                         "\"horovod.io/job-name\":\"digits\"}}}",
            &out);
    assert_true(out.u.service.is_headless && out.u.service.publishes_not_ready &&
                out.u.service.selects_job);
    hvd_observe_object_fini(&out);
    observe(HVD_KIND_SERVICE,
            "{" META("") ",\"spec\":{\"clusterIP\":\"10.0.0.1\",\"selector\":{"
                         "\"horovod.io/job-name\":\"digits\"}}}",
            &out);
    assert_false(out.u.service.is_headless || out.u.service.selects_job);
    hvd_observe_object_fini(&out);
}

static const char failed_pod[] =
    "{" META(MASTER_LABELS) ",\"status\":{\"phase\":\"Failed\",\"conditions\":[{\"type\":\"Ready\","
                            "\"status\":\"False\"}],\"initContainerStatuses\":[{\"name\":\"init\","
                            "\"state\":{\"terminated\":{\"exitCode\":0}}}],\"containerStatuses\":[{"
                            "\"name\":\"side\",\"state\":{\"running\":{}}},{\"name\":\"master\","
                            "\"state\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\","
                            "\"message\":\"one\\n  last words \\n \\n\"}}}]}}";

static void a_failed_pod_shows_the_container_that_failed_and_its_last_line(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(HVD_KIND_POD, failed_pod, &out);
    assert_int_equal(out.u.pod.phase, HVD_POD_FAILED);
    assert_false(out.u.pod.is_ready);
    assert_true(out.u.pod.has_failed);
    assert_string_equal(out.u.pod.container, "master");
    assert_string_equal(out.u.pod.container_reason, "OOMKilled");
    assert_string_equal(out.u.pod.last_line, "last words");
    assert_int_equal(out.u.pod.exit_code, 137);
    hvd_observe_object_fini(&out);
}

/* A pod with a limit for each of its containers, of which NAME was killed. */
#define LIMITED(role, list, name, state)                                                           \
    "{" META(role) ",\"spec\":{\"initContainers\":[{\"name\":\"init\",\"resources\":{\"limits\":"  \
                   "{\"memory\":\"8Mi\"}}}],\"containers\":[{\"name\":\"side\",\"resources\":{"    \
                   "\"limits\":{\"memory\":\"1Gi\"}}},{\"name\":\"master\",\"resources\":{"        \
                   "\"limits\":{\"cpu\":\"1\"}}},{\"name\":\"worker\",\"resources\":{\"limits\":{" \
                   "\"memory\":\"16Mi\"}}}]},\"status\":{\"phase\":\"Running\",\"" list            \
                   "\":[{\"name\":\"" name "\",\"restartCount\":3,\"" state                        \
                   "\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\"}}}]}}"

static void a_container_that_was_killed_for_memory_shows_its_limit(void **state)
{
    static const struct {
        const char *pod, *limit, *trouble;
    } rows[] = {
        {LIMITED(WORKER_LABELS, "containerStatuses", "worker", "lastState"), "16Mi",
         "container keeps ending with exit code 137, OOMKilled (limit 16Mi)"},
        {LIMITED(MASTER_LABELS, "initContainerStatuses", "init", "state"), "8Mi", NULL},
        {LIMITED(MASTER_LABELS, "containerStatuses", "side", "state"), "1Gi", NULL},
        {LIMITED(MASTER_LABELS, "containerStatuses", "master", "lastState"), NULL,
         "container keeps ending with exit code 137, OOMKilled"},
        {LIMITED(MASTER_LABELS, "containerStatuses", "master", "state"), NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_object out = {0};

        observe(HVD_KIND_POD, rows[i].pod, &out);
        if (rows[i].limit)
            assert_string_equal(out.u.pod.memory_limit, rows[i].limit);
        else
            assert_null(out.u.pod.memory_limit);
        if (rows[i].trouble)
            assert_string_equal(out.u.pod.trouble, rows[i].trouble);
        hvd_observe_object_fini(&out);
    }
}

/* What is wrong stands at the end of an error's text. */
/* Names that find no room are not taken for containers that another writer has added. */
static void a_master_that_has_ended_shows_which_containers_have_not(void **state)
{
    struct hvd_object out = {0};
    char text[16384] = "{" META(MASTER_LABELS) ",\"status\":{\"phase\":\"Running\","
                                               "\"containerStatuses\":[{\"name\":\"master\","
                                               "\"state\":{\"terminated\":{\"exitCode\":0}}}";
    size_t len = strlen(text);

    (void)state;
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                ",{\"name\":\"side-%d\",\"state\":{\"running\":{}}}", i);
    (void)snprintf(text + len, sizeof(text) - len, "]}}");
    observe(HVD_KIND_POD, text, &out);
    assert_memory_equal(out.u.pod.left, "side-0, side-1, ", 16);
    assert_string_equal(out.u.pod.left + strlen(out.u.pod.left) - 5, ", ...");
    assert_false(out.u.pod.has_failed);
    hvd_observe_object_fini(&out);
}

static void of_long_words_about_an_image_the_end_is_kept(void **state)
{
    struct hvd_object out = {0};
    char message[700], text[1400];

    (void)state;
    memset(message, 'a', sizeof(message));
    for (size_t i = 0; i < 600; i += 2)
        memcpy(message + i, "\xC3\xA9", 2);
    (void)snprintf(message + 600, sizeof(message) - 600, "!: unauthorized");
    (void)snprintf(text, sizeof(text),
                   "{" META("") ",\"status\":{\"containerStatuses\":[{\"image\":\"x\",\"state\":{"
                                "\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"%s\"}}}]}}",
                   message);
    observe(HVD_KIND_POD, text, &out);
    assert_non_null(strstr(out.u.pod.trouble, "cannot be pulled: ...\xC3\xA9"));
    assert_non_null(strstr(out.u.pod.trouble, "\xC3\xA9!: unauthorized"));
    hvd_observe_object_fini(&out);
}

static void a_pod_tells_what_keeps_it_from_being_ready(void **state)
{
    static const struct {
        const char *status;
        const char *trouble; /* NULL: none */
    } pods[] = {
        {"\"phase\":\"Pending\"", NULL},
        {"\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
         "\"Unschedulable\",\"message\":\"0/1 nodes are available: 1 Insufficient cpu.\"}]",
         "cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."},
        {"\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":"
         "\"ErrImagePull\",\"message\":\"rpc error: code = NotFound desc = x:1: not found\"}}}]",
         "image x:1 cannot be pulled: x:1: not found"},
        {"\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":"
         "\"ImagePullBackOff\",\"message\":\"Back-off pulling image \\\"x:1\\\"\"}}}]",
         "image x:1 cannot be pulled"},
        {"\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":"
         "\"ImagePullBackOff\",\"message\":\"Back-off pulling image \\\"x:1\\\": ErrImagePull: rpc "
         "error: code = NotFound desc = x:1: not found\"}}}]",
         "image x:1 cannot be pulled: x:1: not found"},
        {"\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":"
         "\"ErrImagePull\"}}}]",
         "image x:1 cannot be pulled"},
        {"\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":"
         "\"SignatureValidationFailed\",\"message\":\"image pull failed: no signature\"}}}]",
         "image x:1 cannot be pulled: image pull failed: no signature"},
        {"\"containerStatuses\":[{\"image\":\"x:1\",\"state\":{\"waiting\":{\"reason\":"
         "\"ErrImageNeverPull\",\"message\":\"Container image \\\"x:1\\\" is not present with pull "
         "policy of Never\"}}}]",
         "image x:1 cannot be pulled: Container image \"x:1\" is not present with pull policy of "
         "Never"},
        {"\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
         "\"Unschedulable\",\"message\":\"persistentvolumeclaim \\\"data\\\" not found\"}]",
         "cannot be scheduled: persistentvolumeclaim \"data\" not found"},
        {"\"initContainerStatuses\":[{\"name\":\"fetch\",\"state\":{\"waiting\":{\"reason\":"
         "\"CreateContainerConfigError\",\"message\":\"secret \\\"s\\\" not found\"}}}]",
         "init container fetch cannot start: secret \"s\" not found"},
        {"\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":"
         "\"CreateContainerConfigError\",\"message\":\"configmap \\\"c\\\" not found\"}}}]",
         "container cannot start: configmap \"c\" not found"},
        {"\"initContainerStatuses\":[{\"name\":\"fetch\",\"restartCount\":3,\"ready\":false,"
         "\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},\"lastState\":{\"terminated\":"
         "{\"exitCode\":6,\"message\":\"one\\ncurl: no such host\\n\"}}}]",
         "init container fetch keeps ending with exit code 6: curl: no such host"},
        /* It is tried once more. */
        {"\"initContainerStatuses\":[{\"name\":\"fetch\",\"restartCount\":3,\"ready\":false,"
         "\"state\":{\"running\":{}},\"lastState\":{\"terminated\":"
         "{\"exitCode\":6,\"message\":\"one\\ncurl: no such host\\n\"}}}]",
         "init container fetch keeps ending with exit code 6: curl: no such host"},
        /* Another one's end is told by its name; ephemeral containers hold nothing up. */
        {"\"containerStatuses\":[{\"name\":\"worker\",\"state\":{\"running\":{}}},{\"name\":"
         "\"proxy\","
         "\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},\"lastState\":{\"terminated\":"
         "{\"exitCode\":1}}}]",
         "container proxy keeps ending with exit code 1"},
        {"\"ephemeralContainerStatuses\":[{\"name\":\"debug\",\"state\":{\"waiting\":{\"reason\":"
         "\"ErrImagePull\"}}}]",
         NULL},
        {"\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},"
         "\"lastState\":{\"terminated\":{\"exitCode\":255}}}]",
         "container keeps ending with exit code 255"},
        {"\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":\"ContainerCreating\"}}}]",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        struct hvd_object out = {0};
        char text[1024];
        (void)snprintf(text, sizeof(text), "{" META("") ",\"status\":{%s}}", pods[i].status);
        observe(HVD_KIND_POD, text, &out);
        assert_true(hvd_str_equal(out.u.pod.trouble, pods[i].trouble));
        hvd_observe_object_fini(&out);
    }
}

#define SPEC                                                                                       \
    ",\"spec\":{\"nodeName\":\"n\",\"initContainers\":[{\"name\":\"side\",\"restartPolicy\":"      \
    "\"Always\"},{\"name\":\"fetch\"}]}"
#define SCHEDULED                                                                                  \
    "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastTransitionTime\":"       \
    "\"2024-01-01T00:00:10Z\"}]"
#define RUNS(name, second, more)                                                                   \
    "{\"name\":\"" name "\",\"state\":{\"running\":{\"startedAt\":\"2024-01-01T00:00:" second      \
    "Z\"}}" more "}"
#define CREATED "{\"name\":\"worker\",\"state\":{\"waiting\":{\"reason\":\"PodInitializing\"}}}"

static void a_pod_shows_how_far_it_has_come(void **state)
{
    static const struct {
        const char *status;
        enum hvd_pod_stage stage;
        int second; /* since when */
        const char *container;
    } rows[] = {
        {"\"phase\":\"Pending\"," SCHEDULED, HVD_STAGE_START, 10, NULL},
        {"\"phase\":\"Pending\"," SCHEDULED ",\"containerStatuses\":[" CREATED "]", HVD_STAGE_START,
         10, NULL},
        {"\"phase\":\"Pending\"," SCHEDULED ",\"containerStatuses\":[" CREATED
         "],\"initContainerStatuses\":[" RUNS("fetch", "20", "") "]",
         HVD_STAGE_INIT, 20, "fetch"},
        /* A sidecar holds nobody up once it has started. */
        {"\"phase\":\"Pending\"," SCHEDULED ",\"containerStatuses\":[" CREATED
         "],\"initContainerStatuses\":[" RUNS("side", "20", ",\"started\":true") "]",
         HVD_STAGE_START, 10, NULL},
        {"\"phase\":\"Pending\"," SCHEDULED ",\"containerStatuses\":[" CREATED
         "],\"initContainerStatuses\":[" RUNS("side", "20", ",\"started\":false") "]",
         HVD_STAGE_SIDECAR, 20, "side"},
        /* Since the last init container ended. */
        {"\"phase\":\"Pending\"," SCHEDULED ",\"containerStatuses\":[" CREATED
         "],\"initContainerStatuses\":[{\"name\":\"fetch\",\"state\":{\"terminated\":{\"exitCode\":"
         "0,"
         "\"finishedAt\":\"2024-01-01T00:00:40Z\"}}}]",
         HVD_STAGE_START, 40, NULL},
        {"\"phase\":\"Running\"," SCHEDULED
         ",\"containerStatuses\":[" RUNS("worker", "30", ",\"ready\":false") "]",
         HVD_STAGE_READY, 30, "worker"},
        {"\"phase\":\"Running\"," SCHEDULED ",\"containerStatuses\":[" RUNS(
             "worker", "30", ",\"ready\":true") "," RUNS("proxy", "35", ",\"ready\":false") "]",
         HVD_STAGE_READY, 35, "proxy"},
        {"\"phase\":\"Succeeded\"," SCHEDULED, HVD_STAGE_NONE, 0, NULL},
        {"\"phase\":\"Pending\"," SCHEDULED
         ",\"containerStatuses\":[{\"name\":\"worker\",\"state\":{"
         "\"waiting\":{\"reason\":\"ErrImagePull\"}}}]",
         HVD_STAGE_NONE, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_object out = {0};
        char text[1024];

        (void)snprintf(text, sizeof(text), "{" META("") SPEC ",\"status\":{%s}}", rows[i].status);
        observe(HVD_KIND_POD, text, &out);
        assert_int_equal(out.u.pod.stage, rows[i].stage);
        assert_true(hvd_str_equal(out.u.pod.stage_container, rows[i].container));
        assert_int_equal(out.u.pod.stage_s, rows[i].stage ? 1704067200 + rows[i].second : 0);
        hvd_observe_object_fini(&out);
    }
}

static void a_last_line_is_at_most_a_kibibyte(void **state)
{
    cJSON *object = cJSON_Parse(failed_pod);
    struct hvd_object out = {0};
    char line[3001];
    cJSON *last = cJSON_GetArrayItem((cJSON *)hvd_json_at(object, "status.containerStatuses"), 1);

    (void)state;
    memset(line, 'y', sizeof(line) - 1);
    line[3000] = '\0';
    cJSON_ReplaceItemInObject((cJSON *)hvd_json_at(last, "state.terminated"), "message",
                              cJSON_CreateString(line));
    assert_int_equal(hvd_observe(HVD_KIND_POD, object, &out, NULL), HVD_OK);
    assert_int_equal(strlen(out.u.pod.last_line), 1024);
    hvd_observe_object_fini(&out);
    cJSON_Delete(object);
}

static void a_list_is_told_apart_by_its_four_files(void **state)
{
    struct hvd_object one = {0}, same = {0}, other = {0};

    (void)state;
    observe(
        HVD_KIND_CONFIGMAP,
        "{" META("") ",\"data\":{\"hostfile\":\"a\",\"hosts\":\"b\",\"discover_hosts.sh\":\"c\","
                     "\"ssh_config\":\"d\"}}",
        &one);
    observe(
        HVD_KIND_CONFIGMAP,
        "{" META("") ",\"data\":{\"ssh_config\":\"d\",\"discover_hosts.sh\":\"c\",\"mine\":\"x\","
                     "\"hosts\":\"b\",\"hostfile\":\"a\"}}",
        &same);
    observe(HVD_KIND_CONFIGMAP, "{" META("") ",\"data\":{\"hostfile\":\"a\"}}", &other);
    assert_true(one.u.configmap.data_hash == same.u.configmap.data_hash);
    assert_true(other.u.configmap.data_hash == 0);
    hvd_observe_object_fini(&one);
    hvd_observe_object_fini(&same);
    hvd_observe_object_fini(&other);
}

static void try_observe(const cJSON *object)
{
    struct hvd_object out = {0};
    hvd_status_t st = hvd_observe(HVD_KIND_POD, object, &out, NULL);

    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    hvd_observe_object_fini(&out);
}

static void a_worker_shows_how_its_container_ended_though_it_runs_again(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(HVD_KIND_POD,
            "{" META(WORKER_LABELS) ",\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":"
                                    "\"side\"},{\"name\":\"worker\"}]},\"status\":{\"phase\":"
                                    "\"Running\",\"containerStatuses\":[{\"name\":\"side\","
                                    "\"state\":{\"terminated\":{\"exitCode\":9}}},{\"name\":"
                                    "\"worker\",\"state\":{\"running\":{\"startedAt\":"
                                    "\"2023-11-14T22:13:21Z\"}},\"lastState\":{\"terminated\":{"
                                    "\"exitCode\":137,\"reason\":\"OOMKilled\",\"finishedAt\":"
                                    "\"2023-11-14T22:13:20Z\"}}}]}}",
            &out);
    assert_true(out.u.pod.has_failed);
    assert_int_equal(out.u.pod.exit_code, 137);
    assert_string_equal(out.u.pod.container, "worker");
    assert_string_equal(out.u.pod.container_reason, "OOMKilled");
    assert_string_equal(out.u.pod.node, "n1");
    assert_int_equal(out.u.pod.ended_s, 1700000000);
    assert_int_equal(out.u.pod.started_s, 1700000001);
    assert_int_equal(out.u.pod.deleted_s, 0);
    hvd_observe_object_fini(&out);
}

static const char going_pod[] =
    "{" META(WORKER_LABELS ",\"deletionTimestamp\":\"2023-11-14T22:13:20Z\","
                           "\"deletionGracePeriodSeconds\":30") ",\"status\":{\"phase\":"
                                                                "\"Failed\",\"reason\":"
                                                                "\"Evicted\",\"message\":"
                                                                "\"no memory\","
                                                                "\"conditions\":[{\"type\":"
                                                                "\"DisruptionTarget\","
                                                                "\"status\":\"True\","
                                                                "\"reason\":\"Preemption\","
                                                                "\"message\":\"by x\"}]}}";

static void a_pod_that_has_to_go_shows_why_and_when(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(HVD_KIND_POD, going_pod, &out);
    assert_string_equal(out.u.pod.disruption, "Preemption: by x");
    assert_string_equal(out.u.pod.reason, "Evicted");
    assert_string_equal(out.u.pod.message, "no memory");
    assert_int_equal(out.u.pod.deleted_s, 1700000000);
    assert_false(out.u.pod.is_killed);
    hvd_observe_object_fini(&out);
}

/* A grace period without an end is what the kubelet keeps to; 30 s would kill the pod. */
static void a_grace_period_of_any_length_counts(void **state)
{
    static const struct {
        const char *text;
        int64_t grace_s;
    } table[] = {{"0", 0},
                 {"45", 45},
                 {"1000000000000000", 100 * INT64_C(366) * 86400},
                 {"9007199254740993", 100 * INT64_C(366) * 86400},
                 {"9223372036854775807", 100 * INT64_C(366) * 86400}};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct hvd_object out = {0};
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "{" META(WORKER_LABELS ",\"deletionTimestamp\":\"2023-11-14T22:13:20Z\","
                                              "\"deletionGracePeriodSeconds\":%s") "}",
                       table[i].text);
        observe(HVD_KIND_POD, text, &out);
        assert_int_equal(out.u.pod.grace_s, table[i].grace_s);
        hvd_observe_object_fini(&out);
    }
}

static void every_allocation_may_fail(void **state)
{
    static const char *const pods[] = {failed_pod, going_pod};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cJSON *object = cJSON_Parse(pods[i]);

        HVD_MEM_TORTURE(try_observe(object));
        cJSON_Delete(object);
    }
}

static void the_last_lines_of_a_long_message_are_whole(void **state)
{
    struct hvd_object out = {0};
    char text[4096], lines[2048] = "";

    (void)state;
    for (int i = 0; i < 60; i++)
        (void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines),
                       "line %d of the log, it is so\\n", i);
    (void)snprintf(
        text, sizeof(text),
        "{" META(MASTER_LABELS) ",\"status\":{\"phase\":\"Failed\",\"containerStatuses\":"
                                "[{\"name\":\"master\",\"state\":{\"terminated\":{"
                                "\"exitCode\":1,\"message\":\"%s\"}}}]}}",
        lines);
    observe(HVD_KIND_POD, text, &out);
    assert_true(strlen(out.u.pod.last_lines) <= 1024);
    assert_true(strlen(out.u.pod.last_lines) > 980);
    assert_memory_equal(out.u.pod.last_lines, "line ", 5);
    assert_string_equal(out.u.pod.last_lines + strlen(out.u.pod.last_lines) - 29,
                        "\nline 59 of the log, it is so");
    hvd_observe_object_fini(&out);
}

/* What the master's pod shows of that termination message (JSON). */
static void observe_message(const char *message, struct hvd_object *out)
{
    char text[8192];

    (void)snprintf(
        text, sizeof(text),
        "{" META(MASTER_LABELS) ",\"status\":{\"phase\":\"Failed\",\"containerStatuses\":"
                                "[{\"name\":\"master\",\"state\":{\"terminated\":{"
                                "\"exitCode\":1,\"message\":\"%s\"}}}]}}",
        message);
    observe(HVD_KIND_POD, text, out);
}

static void the_last_line_names_the_cause_and_banners_are_left_out(void **state)
{
    static const char ruler[] = "--------------------------------------------------";
    static const struct {
        const char *message, *line, *lines;
    } cases[] = {
        {"Traceback (most recent call last):\\n  File \\\"x\\\"\\nKeyError: 'a'\\nhorovodrun: rank "
         "1 on "
         "host w raised KeyError: 'a'\\n",
         "horovodrun: rank 1 on host w raised KeyError: 'a'",
         "Traceback (most recent call last):\n  File \"x\"\nKeyError: 'a'\nhorovodrun: rank 1 on "
         "host w "
         "raised KeyError: 'a'"},
        {"%1$s\\nPrimary job  terminated normally, but 1 process returned\\n%1$s\\nno "
         "data\\n\\n%1$s"
         "\\n  Exit code:    1\\n%1$s\\n",
         "no data", "no data"},
        {"%1$s\\n\\n%1$s\\n", "", ""},
        {"", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_object out = {0};
        const char *rest = cases[i].message;
        struct hvd_buf message;

        hvd_buf_init(&message, 4096);
        for (const char *at = strstr(rest, "%1$s"); at; at = strstr(rest, "%1$s")) {
            assert_int_equal(hvd_buf_add(&message, rest, (size_t)(at - rest)), HVD_OK);
            assert_int_equal(hvd_buf_puts(&message, ruler), HVD_OK);
            rest = at + 4;
        }
        assert_int_equal(hvd_buf_puts(&message, rest), HVD_OK);
        observe_message(message.data ? message.data : "", &out);
        hvd_buf_fini(&message);
        assert_string_equal(out.u.pod.last_line, cases[i].line);
        assert_string_equal(out.u.pod.last_lines, cases[i].lines);
        hvd_observe_object_fini(&out);
    }
}

/* The object with 8 MB, as many as the API server writes of 1.4 MB of '<', between the two texts.
 */
static void observe_large(enum hvd_kind kind, const char *before, const char *behind,
                          struct hvd_object *out)
{
    static char large[8400001], text[8500000];

    for (size_t i = 0; i + 6 < sizeof(large); i += 6)
        memcpy(large + i, "\\u003c", 6);
    (void)snprintf(text, sizeof(text), "%s%s%s", before, large, behind);
    observe(kind, text, out);
}

static void large_texts_of_a_status_hide_nothing_else_of_it(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe_large(HVD_KIND_POD,
                  "{" META(MASTER_LABELS) ",\"status\":{\"phase\":\"Failed\",\"containerStatuses\":"
                                          "[{\"name\":\"master\",\"state\":{\"terminated\":{"
                                          "\"exitCode\":3,\"message\":\"",
                  "\\nlast\","
                  "\"reason\":\"OOMKilled\"}}}],\"podIP\":\"10.0.0.1\"}}",
                  &out);
    assert_true(out.u.pod.has_failed);
    assert_int_equal(out.u.pod.exit_code, 3);
    assert_string_equal(out.u.pod.container_reason, "OOMKilled");
    assert_string_equal(out.u.pod.last_line, "last");
    assert_string_equal(out.u.pod.last_lines, "last");
    hvd_observe_object_fini(&out);
    observe_large(HVD_KIND_POD,
                  "{" META(MASTER_LABELS) ",\"status\":{\"conditions\":[{\"type\":\"Ready\","
                                          "\"message\":\"",
                  "\",\"status\":\"True\"}]}}", &out);
    assert_true(out.u.pod.is_ready);
    hvd_observe_object_fini(&out);
    observe_large(HVD_KIND_JOB,
                  "{" META(MASTER_LABELS) ",\"status\":{\"conditions\":[{\"type\":\"Failed\","
                                          "\"status\":\"True\",\"message\":\"",
                  "\"}]}}", &out);
    assert_true(out.u.job.is_failed);
    hvd_observe_object_fini(&out);
}

static void a_last_line_without_an_end_leaves_a_kibibyte(void **state)
{
    struct hvd_object out = {0};
    char text[3000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "first\\n", 7);
    text[sizeof(text) - 1] = '\0';
    observe_message(text, &out);
    assert_int_equal(strlen(out.u.pod.last_lines), 1024);
    assert_int_equal(strspn(out.u.pod.last_lines, "x"), 1024);
    hvd_observe_object_fini(&out);
}

static void no_text_of_an_object_ends_at_the_character_nul(void **state)
{
    struct hvd_object out = {0};

    (void)state;
    observe(
        HVD_KIND_POD,
        "{" META(MASTER_LABELS) ",\"status\":{\"phase\":\"Failed\",\"reason\":\"Ev\\u0000icted\","
                                "\"containerStatuses\":[{\"name\":\"master\",\"state\":{"
                                "\"terminated\":{\"exitCode\":1,\"message\":"
                                "\"one\\ntwo\\u0000three\"}}}]}}",
        &out);
    assert_string_equal(out.u.pod.reason, "Ev\xEF\xBF\xBDicted");
    assert_string_equal(out.u.pod.last_line, "two\xEF\xBF\xBDthree");
    assert_string_equal(out.u.pod.last_lines, "one\ntwo\xEF\xBF\xBDthree");
    hvd_observe_object_fini(&out);
}

static void texts_are_cut_between_characters(void **state)
{
    struct hvd_object out = {0};
    char text[2048], image[600] = "";

    (void)state;
    for (int i = 0; i < 130; i++)
        (void)snprintf(image + strlen(image), sizeof(image) - strlen(image), "\xE2\x82\xAC");
    (void)snprintf(text, sizeof(text),
                   "{" META(WORKER_LABELS) ",\"status\":{\"phase\":\"Pending\","
                                           "\"containerStatuses\":[{\"image\":\"%s\",\"state\":{"
                                           "\"waiting\":{\"reason\":\"ErrImagePull\"}}}]}}",
                   image);
    observe(HVD_KIND_POD, text, &out);
    assert_non_null(strstr(out.u.pod.trouble, "\xE2\x82\xAC cannot be pulled"));
    hvd_observe_object_fini(&out);
}

static void a_child_without_labels_belongs_to_the_job_that_controls_it(void **state)
{
    static const char *const texts[] = {
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j-master\",\"uid\":\"u\","
        "\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\",\"uid\":\"o\","
        "\"controller\":true}]}}",
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j-master\",\"uid\":\"u\",\"labels\":{"
        "\"app.kubernetes.io/managed-by\":\"horovod-operator\"},"
        "\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\",\"uid\":\"o\","
        "\"controller\":true}]}}",
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j-master\",\"uid\":\"u\","
        "\"ownerReferences\":[{\"kind\":\"CronJob\",\"name\":\"j\",\"uid\":\"o\","
        "\"controller\":true}]}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cJSON *doc = cJSON_Parse(texts[i]);
        struct hvd_object object = {0};
        assert_int_equal(hvd_observe(HVD_KIND_JOB, doc, &object, NULL), HVD_OK);
        if (i < 2)
            assert_string_equal(object.meta.job, "j");
        else
            assert_null(object.meta.job);
        assert_false(object.meta.is_in_sight);
        assert_true(object.meta.lost_labels & HVD_LOST_JOB); /* so its labels are put back */
        hvd_observe_object_fini(&object);
        cJSON_Delete(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_tells_whose_child_it_is),
        cmocka_unit_test(an_object_without_uid_is_refused),
        cmocka_unit_test(a_job_shows_its_attempt_and_its_end),
        cmocka_unit_test(a_service_is_judged_by_its_selector),
        cmocka_unit_test(a_failed_pod_shows_the_container_that_failed_and_its_last_line),
        cmocka_unit_test(a_container_that_was_killed_for_memory_shows_its_limit),
        cmocka_unit_test(a_pod_tells_what_keeps_it_from_being_ready),
        cmocka_unit_test(a_pod_shows_how_far_it_has_come),
        cmocka_unit_test(a_master_that_has_ended_shows_which_containers_have_not),
        cmocka_unit_test(of_long_words_about_an_image_the_end_is_kept),
        cmocka_unit_test(a_last_line_is_at_most_a_kibibyte),
        cmocka_unit_test(a_list_is_told_apart_by_its_four_files),
        cmocka_unit_test(a_grace_period_of_any_length_counts),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_worker_shows_how_its_container_ended_though_it_runs_again),
        cmocka_unit_test(a_pod_that_has_to_go_shows_why_and_when),
        cmocka_unit_test(the_last_lines_of_a_long_message_are_whole),
        cmocka_unit_test(the_last_line_names_the_cause_and_banners_are_left_out),
        cmocka_unit_test(large_texts_of_a_status_hide_nothing_else_of_it),
        cmocka_unit_test(a_last_line_without_an_end_leaves_a_kibibyte),
        cmocka_unit_test(no_text_of_an_object_ends_at_the_character_nul),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(a_child_without_labels_belongs_to_the_job_that_controls_it),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
