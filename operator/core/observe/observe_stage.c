/*
 * The stage of a pod that is not Ready and whose status names no fault. Its sandbox and volumes are
 * being made; an init container or a sidecar runs; its readiness probe fails; or a readiness gate
 * or its node keeps it from being Ready. Each may last for ever. Pure.
 */
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/observe/observe_internal.h"
#include "operator/core/view/projection.h"

/* Whether the init container of that name is a sidecar: it starts before the others and stays. */
static bool is_sidecar(const cJSON *object, const char *name)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "spec.initContainers"))
    {
        if (name && hvd_observe_is(item, "name", name))
            return hvd_observe_is(item, "restartPolicy", "Always");
    }
    return false;
}

static int64_t time_at(const cJSON *object, const char *path)
{
    return hvd_rfc3339_parse(hvd_json_str(object, path));
}

static bool set_stage(const cJSON *container, enum hvd_pod_stage stage, struct hvd_pod_view *out)
{
    out->stage = stage;
    out->stage_s = time_at(container, "state.running.startedAt");
    return hvd_observe_text(container, "name", &out->stage_container);
}

/* The running init container or sidecar that delays the others, if any. *since_s becomes the end of
 * the last one that has ended. */
static bool observe_init(const cJSON *object, struct hvd_pod_view *out, int64_t *since_s)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "status.initContainerStatuses"))
    {
        bool is_side = is_sidecar(object, hvd_json_str(item, "name"));
        int64_t ended_s = time_at(item, "state.terminated.finishedAt");

        if (ended_s > *since_s)
            *since_s = ended_s;
        if (!hvd_json_at(item, "state.running") ||
            (is_side && !cJSON_IsFalse(hvd_json_get(item, "started"))))
            continue;
        return set_stage(item, is_side ? HVD_STAGE_SIDECAR : HVD_STAGE_INIT, out);
    }
    return true;
}

static int64_t scheduled_s(const cJSON *object)
{
    int64_t at_s = time_at(hvd_observe_condition(object, "PodScheduled"), "lastTransitionTime");

    return at_s ? at_s : time_at(object, "metadata.creationTimestamp");
}

/* A pod without a node. If a scheduler has tried in vain, a condition reports that as trouble. */
static bool observe_scheduling(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *item = NULL;

    out->stage = HVD_STAGE_SCHEDULE;
    out->stage_s = time_at(object, "metadata.creationTimestamp");
    cJSON_ArrayForEach(item, hvd_json_at(object, "status.conditions"))
    {
        if (hvd_observe_is(item, "type", "PodScheduled") &&
            hvd_observe_is(item, "reason", "SchedulingGated"))
            out->stage = HVD_STAGE_GATED;
    }
    return hvd_observe_text(object, "spec.schedulerName", &out->stage_container);
}

/* Finds since when a pod is not Ready although every container is. */
static void observe_gates(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "status.conditions"))
    {
        if (!hvd_observe_is(item, "type", "Ready"))
            continue;
        out->stage_s = time_at(item, "lastTransitionTime");
        out->stage = out->stage_s ? HVD_STAGE_GATES : HVD_STAGE_NONE;
    }
}

bool hvd_observe_stage(const cJSON *object, struct hvd_pod_view *out)
{
    const cJSON *containers = hvd_json_at(object, "status.containerStatuses");
    const cJSON *item = NULL, *unready = NULL;
    int64_t since_s = scheduled_s(object);
    bool is_starting = cJSON_GetArraySize(containers) == 0;

    if (out->trouble || (out->phase != HVD_POD_PENDING && out->phase != HVD_POD_RUNNING))
        return true;
    if (!hvd_json_str(object, "spec.nodeName"))
        return out->phase == HVD_POD_RUNNING || observe_scheduling(object, out);
    if (!observe_init(object, out, &since_s))
        return false;
    if (out->stage)
        return true;
    cJSON_ArrayForEach(item, containers)
    {
        is_starting = is_starting || hvd_json_at(item, "state.waiting");
        if (!unready && hvd_json_at(item, "state.running") &&
            cJSON_IsFalse(hvd_json_get(item, "ready")))
            unready = item;
    }
    if (is_starting) {
        out->stage = HVD_STAGE_START;
        out->stage_s = since_s;
        return true;
    }
    if (unready)
        return set_stage(unready, HVD_STAGE_READY, out);
    if (out->phase == HVD_POD_RUNNING)
        observe_gates(object, out);
    return true;
}
