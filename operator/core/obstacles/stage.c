/*
 * Slow pods without a cause in their status. Kubelets report only in events why a volume is not
 * mounted, a sandbox is not made or a probe fails. The operator reads those events after some time.
 * A delay without a cause in events is reported after minutes. Pure.
 */
#include "operator/core/obstacles/stage.h"

#include "operator/api/horovodjob.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/refusal.h"

#define SLOW_S 120
#define SLOW_TEXT "2 minutes"

/* silence: why its events give no cause. */
static void describe(const struct hvd_object *object, const char *silence, char *out, size_t size)
{
    const struct hvd_pod_view *pod = &object->u.pod;
    const char *name = object->meta.name;
    const char *container = pod->stage_container ? pod->stage_container : "?";

    switch (pod->stage) {
    case HVD_STAGE_GATED:
        hvd_text_format(out, size,
                        "pod %s is held by its spec.schedulingGates for more than " SLOW_TEXT
                        ": the program that set them has to remove them",
                        name);
        break;
    case HVD_STAGE_SCHEDULE:
        hvd_text_format(out, size,
                        "pod %s has not been placed on a node after " SLOW_TEXT
                        ", and no cause is known: see whether scheduler %s runs",
                        name, pod->stage_container ? container : "default-scheduler");
        break;
    case HVD_STAGE_INIT:
        hvd_text_format(out, size, "pod %s init container %s has not ended after " SLOW_TEXT, name,
                        container);
        break;
    case HVD_STAGE_SIDECAR:
        hvd_text_format(out, size, "pod %s sidecar %s has not started after " SLOW_TEXT, name,
                        container);
        break;
    case HVD_STAGE_READY:
        hvd_text_format(out, size,
                        "pod %s container %s is not ready after " SLOW_TEXT
                        ": %s, see its readiness probe",
                        name, container, silence);
        break;
    case HVD_STAGE_GATES:
        hvd_text_format(out, size,
                        "pod %s is not ready after " SLOW_TEXT
                        " though its containers are: see its readinessGates, and whether node %s "
                        "works",
                        name, pod->node ? pod->node : "?");
        break;
    default:
        hvd_text_format(out, size,
                        "pod %s has not started on node %s after " SLOW_TEXT
                        ": %s, a large image may still be pulled",
                        name, pod->node ? pod->node : "?", silence);
        break;
    }
}

/* The same with the text of an event. */
static void quote(const struct hvd_pod_view *pod, const char *name, const char *words,
                  char out[HVD_STAGE_TEXT_SIZE])
{
    const char *container = pod->stage_container ? pod->stage_container : "?";

    if (pod->stage == HVD_STAGE_START)
        hvd_text_format(out, HVD_STAGE_TEXT_SIZE, "pod %s cannot start: %s", name, words);
    else
        hvd_text_format(out, HVD_STAGE_TEXT_SIZE, "pod %s %s %s is not ready: %s", name,
                        pod->stage == HVD_STAGE_SIDECAR ? "sidecar" : "container", container,
                        words);
}

bool hvd_stage_describe(struct hvd_pass *p, const struct hvd_object *pod,
                        char out[HVD_STAGE_TEXT_SIZE])
{
    const struct hvd_pod_view *view = &pod->u.pod;
    const int64_t since_ms = view->stage_s * 1000;
    const char *words = NULL;

    if (view->stage == HVD_STAGE_NONE || pod->meta.is_deleting ||
        (view->stage == HVD_STAGE_SCHEDULE && p->has_no_room)) /* the gang's status has the
                                                                  cause */
        return false;
    if (view->stage > HVD_STAGE_SCHEDULE && view->stage != HVD_STAGE_INIT &&
        view->stage != HVD_STAGE_GATES)
        words = hvd_refusal_ask(
            p, pod, view->stage == HVD_STAGE_START ? HVD_ASK_START : HVD_ASK_READY, since_ms);
    if (words) {
        quote(view, pod->meta.name, words, out);
        return true;
    }
    if (p->now_ms < since_ms + SLOW_S * 1000) {
        hvd_plan_wake(p->plan, since_ms + SLOW_S * 1000);
        return false;
    }
    describe(pod, hvd_refusal_silence(p, pod), out, HVD_STAGE_TEXT_SIZE);
    return true;
}
