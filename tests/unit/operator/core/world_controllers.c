/*
 * The controllers and the kubelet of the world of world.h: garbage collection, StatefulSets, Jobs
 * and pods, each as far as reconcile depends on it.
 */
#include "tests/unit/support.h"

#include "tests/unit/operator/core/world_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/obstacles/trace.h"

void world_drop(struct world *w, cJSON *object)
{
    const char *name = hvd_json_str(object, "metadata.name");
    const cJSON *labels = hvd_json_at(object, "metadata.labels");
    const int64_t now_s = w->now_ms / 1000;

    /* The watch tells of the end of a master that it shows. */
    if (world_is(object, "kind", "Pod") && strstr(name, "-master-") &&
        hvd_json_get(labels, HVD_LABEL_JOB)) {
        cJSON_DeleteItemFromObjectCaseSensitive(w->gone, name);
        cJSON_AddNumberToObject(w->gone, name, (double)(HVD_KIND_POD + 100 * now_s));
    }
    cJSON_Delete(cJSON_DetachItemViaPointer(w->objects, object));
}

static cJSON *owner_of(const struct world *w, const cJSON *object)
{
    const cJSON *owner = cJSON_GetArrayItem(hvd_json_at(object, "metadata.ownerReferences"), 0);
    cJSON *found;

    if (!owner)
        return (cJSON *)object;
    found = world_find(w, hvd_json_str(owner, "kind"), hvd_json_str(owner, "name"));
    return found && world_is(found, "metadata.uid", hvd_json_str(owner, "uid")) ? found : NULL;
}

static bool collect_garbage(struct world *w)
{
    cJSON *object = NULL;

    cJSON_ArrayForEach(object, w->objects)
    {
        if (owner_of(w, object))
            continue;
        if (world_is(object, "kind", "Pod")) {
            if (world_delete_pod(w, object))
                return true;
        } else if (world_delete(w, object)) {
            return true;
        }
    }
    return false;
}

static void own(struct hvd_jb *jb, cJSON *meta, const cJSON *owner)
{
    cJSON *reference = hvd_jb_object(jb, hvd_jb_array(jb, meta, "ownerReferences"), NULL);

    hvd_jb_copy(jb, reference, "kind", hvd_json_get(owner, "kind"));
    hvd_jb_copy(jb, reference, "name", hvd_json_at(owner, "metadata.name"));
    hvd_jb_copy(jb, reference, "uid", hvd_json_at(owner, "metadata.uid"));
    hvd_jb_bool(jb, reference, "controller", true);
}

static void make_pod(struct world *w, const cJSON *owner, const char *name)
{
    struct hvd_jb jb = {0};
    cJSON *pod = cJSON_Duplicate(hvd_json_at(owner, "spec.template"), true);
    cJSON *meta = hvd_jb_ensure_object(&jb, pod, "metadata");
    char *text;

    hvd_jb_str(&jb, pod, "kind", "Pod");
    hvd_jb_str(&jb, meta, "name", name);
    hvd_jb_str(&jb, meta, "namespace", "default");
    own(&jb, meta, owner);
    if (hvd_json_at(owner, "spec.serviceName"))
        hvd_jb_copy(&jb, hvd_jb_ensure_object(&jb, pod, "spec"), "subdomain",
                    hvd_json_at(owner, "spec.serviceName"));
    hvd_jb_str(&jb, hvd_jb_object(&jb, pod, "status"), "phase", "Pending");
    text = hvd_jb_print(&jb, pod);
    assert_false(jb.failed);
    world_put(w, text);
    hvd_free(text);
    cJSON_Delete(pod);
}

static bool is_selected(const cJSON *set, const cJSON *pod)
{
    const cJSON *label = NULL;

    cJSON_ArrayForEach(label, hvd_json_at(set, "spec.selector.matchLabels"))
    {
        if (!hvd_str_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(
                               hvd_json_at(pod, "metadata.labels"), label->string)),
                           label->valuestring))
            return false;
    }
    return true;
}

/* The controller lets go a pod that it does not select any more, and takes one that nobody has.
 * True if it does. */
static bool claim(struct world *w, const cJSON *set, cJSON *pod)
{
    struct hvd_jb jb = {0};
    cJSON *meta = cJSON_GetObjectItem(pod, "metadata");
    bool is_owned = cJSON_GetArraySize(hvd_json_get(meta, "ownerReferences")) > 0;

    if (is_owned == is_selected(set, pod) || (is_owned && owner_of(w, pod) != set) ||
        (!is_owned && hvd_json_get(meta, "deletionTimestamp")))
        return false;
    if (is_owned)
        cJSON_DeleteItemFromObjectCaseSensitive(meta, "ownerReferences");
    else
        own(&jb, meta, set);
    assert_false(jb.failed);
    world_stamp(w, pod, false);
    return true;
}

/* The number in the name of a pod of the set, as the controller reads it, whatever zeros begin it;
 * -1 for another name. */
static int64_t number_of(const cJSON *set, const cJSON *pod)
{
    const char *prefix = hvd_json_str(set, "metadata.name");
    const char *name = hvd_json_str(pod, "metadata.name");
    const char *text = name + strlen(prefix) + 1;

    if (!world_is(pod, "kind", "Pod") || !hvd_str_has_prefix(name, prefix) || text[-1] != '-' ||
        *text == '\0' || text[strspn(text, "0123456789")] != '\0')
        return -1;
    return strtoll(text, NULL, 10);
}

/* Removes the pods of the set beyond its replicas, but for those whose number it cannot read. */
static bool condemn(struct world *w, const cJSON *set, int64_t replicas)
{
    bool changed = false;
    cJSON *pod = NULL, *next;

    for (pod = w->objects->child; pod; pod = next) {
        const int64_t number = number_of(set, pod);

        next = pod->next;
        if (number >= replicas && number <= INT32_MAX && owner_of(w, pod) == set)
            changed = world_delete_pod(w, pod) || changed;
    }
    return changed;
}

static bool run_set(struct world *w, const cJSON *set)
{
    int64_t replicas = hvd_json_int(set, "spec.replicas", 0);
    bool changed = false;
    cJSON *pod = NULL;
    char name[64];

    cJSON_ArrayForEach(pod, w->objects)
    {
        const int64_t number = number_of(set, pod);

        (void)snprintf(name, sizeof(name), "%s-%lld", hvd_json_str(set, "metadata.name"),
                       (long long)number);
        if (number >= 0 && claim(w, set, pod))
            return true;
        /* It stands still with a pod that takes the place of one with another name. */
        if (number >= 0 && number < replicas && owner_of(w, pod) == set &&
            !world_is(pod, "metadata.name", name))
            return false;
    }
    for (int i = 0; i < replicas; i++) {
        (void)snprintf(name, sizeof(name), "%s-%d", hvd_json_str(set, "metadata.name"), i);
        if (world_find(w, "Pod", name))
            continue;
        make_pod(w, set, name);
        changed = true;
    }
    return condemn(w, set, replicas) || changed;
}

#define UID_LABEL "batch.kubernetes.io/controller-uid"

/* Makes the pod of a Job, with the labels that the Job controller gives its pods. */
static void make_master(struct world *w, const cJSON *job)
{
    static const char *const of_uid[] = {UID_LABEL, "controller-uid"};
    static const char *const of_name[] = {"batch.kubernetes.io/job-name", "job-name"};
    struct hvd_jb jb = {0};
    char name[64] = "digits-master-abcde";
    cJSON *pod, *labels;

    for (int i = 0; world_find(w, "Pod", name); i++)
        (void)snprintf(name, sizeof(name), "digits-master-%05d", i);
    make_pod(w, job, name);
    pod = world_find(w, "Pod", name);
    labels = hvd_jb_ensure_object(&jb, cJSON_GetObjectItem(pod, "metadata"), "labels");
    for (size_t i = 0; i < sizeof(of_uid) / sizeof(of_uid[0]); i++) {
        hvd_jb_copy(&jb, labels, of_uid[i], hvd_json_at(job, "metadata.uid"));
        hvd_jb_copy(&jb, labels, of_name[i], hvd_json_at(job, "metadata.name"));
    }
    assert_false(jb.failed);
}

/* The controller takes a pod back that nobody has, and in place of one that it does not select any
 * more it makes another. True if it does. */
static bool claim_master(struct world *w, cJSON *job)
{
    struct hvd_jb jb = {0};
    cJSON *pod = NULL;

    cJSON_ArrayForEach(pod, w->objects)
    {
        cJSON *meta = cJSON_GetObjectItem(pod, "metadata");
        const cJSON *owners = hvd_json_get(meta, "ownerReferences");
        const cJSON *label = hvd_json_get(hvd_json_get(meta, "labels"), UID_LABEL);
        bool is_selected = world_is(job, "metadata.uid", label ? label->valuestring : "");

        if (!world_is(pod, "kind", "Pod") || (owners && owner_of(w, pod) != job) ||
            is_selected == (owners != NULL) || (owners && !hvd_json_at(job, "spec.template")))
            continue;
        if (is_selected) {
            own(&jb, meta, job);
        } else {
            cJSON_DeleteItemFromObjectCaseSensitive(meta, "ownerReferences");
            cJSON_AddTrueToObject(pod, WORLD_RELEASED);
            make_master(w, job);
        }
        assert_false(jb.failed);
        world_stamp(w, pod, false);
        return true;
    }
    return false;
}

/* The pod of a Job that may make none is removed. */
static bool hold_job(struct world *w, cJSON *job)
{
    cJSON *pod = world_find(w, "Pod", "digits-master-abcde");

    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(job, "status"), "started");
    return pod && owner_of(w, pod) == job && world_delete_pod(w, pod);
}

static bool run_job(struct world *w, cJSON *job)
{
    if (hvd_json_true(job, "spec.suspend") || hvd_json_int(job, "spec.parallelism", 1) == 0)
        return hold_job(w, job);
    if (hvd_json_at(job, "status.started"))
        return claim_master(w, job);
    cJSON_DeleteItemFromObject(job, "status");
    cJSON_AddTrueToObject(cJSON_AddObjectToObject(job, "status"), "started");
    make_master(w, job);
    return true;
}

/* Whether a gang scheduler holds the pod: its group is not there, or has too few pods. */
static bool is_held(const struct world *w, const cJSON *pod)
{
    const char *scheduler = hvd_json_str(pod, "spec.schedulerName");
    const cJSON *group = world_find(w, "PodGroup", "digits");
    const cJSON *item = NULL;
    int64_t n = 0;

    if (!scheduler)
        return false;
    cJSON_ArrayForEach(item, w->objects)
    {
        n += world_is(item, "kind", "Pod") && world_is(item, "spec.schedulerName", scheduler);
    }
    return !group || n < hvd_json_int(group, "spec.minMember", 0);
}

/* What the scheduler tells of a pod that fits on no node; true if it is news. */
static bool place_nowhere(struct world *w, cJSON *pod, cJSON *status)
{
    struct hvd_jb jb = {0};
    cJSON *placed;

    if (cJSON_GetArraySize(hvd_json_get(status, "conditions")) > 0)
        return false;
    placed = hvd_jb_object(&jb, hvd_jb_array(&jb, status, "conditions"), NULL);
    hvd_jb_str(&jb, placed, "type", "PodScheduled");
    hvd_jb_str(&jb, placed, "status", "False");
    hvd_jb_str(&jb, placed, "reason", "Unschedulable");
    hvd_jb_str(&jb, placed, "message", "0/1 nodes are available");
    assert_false(jb.failed);
    world_stamp(w, pod, false);
    return true;
}

static bool run_pod(struct world *w, cJSON *pod)
{
    struct hvd_jb jb = {0};
    cJSON *status = cJSON_GetObjectItem(pod, "status");
    char time[HVD_RFC3339_SIZE];
    cJSON *ready, *container;

    if (w->is_full && world_is(status, "phase", "Pending"))
        return place_nowhere(w, pod, status);
    if (w->is_kubelet_off || is_held(w, pod) || !world_is(status, "phase", "Pending"))
        return false;
    hvd_jb_str(&jb, status, "phase", "Running");
    if (!hvd_json_at(pod, "spec.nodeName"))
        hvd_jb_str(&jb, hvd_jb_ensure_object(&jb, pod, "spec"), "nodeName", "node-1");
    hvd_rfc3339_format(w->now_ms / 1000, time);
    container = hvd_jb_object(&jb, hvd_jb_array(&jb, status, "containerStatuses"), NULL);
    hvd_jb_copy(&jb, container, "name",
                hvd_json_get(cJSON_GetArrayItem(hvd_json_at(pod, "spec.containers"), 0), "name"));
    hvd_jb_str(&jb, hvd_jb_object(&jb, hvd_jb_object(&jb, container, "state"), "running"),
               "startedAt", time);
    ready = hvd_jb_object(&jb, hvd_jb_array(&jb, status, "conditions"), NULL);
    hvd_jb_str(&jb, ready, "type", "Ready");
    hvd_jb_str(&jb, ready, "status", "True");
    world_stamp(w, pod, false);
    return true;
}

bool world_controllers(struct world *w)
{
    bool changed = collect_garbage(w);
    cJSON *object = NULL;

    if (changed)
        return true;
    cJSON_ArrayForEach(object, w->objects)
    {
        if (w->deny_pods_of && world_is(object, "kind", w->deny_pods_of))
            continue;
        /* Controllers do nothing more for what is being deleted. */
        if (hvd_json_at(object, "metadata.deletionTimestamp"))
            continue;
        if (world_is(object, "kind", "StatefulSet") && owner_of(w, object) &&
            hvd_json_at(object, "spec.template"))
            changed = run_set(w, object);
        else if (world_is(object, "kind", "Job"))
            changed = run_job(w, object);
        else if (world_is(object, "kind", "Pod"))
            changed = run_pod(w, object);
        if (changed)
            return true;
    }
    return false;
}

void world_end_master(struct world *w, int exit_code, const char *message)
{
    cJSON *pod = world_find(w, "Pod", "digits-master-abcde");
    struct hvd_jb jb = {0};
    cJSON *status, *container, *terminated;
    char time[HVD_RFC3339_SIZE];
    char *started;

    assert_non_null(pod);
    status = cJSON_GetObjectItem(pod, "status");
    started =
        strdup(hvd_json_str(cJSON_GetArrayItem(cJSON_GetObjectItem(status, "containerStatuses"), 0),
                            "state.running.startedAt"));
    hvd_jb_str(&jb, status, "phase", exit_code ? "Failed" : "Succeeded");
    hvd_jb_array(&jb, status, "conditions");
    container = hvd_jb_object(&jb, hvd_jb_array(&jb, status, "containerStatuses"), NULL);
    hvd_jb_str(&jb, container, "name", "master");
    terminated = hvd_jb_object(&jb, hvd_jb_object(&jb, container, "state"), "terminated");
    hvd_jb_int(&jb, terminated, "exitCode", exit_code);
    hvd_jb_str(&jb, terminated, "reason", exit_code ? "Error" : "Completed");
    hvd_jb_str(&jb, terminated, "message", message);
    hvd_jb_str(&jb, terminated, "startedAt", started);
    hvd_rfc3339_format(w->now_ms / 1000, time);
    hvd_jb_str(&jb, terminated, "finishedAt", time);
    free(started);
    world_stamp(w, pod, false);
}

void world_end_worker(struct world *w, const char *pod, int exit_code, const char *reason)
{
    cJSON *object = world_find(w, "Pod", pod);
    cJSON *container = cJSON_GetArrayItem(hvd_json_at(object, "status.containerStatuses"), 0);
    struct hvd_jb jb = {0};
    char time[HVD_RFC3339_SIZE];
    cJSON *terminated;

    assert_non_null(container);
    hvd_rfc3339_format(w->now_ms / 1000, time);
    terminated = hvd_jb_object(&jb, hvd_jb_object(&jb, container, "lastState"), "terminated");
    hvd_jb_int(&jb, terminated, "exitCode", exit_code);
    hvd_jb_str(&jb, terminated, "reason", reason);
    hvd_jb_str(&jb, terminated, "finishedAt", time);
    hvd_jb_int(&jb, container, "restartCount", hvd_json_int(container, "restartCount", 0) + 1);
    world_stamp(w, object, false);
}

void world_read_events(struct world *w, const struct hvd_action *action)
{
    struct hvd_trace_bounds bounds;
    char text[HVD_TRACE_SIZE];

    hvd_trace_decode(action->body, &bounds);
    if (w->trace_events)
        w->trace = hvd_trace_find(w->trace_events, &bounds, text);
}
