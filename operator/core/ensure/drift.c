/*
 * Changes by other writers that the operator does not repair while the job runs, as a part of the
 * condition WorkersReady: a host list that was made immutable, and the template of running workers.
 * Pure.
 */
#include "operator/core/ensure/drift.h"

#include "base/str.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"

#define LAG_S 30 /* the watch of StatefulSets may be so much behind the one of pods */

/*
 * Whether a worker was made from another template than its set has. The operator changes a template
 * only while its set has no pods, so another writer did.
 */
static bool has_other_template(struct hvd_pass *p, const struct hvd_object *set)
{
    bool has = false;

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];
        int64_t due_s = pod->u.pod.started_s + LAG_S;

        if (pod->kind != HVD_KIND_POD || pod->meta.is_deleting || pod->u.pod.started_s == 0 ||
            !hvd_str_equal(pod->meta.owner_uid, set->meta.uid) || pod->u.pod.revision == 0 ||
            pod->u.pod.revision == set->u.statefulset.revision)
            continue;
        has = has || p->now_s >= due_s;
        if (p->now_s < due_s)
            hvd_plan_wake(p->plan, due_s * 1000);
    }
    return has;
}

static bool describe_template(struct hvd_pass *p, char *out, size_t size)
{
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        const struct hvd_object *set = p->owners.sets[i];

        if (hvd_pass_set(p, i) != HVD_CHILD_OURS || set->u.statefulset.revision == 0 ||
            !has_other_template(p, set))
            continue;
        hvd_text_format(
            out, size,
            "the template of StatefulSet %s was changed: workers that run keep theirs, one "
            "that is made again gets the other; suspend and resume the job to repair it",
            set->meta.name);
        return true;
    }
    return false;
}

bool hvd_drift_describe(struct hvd_pass *p, char *out, size_t size)
{
    if (!p->is_list_frozen)
        return describe_template(p, out, size);
    hvd_text_format(
        out, size, "ConfigMap %s-hosts was made immutable and %s", p->job->name,
        p->pods.n_masters > 0
            ? "the master keeps the list of hosts that is in it; the next attempt gets a "
              "new one"
            : "holds another list of hosts: delete it, or it is made anew within an hour");
    return true;
}
