/*
 * Projects a pod: its stage, what keeps it from being Ready, how its containers ended and why it
 * has to go. The texts stay constant while their causes do, because each change is a write. Pure.
 */
#include <stdio.h>
#include <string.h>

#include "base/cause.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/observe/observe_internal.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/topology.h"

#define LIMIT_SIZE 48

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

/* The line that names the cause: horovodrun's own last line if there is one, which also has the
 * rank. */
static struct hvd_strview cause(const char *text)
{
    static const char launcher[] = "horovodrun: ";
    struct hvd_strview last = last_line(text);

    if (last.len >= sizeof(launcher) - 1 && memcmp(last.data, launcher, sizeof(launcher) - 1) == 0)
        return last;
    return hvd_cause_line(hvd_strview_of(text ? text : ""));
}

/*
 * Copies the whole lines at the end of text that fit, without mpirun's banner about failures. Of a
 * longer last line it copies the end. Returns the number of bytes.
 */
static size_t last_lines(const char *text, char out[HVD_OBSERVE_TEXT_MAX])
{
    struct hvd_strview rest = hvd_strview_trim(hvd_strview_of(text ? text : ""));
    size_t free_bytes = HVD_OBSERVE_TEXT_MAX;

    while (rest.len > 0) {
        const char *before = memrchr(rest.data, '\n', rest.len);
        const char *start = before ? before + 1 : rest.data;
        struct hvd_strview line = {start, (size_t)(rest.data + rest.len - start)};
        bool is_last = free_bytes == HVD_OBSERVE_TEXT_MAX;

        rest.len = before ? (size_t)(before - rest.data) : 0;
        if (hvd_cause_is_banner(line))
            continue;
        if (is_last && line.len > free_bytes) {
            line = (struct hvd_strview){line.data + line.len - free_bytes, free_bytes};
            while (line.len > 0 && ((unsigned char)line.data[0] & 0xC0) == 0x80)
                line = (struct hvd_strview){line.data + 1, line.len - 1};
        }
        if (line.len + !is_last > free_bytes)
            break;
        if (!is_last)
            out[--free_bytes] = '\n';
        free_bytes -= line.len;
        memcpy(out + free_bytes, line.data, line.len);
    }
    while (free_bytes < HVD_OBSERVE_TEXT_MAX && out[free_bytes] == '\n')
        free_bytes++;
    memmove(out, out + free_bytes, HVD_OBSERVE_TEXT_MAX - free_bytes);
    return HVD_OBSERVE_TEXT_MAX - free_bytes;
}

/* The memory limit of the container of that name in the pod's spec; NULL: it has none. */
static const char *memory_limit(const cJSON *object, const char *name)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};

    for (size_t i = 0; name && i < sizeof(lists) / sizeof(lists[0]); i++) {
        const cJSON *item = NULL;

        cJSON_ArrayForEach(item, hvd_json_at(object, lists[i]))
        {
            if (hvd_observe_is(item, "name", name))
                return hvd_json_str(item, "resources.limits.memory");
        }
    }
    return NULL;
}

/* Describes the memory limit of a container of the pod that was killed for it; "" else. */
static const char *describe_limit(const cJSON *object, const cJSON *container, const char *reason,
                                  char out[LIMIT_SIZE])
{
    const char *limit = memory_limit(object, hvd_json_str(container, "name"));

    out[0] = '\0';
    if (limit && hvd_str_equal(reason, "OOMKilled"))
        (void)snprintf(out, LIMIT_SIZE, " (limit %.32s)", limit);
    return out;
}

static bool observe_terminated(const cJSON *object, const cJSON *container, const cJSON *terminated,
                               struct hvd_pod_view *out)
{
    const bool is_oom = hvd_observe_is(terminated, "reason", "OOMKilled");
    const char *limit = is_oom ? memory_limit(object, hvd_json_str(container, "name")) : NULL;
    struct hvd_strview line = cause(hvd_json_str(terminated, "message"));
    char lines[HVD_OBSERVE_TEXT_MAX];
    size_t n_lines = last_lines(hvd_json_str(terminated, "message"), lines);

    out->has_failed = true;
    out->ended_s = hvd_rfc3339_parse(hvd_json_str(terminated, "finishedAt"));
    out->exit_code = (int32_t)hvd_json_int(terminated, "exitCode", 0);
    out->exit_signal = (int32_t)hvd_json_int(terminated, "signal", 0);
    return (!limit || hvd_observe_text_n(limit, strlen(limit), &out->memory_limit)) &&
           hvd_observe_text(container, "name", &out->container) &&
           hvd_observe_text(terminated, "reason", &out->container_reason) &&
           hvd_observe_text_n(line.data, line.len, &out->last_line) &&
           hvd_observe_text_n(lines, n_lines, &out->last_lines);
}

/* The status of the role's container: the one that the annotation names, else the one of that name,
 * else the first of the spec. NULL while there is none. */
static const cJSON *role_status(const cJSON *object, enum hvd_role role)
{
    const char *named = cJSON_GetStringValue((cJSON *)hvd_json_get(
        hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_CONTAINER));
    const char *wanted = named ? named : role == HVD_ROLE_MASTER ? "master" : "worker";
    const cJSON *containers = hvd_json_at(object, "spec.containers");
    const cJSON *item = NULL;
    const char *name = NULL;

    cJSON_ArrayForEach(item, containers)
    {
        if (!name || hvd_observe_is(item, "name", wanted))
            name = hvd_json_str(item, "name");
    }
    cJSON_ArrayForEach(item, hvd_json_at(object, "status.containerStatuses"))
    {
        if (hvd_observe_is(item, "name", name ? name : wanted))
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

/* A template's value has no bound: 100 years mean for ever. */
#define GRACE_MAX_S (100 * INT64_C(366) * 86400)

/* Finds why and until when a pod has to go. */
static bool observe_going(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *target = hvd_observe_condition(object, "DisruptionTarget");
    const char *message = hvd_json_str(target, "message");
    const char *reason = hvd_json_str(target, "reason");
    char text[HVD_OBSERVE_TEXT_MAX];

    out->deleted_s = hvd_rfc3339_parse(hvd_json_str(object, "metadata.deletionTimestamp"));
    out->grace_s = hvd_json_int(object, "metadata.deletionGracePeriodSeconds", 30);
    if (out->grace_s > GRACE_MAX_S)
        out->grace_s = GRACE_MAX_S;
    out->is_killed = out->deleted_s != 0 && out->grace_s == 0;
    if (!hvd_observe_text(object, "spec.nodeName", &out->node) ||
        !hvd_observe_text(object, "status.reason", &out->reason) ||
        !hvd_observe_text(object, "status.message", &out->message))
        return false;
    if (!target)
        return true;
    out->disrupted_s = hvd_rfc3339_parse(hvd_json_str(target, "lastTransitionTime"));
    message = message ? message : "";
    (void)snprintf(text, sizeof(text), "%.128s%s%.*s", reason ? reason : "DisruptionTarget",
                   *message ? ": " : "", hvd_observe_cut(message, strlen(message), 512), message);
    return hvd_observe_text_n(text, strlen(text), &out->disruption);
}

/* How the worker's own container last ended, even if the kubelet has restarted it. */
static bool observe_worker(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *container = role_status(object, HVD_ROLE_WORKER);
    const cJSON *terminated = hvd_json_at(container, "state.terminated");

    out->restarts = (int32_t)hvd_json_int(container, "restartCount", 0);
    if (!terminated)
        terminated = hvd_json_at(container, "lastState.terminated");
    return !terminated || observe_terminated(object, container, terminated, out);
}

/*
 * The containers that still run after the master's has ended, but not init containers, which the
 * kubelet ends itself. Names that do not fit become one that no container has.
 */
static bool observe_left(const cJSON *object, const cJSON *own, struct hvd_pod_view *out)
{
    static const char more[] = ", ...";
    char text[HVD_OBSERVE_TEXT_MAX / 2] = "";
    const cJSON *item = NULL;
    size_t len = 0;

    if (out->phase > HVD_POD_RUNNING || !hvd_json_at(own, "state.terminated"))
        return true;
    cJSON_ArrayForEach(item, hvd_json_at(object, "status.containerStatuses"))
    {
        const char *name = hvd_json_str(item, "name");
        const size_t size = name ? strlen(name) + 2 : 0;

        if (!name || hvd_json_at(item, "state.terminated"))
            continue;
        if (len + size + sizeof(more) > sizeof(text)) {
            memcpy(text + len, more, sizeof(more));
            break;
        }
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? ", " : "", name);
    }
    return text[0] == '\0' || hvd_observe_text_n(text, strlen(text), &out->left);
}

/* How a master ended; while others of its containers run, how its own did. */
static bool observe_containers(const cJSON *object, struct hvd_pod_view *out)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};
    const cJSON *own = role_status(object, HVD_ROLE_MASTER);

    out->deadline_s = hvd_json_int(object, "spec.activeDeadlineSeconds", 0);
    out->own_ended_s = hvd_rfc3339_parse(hvd_json_str(own, "state.terminated.finishedAt"));
    if (!observe_left(object, own, out))
        return false;
    if (out->left)
        return hvd_json_int(own, "state.terminated.exitCode", 0) == 0 ||
               observe_terminated(object, own, hvd_json_at(own, "state.terminated"), out);

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const cJSON *container = NULL;

        cJSON_ArrayForEach(container, hvd_json_at(object, lists[i]))
        {
            const cJSON *terminated = hvd_json_at(container, "state.terminated");

            if (hvd_json_int(terminated, "exitCode", 0) == 0)
                continue;
            out->is_init = i == 0;
            return observe_terminated(object, container, terminated, out);
        }
    }
    return true;
}

#define TROUBLE_SIZE 640
#define TROUBLE_PART 250
#define LABEL_SIZE 96

/* Whether the text of a reason is one of these. */
static bool is_one_of(const char *reason, size_t len, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == len && strncmp(reason, names[i], len) == 0)
            return true;
    }
    return false;
}

static const char *const of_image[] = {
    "ImagePullBackOff",  "ErrImagePull",        "InvalidImageName",         "ErrImageNeverPull",
    "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"};
#define N_OF_IMAGE (sizeof(of_image) / sizeof(of_image[0]))

/*
 * The message of the kubelet or the registry about an image, without the kubelet's prefixes: a
 * back-off (older kubelets then add nothing), the reason, the code of its call.
 */
static const char *words_of_image(const char *message, const char *reason)
{
    static const char back_off[] = "Back-off pulling image", rpc[] = "rpc error: code = ";
    const char *colon;

    if (!message || strcmp(message, reason) == 0)
        return "";
    if (strncmp(message, back_off, sizeof(back_off) - 1) == 0) {
        message = strstr(message, "\": ");
        if (!message)
            return "";
        message += strlen("\": ");
    }
    colon = strstr(message, ": ");
    if (colon && is_one_of(message, (size_t)(colon - message), of_image, N_OF_IMAGE))
        message = colon + 2;
    colon = strncmp(message, rpc, sizeof(rpc) - 1) == 0 ? strstr(message, " desc = ") : NULL;
    return colon ? colon + strlen(" desc = ") : message;
}

/* Keeps the end of a long message, because the cause is there. */
static bool describe_image(const cJSON *container, const char *reason, char out[TROUBLE_SIZE])
{
    const char *image = hvd_json_str(container, "image");
    const char *words = words_of_image(hvd_json_str(container, "state.waiting.message"), reason);
    size_t len = strlen(words);
    bool is_cut = len > TROUBLE_PART;

    if (is_cut)
        words += len - TROUBLE_PART;
    while (is_cut && ((unsigned char)*words & 0xC0) == 0x80)
        words++;
    image = image ? image : "";
    return snprintf(out, TROUBLE_SIZE, "image %.*s cannot be pulled%s%s%s",
                    hvd_observe_cut(image, strlen(image), TROUBLE_PART), image, *words ? ": " : "",
                    is_cut ? "..." : "", words) > 0;
}

/*
 * Describes the fault of a container that waits. The text is constant while the fault lasts,
 * because each change is a write. (For a missing image the kubelet alternates between two reasons.)
 */
static bool describe_waiting(const cJSON *container, const char *label, char out[TROUBLE_SIZE])
{
    static const char *const of_start[] = {"CreateContainerConfigError", "CreateContainerError",
                                           "PreCreateHookError", "PreStartHookError",
                                           "RunContainerError"};
    const char *reason = hvd_json_str(container, "state.waiting.reason");
    const char *message = hvd_json_str(container, "state.waiting.message");
    size_t len = reason ? strlen(reason) : 0;

    if (!reason)
        return false;
    message = message ? message : reason;
    if (is_one_of(reason, len, of_image, N_OF_IMAGE))
        return describe_image(container, reason, out);
    if (is_one_of(reason, len, of_start, sizeof(of_start) / sizeof(of_start[0])))
        return snprintf(out, TROUBLE_SIZE, "%s cannot start: %.*s", label,
                        hvd_observe_cut(message, strlen(message), TROUBLE_PART), message) > 0;
    return false;
}

/* Whether the container restarts again and again. During a new try it runs for a moment, or has
 * just ended: that is no other state. */
static bool keeps_ending(const cJSON *container)
{
    return hvd_observe_is(container, "state.waiting.reason", "CrashLoopBackOff") ||
           (hvd_json_int(container, "restartCount", 0) >= 2 && !hvd_json_true(container, "ready") &&
            hvd_json_at(container, "lastState.terminated"));
}

static bool describe_container(const cJSON *object, const cJSON *container, const char *label,
                               char out[TROUBLE_SIZE])
{
    const cJSON *last = hvd_json_at(container, "lastState.terminated");
    const char *reason = hvd_json_str(last, "reason");
    struct hvd_strview line = cause(hvd_json_str(last, "message"));
    char limit[LIMIT_SIZE];

    if (describe_waiting(container, label, out))
        return true;
    if (!keeps_ending(container))
        return false;
    return snprintf(out, TROUBLE_SIZE, "%s keeps ending with exit code %d%s%s%s%.*s", label,
                    (int)hvd_json_int(last, "exitCode", 0),
                    reason && strcmp(reason, "OOMKilled") == 0 ? ", OOMKilled" : "",
                    describe_limit(object, container, reason, limit), line.len > 0 ? ": " : "",
                    hvd_observe_cut(line.data, line.len, TROUBLE_PART), line.data) > 0;
}

static bool describe_scheduling(const cJSON *object, char out[TROUBLE_SIZE])
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "status.conditions"))
    {
        const char *message = hvd_json_str(item, "message");

        if (hvd_observe_is(item, "type", "PodScheduled") &&
            (hvd_observe_is(item, "reason", "Unschedulable") ||
             hvd_observe_is(item, "reason", "SchedulerError")))
            return snprintf(out, TROUBLE_SIZE, "cannot be scheduled: %.*s",
                            message ? hvd_observe_cut(message, strlen(message), TROUBLE_PART) : 0,
                            message ? message : "") > 0;
    }
    return false;
}

/* A pod whose kubelet is unreachable. */
static bool describe_phase(const cJSON *object, char out[TROUBLE_SIZE])
{
    const char *node = hvd_json_str(object, "spec.nodeName");

    if (!hvd_observe_is(object, "status.phase", "Unknown"))
        return false;
    return snprintf(out, TROUBLE_SIZE, "is in phase Unknown: see whether node %.128s works",
                    node ? node : "(none)") > 0;
}

/* The name of a container in texts, unless it is the role's. */
static void name_container(const cJSON *container, bool is_init, const char *role,
                           char out[LABEL_SIZE])
{
    const char *name = hvd_json_str(container, "name");

    if (!is_init && (!name || hvd_str_equal(name, role)))
        (void)snprintf(out, LABEL_SIZE, "container");
    else
        (void)snprintf(out, LABEL_SIZE, "%scontainer %.63s", is_init ? "init " : "",
                       name ? name : "?");
}

static bool observe_trouble(const cJSON *object, enum hvd_role role, struct hvd_pod_view *out)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};
    const char *own = hvd_json_str(role_status(object, role), "name");
    char text[TROUBLE_SIZE], label[LABEL_SIZE];
    bool is_found = describe_phase(object, text) || describe_scheduling(object, text);

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !is_found; i++) {
        const cJSON *container = NULL;

        cJSON_ArrayForEach(container, hvd_json_at(object, lists[i]))
        {
            name_container(container, i == 0, own, label);
            is_found = is_found || describe_container(object, container, label, text);
        }
    }
    return !is_found || hvd_observe_text_n(text, strlen(text), &out->trouble);
}

static bool observe_place(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *keys =
        hvd_json_get(hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_TOPOLOGY);

    return !cJSON_IsString(keys) || hvd_topology_text(hvd_json_at(object, "metadata.labels"),
                                                      keys->valuestring, &out->topology) == HVD_OK;
}

bool hvd_observe_pod(const cJSON *object, struct hvd_object *out)
{
    static const char *const phases[] = {[HVD_POD_PENDING] = "Pending",
                                         [HVD_POD_RUNNING] = "Running",
                                         [HVD_POD_SUCCEEDED] = "Succeeded",
                                         [HVD_POD_FAILED] = "Failed"};
    struct hvd_pod_view *pod = &out->u.pod;

    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        if (hvd_observe_is(object, "status.phase", phases[i]))
            pod->phase = (enum hvd_pod_phase)i;
    }
    pod->is_ready = hvd_observe_condition(object, "Ready") != NULL;
    if (!pod->is_ready &&
        (!observe_trouble(object, out->meta.role, pod) || !hvd_observe_stage(object, pod)))
        return false;
    if (out->meta.role == HVD_ROLE_NONE)
        return true;
    if (!observe_going(object, pod))
        return false;
    pod->started_s = started_s(role_status(object, out->meta.role));
    pod->revision = hvd_observe_revision(cJSON_GetStringValue(
        (cJSON *)hvd_json_get(hvd_json_at(object, "metadata.labels"), "controller-revision-hash")));
    if (out->meta.role == HVD_ROLE_WORKER)
        return hvd_observe_text(object, "status.podIP", &pod->ip) && observe_place(object, pod) &&
               observe_worker(object, pod);
    return hvd_observe_annotation(object, HVD_ANNOTATION_HOSTS, &pod->hosts_seen) &&
           observe_containers(object, pod);
}
