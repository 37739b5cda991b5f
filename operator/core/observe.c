/*
 * Projections of API objects: what reconcile reads of them, copied; the rest is forgotten. What is
 * absent or has an unexpected type is left at zero. Pure.
 */
#include "operator/core/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/gang.h"
#include "operator/core/hosts.h"
#include "operator/core/packed.h"
#include "operator/core/topology.h"

#define TEXT_MAX 1024

/* The length of at most max bytes of text, cut between UTF-8 characters: what is not UTF-8 comes
 * back from the API server as something else, and would be written again and again. */
static int cut(const char *text, size_t len, size_t max)
{
    if (len > max) {
        len = max;
        while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80)
            len--;
    }
    return (int)len;
}

/* Copies at most TEXT_MAX bytes; a NULL text stays NULL. */
static bool keep_n(const char *text, size_t len, char **out)
{
    if (!text)
        return true;
    *out = hvd_strndup(text, (size_t)cut(text, len, TEXT_MAX));
    return *out != NULL;
}

static bool keep(const cJSON *object, const char *path, char **out)
{
    const char *text = hvd_json_str(object, path);

    return keep_n(text, text ? strlen(text) : 0, out);
}

static bool observe_owner(const cJSON *meta, struct hvd_meta *out)
{
    const cJSON *owner = NULL;

    cJSON_ArrayForEach(owner, hvd_json_get(meta, "ownerReferences"))
    {
        if (hvd_json_true(owner, "controller"))
            return keep(owner, "kind", &out->owner_kind) && keep(owner, "name", &out->owner_name) &&
                   keep(owner, "uid", &out->owner_uid);
    }
    return true;
}

static enum hvd_role role_of(const cJSON *labels)
{
    const char *role = cJSON_GetStringValue((cJSON *)hvd_json_get(labels, HVD_LABEL_ROLE));

    if (role && strcmp(role, "master") == 0)
        return HVD_ROLE_MASTER;
    if (role && strcmp(role, "worker") == 0)
        return HVD_ROLE_WORKER;
    return HVD_ROLE_NONE;
}

/* The job that the object belongs to: its label says, else, where that was lost, its controller. */
static bool keep_job(const char *label, struct hvd_meta *out)
{
    const char *kind = hvd_kind_info(HVD_KIND_HOROVODJOB)->kind;
    const char *job = label ? label : hvd_str_equal(out->owner_kind, kind) ? out->owner_name : NULL;

    return keep_n(job, job ? strlen(job) : 0, &out->job);
}

static bool observe_meta(const cJSON *meta, struct hvd_meta *out)
{
    const cJSON *labels = hvd_json_get(meta, "labels");
    const char *job = cJSON_GetStringValue((cJSON *)hvd_json_get(labels, HVD_LABEL_JOB));
    const char *manager = cJSON_GetStringValue((cJSON *)hvd_json_get(labels, HVD_LABEL_MANAGED_BY));

    out->role = role_of(labels);
    out->is_managed = job && manager && strcmp(manager, HVD_MANAGER) == 0;
    out->created_s = hvd_rfc3339_parse(hvd_json_str(meta, "creationTimestamp"));
    out->is_deleting = hvd_json_str(meta, "deletionTimestamp") != NULL;
    return keep(meta, "namespace", &out->namespace) && keep(meta, "name", &out->name) &&
           keep(meta, "uid", &out->uid) && keep(meta, "resourceVersion", &out->resource_version) &&
           observe_owner(meta, out) && keep_job(job, out);
}

static bool annotation(const cJSON *object, const char *key, char **out)
{
    const cJSON *item = hvd_json_get(hvd_json_at(object, "metadata.annotations"), key);
    const char *text = cJSON_GetStringValue((cJSON *)item);

    return keep_n(text, text ? strlen(text) : 0, out);
}

static bool is_text(const cJSON *object, const char *path, const char *expected)
{
    const char *text = hvd_json_str(object, path);

    return text && strcmp(text, expected) == 0;
}

static bool observe_service(const cJSON *object, struct hvd_object *out)
{
    const cJSON *selector = hvd_json_at(object, "spec.selector");

    out->u.service.is_headless = is_text(object, "spec.clusterIP", "None");
    out->u.service.publishes_not_ready = hvd_json_true(object, "spec.publishNotReadyAddresses");
    out->u.service.selects_job =
        cJSON_GetArraySize(selector) == 2 && out->meta.name &&
        hvd_str_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(selector, HVD_LABEL_MANAGED_BY)),
                      HVD_MANAGER) &&
        hvd_str_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(selector, HVD_LABEL_JOB)),
                      out->meta.name);
    return true;
}

static bool observe_statefulset(const cJSON *object, struct hvd_object *out)
{
    out->u.statefulset.replicas = hvd_json_int(object, "spec.replicas", 1);
    return annotation(object, HVD_ANNOTATION_SPEC_HASH, &out->u.statefulset.spec_hash);
}

/* The condition of that type if its status is True. */
static const cJSON *true_condition(const cJSON *object, const char *type)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "status.conditions"))
    {
        if (is_text(item, "type", type) && is_text(item, "status", "True"))
            return item;
    }
    return NULL;
}

static uint64_t workers_hash(const cJSON *object)
{
    const cJSON *item =
        hvd_json_get(hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_WORKERS_HASH);

    return cJSON_IsString(item) ? strtoull(item->valuestring, NULL, 16) : 0;
}

static bool observe_job(const cJSON *object, struct hvd_object *out)
{
    const cJSON *item =
        hvd_json_get(hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_ATTEMPT);
    const cJSON *failed = true_condition(object, "Failed");
    const int64_t range[2] = {1, INT32_MAX};
    int64_t attempt = 0;

    if (cJSON_IsString(item))
        (void)!hvd_str_parse_int64(hvd_strview_of(item->valuestring), range, &attempt, NULL);
    out->u.job.attempt = (int32_t)attempt;
    out->u.job.is_complete = true_condition(object, "Complete") != NULL;
    out->u.job.is_failed = failed != NULL;
    out->u.job.failed_s = hvd_rfc3339_parse(hvd_json_str(failed, "lastTransitionTime"));
    if (!out->u.job.is_complete && !out->u.job.is_failed)
        out->u.job.workers_hash = workers_hash(object);
    return keep(failed, "message", &out->u.job.message) &&
           annotation(object, HVD_ANNOTATION_WORKERS, &out->u.job.workers);
}

/* The last line of text that is not blank, without the white space around it. */
static struct hvd_strview last_line(const char *text)
{
    struct hvd_strview rest = hvd_strview_of(text ? text : "");
    struct hvd_strview last = {"", 0};

    while (rest.data) {
        struct hvd_strview line = hvd_strview_trim(hvd_strview_cut(&rest, '\n'));

        if (line.len > 0)
            last = line;
    }
    return last;
}

/* The whole lines at the end of text that fit into TEXT_MAX bytes; the end of the last line if even
 * that does not. */
static struct hvd_strview last_lines(const char *text)
{
    struct hvd_strview all = hvd_strview_trim(hvd_strview_of(text ? text : ""));
    const char *end = all.data + all.len;
    const char *start;

    if (all.len <= TEXT_MAX)
        return all;
    all = (struct hvd_strview){end - TEXT_MAX, TEXT_MAX};
    start = memchr(all.data - 1, '\n', all.len);
    if (start)
        start++;
    else
        for (start = all.data; start < end && ((unsigned char)*start & 0xC0) == 0x80;)
            start++;
    return (struct hvd_strview){start, (size_t)(end - start)};
}

static bool observe_terminated(const cJSON *container, const cJSON *terminated,
                               struct hvd_pod_view *out)
{
    struct hvd_strview line = last_line(hvd_json_str(terminated, "message"));
    struct hvd_strview lines = last_lines(hvd_json_str(terminated, "message"));

    out->has_failed = true;
    out->ended_s = hvd_rfc3339_parse(hvd_json_str(terminated, "finishedAt"));
    out->exit_code = (int32_t)hvd_json_int(terminated, "exitCode", 0);
    out->exit_signal = (int32_t)hvd_json_int(terminated, "signal", 0);
    return keep(container, "name", &out->container) &&
           keep(terminated, "reason", &out->container_reason) &&
           keep_n(line.data, line.len, &out->last_line) &&
           keep_n(lines.data, lines.len, &out->last_lines);
}

/* The status of the container that holds the role: the one of that name, else the first of the
 * spec; NULL while there is none. */
static const cJSON *role_status(const cJSON *object, enum hvd_role role)
{
    const char *wanted = role == HVD_ROLE_MASTER ? "master" : "worker";
    const cJSON *containers = hvd_json_at(object, "spec.containers");
    const cJSON *item = NULL;
    const char *name = NULL;

    cJSON_ArrayForEach(item, containers)
    {
        if (!name || is_text(item, "name", wanted))
            name = hvd_json_str(item, "name");
    }
    cJSON_ArrayForEach(item, hvd_json_at(object, "status.containerStatuses"))
    {
        if (is_text(item, "name", name ? name : wanted))
            return item;
    }
    return NULL;
}

static int64_t started_s(const cJSON *container)
{
    const char *running = hvd_json_str(container, "state.running.startedAt");

    return hvd_rfc3339_parse(running ? running
                                     : hvd_json_str(container, "state.terminated.startedAt"));
}

/* Why and where a pod has to go. */
static bool observe_going(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *target = true_condition(object, "DisruptionTarget");
    const char *message = hvd_json_str(target, "message");
    const char *reason = hvd_json_str(target, "reason");
    char text[TEXT_MAX];

    out->deleted_s = hvd_rfc3339_parse(hvd_json_str(object, "metadata.deletionTimestamp"));
    out->is_killed =
        out->deleted_s != 0 && hvd_json_int(object, "metadata.deletionGracePeriodSeconds", 1) == 0;
    if (!keep(object, "spec.nodeName", &out->node) ||
        !keep(object, "status.reason", &out->reason) ||
        !keep(object, "status.message", &out->message))
        return false;
    if (!target)
        return true;
    message = message ? message : "";
    (void)snprintf(text, sizeof(text), "%.128s%s%.*s", reason ? reason : "DisruptionTarget",
                   *message ? ": " : "", cut(message, strlen(message), 512), message);
    return keep_n(text, strlen(text), &out->disruption);
}

/* How the worker's own container ended last, even if the kubelet has started it again. */
static bool observe_worker(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *container = role_status(object, HVD_ROLE_WORKER);
    const cJSON *terminated = hvd_json_at(container, "state.terminated");

    out->restarts = (int32_t)hvd_json_int(container, "restartCount", 0);
    if (!terminated)
        terminated = hvd_json_at(container, "lastState.terminated");
    return !terminated || observe_terminated(container, terminated, out);
}

static bool observe_containers(const cJSON *object, struct hvd_pod_view *out)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const cJSON *container = NULL;

        cJSON_ArrayForEach(container, hvd_json_at(object, lists[i]))
        {
            const cJSON *terminated = hvd_json_at(container, "state.terminated");

            if (hvd_json_int(terminated, "exitCode", 0) != 0)
                return observe_terminated(container, terminated, out);
        }
    }
    return true;
}

#define TROUBLE_SIZE 320
#define TROUBLE_PART 250

/*
 * Writes what is wrong with a container that waits; the same text as long as it is wrong, because
 * each new one is a write (the kubelet goes to and fro between two reasons for a missing image).
 */
static bool describe_container(const cJSON *container, char out[TROUBLE_SIZE])
{
    static const char *const of_image[] = {"ImagePullBackOff", "ErrImagePull", "InvalidImageName",
                                           "ErrImageNeverPull"};
    static const char *const of_start[] = {"CreateContainerConfigError", "CreateContainerError",
                                           "RunContainerError"};
    const char *reason = hvd_json_str(container, "state.waiting.reason");
    const char *message = hvd_json_str(container, "state.waiting.message");
    const char *image = hvd_json_str(container, "image");

    message = message ? message : reason;
    image = image ? image : "";
    for (size_t i = 0; reason && i < sizeof(of_image) / sizeof(of_image[0]); i++)
        if (strcmp(reason, of_image[i]) == 0)
            return snprintf(out, TROUBLE_SIZE, "image %.*s cannot be pulled",
                            cut(image, strlen(image), TROUBLE_PART), image) > 0;
    for (size_t i = 0; reason && i < sizeof(of_start) / sizeof(of_start[0]); i++)
        if (strcmp(reason, of_start[i]) == 0)
            return snprintf(out, TROUBLE_SIZE, "container cannot start: %.*s",
                            cut(message, strlen(message), TROUBLE_PART), message) > 0;
    if (!reason || strcmp(reason, "CrashLoopBackOff") != 0)
        return false;
    reason = hvd_json_str(container, "lastState.terminated.reason");
    return snprintf(out, TROUBLE_SIZE, "container keeps ending with exit code %d%s",
                    (int)hvd_json_int(container, "lastState.terminated.exitCode", 0),
                    reason && strcmp(reason, "OOMKilled") == 0 ? ", OOMKilled" : "") > 0;
}

static bool describe_scheduling(const cJSON *object, char out[TROUBLE_SIZE])
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "status.conditions"))
    {
        const char *message = hvd_json_str(item, "message");

        if (is_text(item, "type", "PodScheduled") && is_text(item, "reason", "Unschedulable"))
            return snprintf(out, TROUBLE_SIZE, "cannot be scheduled: %.*s",
                            message ? cut(message, strlen(message), TROUBLE_PART) : 0,
                            message ? message : "") > 0;
    }
    return false;
}

static bool observe_trouble(const cJSON *object, struct hvd_pod_view *out)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};
    char text[TROUBLE_SIZE];
    bool is_found = describe_scheduling(object, text);

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !is_found; i++) {
        const cJSON *container = NULL;

        cJSON_ArrayForEach(container, hvd_json_at(object, lists[i]))
        {
            is_found = is_found || describe_container(container, text);
        }
    }
    return !is_found || keep_n(text, strlen(text), &out->trouble);
}

static bool observe_place(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *keys =
        hvd_json_get(hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_TOPOLOGY);

    return !cJSON_IsString(keys) || hvd_topology_text(hvd_json_at(object, "metadata.labels"),
                                                      keys->valuestring, &out->place) == HVD_OK;
}

static bool observe_pod(const cJSON *object, struct hvd_object *out)
{
    static const char *const phases[] = {[HVD_POD_PENDING] = "Pending",
                                         [HVD_POD_RUNNING] = "Running",
                                         [HVD_POD_SUCCEEDED] = "Succeeded",
                                         [HVD_POD_FAILED] = "Failed"};
    struct hvd_pod_view *pod = &out->u.pod;

    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        if (is_text(object, "status.phase", phases[i]))
            pod->phase = (enum hvd_pod_phase)i;
    }
    pod->is_ready = true_condition(object, "Ready") != NULL;
    if (!pod->is_ready && !observe_trouble(object, pod))
        return false;
    if (out->meta.role == HVD_ROLE_NONE)
        return true;
    if (!observe_going(object, pod))
        return false;
    pod->started_s = started_s(role_status(object, out->meta.role));
    if (out->meta.role == HVD_ROLE_WORKER)
        return keep(object, "status.podIP", &pod->ip) && observe_place(object, pod) &&
               observe_worker(object, pod);
    return annotation(object, HVD_ANNOTATION_HOSTS, &pod->hosts_seen) &&
           observe_containers(object, pod);
}

static bool observe_podgroup(const cJSON *object, struct hvd_object *out)
{
    hvd_gang_observe(hvd_json_get(object, "spec"), out->u.podgroup.fields);
    out->u.podgroup.is_pending = is_text(object, "status.phase", "Pending");
    return annotation(object, HVD_ANNOTATION_SPEC_HASH, &out->u.podgroup.spec_hash);
}

static bool observe_kind(const cJSON *object, struct hvd_object *out)
{
    switch (out->kind) {
    case HVD_KIND_SERVICE:
        return observe_service(object, out);
    case HVD_KIND_STATEFULSET:
        return observe_statefulset(object, out);
    case HVD_KIND_CONFIGMAP:
        out->u.configmap.data_hash = hvd_hosts_hash(hvd_json_get(object, "data"));
        return true;
    case HVD_KIND_JOB:
        return observe_job(object, out);
    case HVD_KIND_POD:
        return observe_pod(object, out);
    case HVD_KIND_VOLCANO_PODGROUP:
    case HVD_KIND_PLUGINS_PODGROUP:
        return observe_podgroup(object, out);
    default:
        return true;
    }
}

hvd_status_t hvd_observe(enum hvd_kind kind, const cJSON *object, struct hvd_object *out,
                         struct hvd_err *err)
{
    struct hvd_object made = {.kind = kind};
    const cJSON *meta = hvd_json_get(object, "metadata");

    if (!hvd_json_str(meta, "namespace") || !hvd_json_str(meta, "name") ||
        !hvd_json_str(meta, "uid"))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s without namespace, name or uid",
                        hvd_kind_info(kind)->kind);
    if (!observe_meta(meta, &made.meta) || !observe_kind(object, &made)) {
        hvd_object_fini(&made);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s %s", hvd_kind_info(kind)->kind,
                        hvd_json_str(meta, "name"));
    }
    *out = made;
    return HVD_OK;
}

void hvd_object_fini(struct hvd_object *object)
{
    char **texts[HVD_OBJECT_TEXTS_MAX];
    size_t n = hvd_object_texts(object, texts);

    for (size_t i = 0; i < n; i++) {
        hvd_free(*texts[i]);
        *texts[i] = NULL;
    }
}
