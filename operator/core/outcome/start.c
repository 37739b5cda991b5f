/*
 * Workers of an earlier start. A resumed job begins without any, because ranks of a master that is
 * gone may live on in them. The status records a suspension. If it could not be written, the
 * StatefulSets show it: a set without replicas is being taken down, and each has the generation of
 * the HorovodJob at its start. All these workers go before any new one comes. Pure.
 */
#include "operator/core/outcome/start.h"

#include "base/str.h"
#include "operator/core/children/children.h"
#include "operator/core/ensure/ensure.h"
#include "operator/core/obstacles/trace.h"
#include "operator/core/outcome/outcome.h"
#include "operator/core/view/projection.h"
#include "operator/core/writes/repair.h"
#include "operator/core/writes/repair_internal.h"

/* The state of the job's sets. */
struct sets {
    bool is_any_down; /* one has no replicas */
    bool is_any_left; /* and has pods all the same */
    bool is_any_old;  /* a set with replicas was started with another spec */
    bool is_unseen;   /* a set with replicas was not started by this process */
};

static bool has_written(const struct hvd_pass *p, const struct hvd_object *set,
                        enum hvd_repair repair)
{
    const struct hvd_repair_record *record = hvd_repairs_find(
        p->view->repairs, hvd_repair_key(HVD_KIND_STATEFULSET, set->meta.name, repair));

    return record && record->value != HVD_REPAIR_ABSENT;
}

static struct sets look(const struct hvd_pass *p)
{
    struct sets found = {.is_any_down = false};

    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        const struct hvd_object *set = p->owners.sets[i];
        int64_t generation;

        if (hvd_pass_set(p, i) != HVD_CHILD_OURS)
            continue;
        generation = set->u.statefulset.generation;
        if (set->u.statefulset.replicas == 0) {
            found.is_any_down = true;
            found.is_any_left = found.is_any_left || p->pods.n_of[i] > 0;
            continue;
        }
        found.is_any_old = found.is_any_old || (generation && generation != p->job->generation);
        found.is_unseen = found.is_unseen || (!has_written(p, set, HVD_REPAIR_EXISTENCE) &&
                                              !has_written(p, set, HVD_REPAIR_REPLICAS));
    }
    return found;
}

/* Whether a worker exists that existed when the events were read: they cannot mention later
 * ones. */
static bool has_worker_of(const struct hvd_pass *p, const struct hvd_failure *trace)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        if (hvd_pods_is_ours(p->view, pod, &p->owners) && pod->meta.role == HVD_ROLE_WORKER &&
            pod->meta.created_s * 1000 <= trace->at_ms)
            return true;
    }
    return false;
}

/*
 * Whether a master may have run with the workers without a record in a status or in this process. A
 * former operator may have removed it because the job was suspended, but no worker yet. Events may
 * show such a master, but only for an hour, and only to operators that may read them. If no status
 * was ever written, an edit of the spec counts as well; that costs workers that are not used so
 * far.
 */
static bool may_have_ended(struct hvd_pass *p, const struct sets *sets)
{
    const struct hvd_job_status *status = &p->job->status;
    const struct hvd_failure *trace;
    char name[HVD_CHILD_NAME_MAX];

    if (!sets->is_unseen || status->attempts > hvd_job_ended(status) || p->pods.n_masters > 0 ||
        hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_MISSING)
        return false;
    hvd_children_name(p->job, HVD_KIND_JOB, name);
    trace = hvd_pass_failure(p, HVD_KIND_JOB, name);
    return (trace && trace->type == HVD_FAILURE_BEGUN && has_worker_of(p, trace)) ||
           (sets->is_any_old && status->state == HVD_JOB_NEW);
}

bool hvd_start_clears(struct hvd_pass *p)
{
    const struct sets sets = look(p);

    if (p->st || hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS)
        return false;
    if (!sets.is_any_left && !(sets.is_any_down && sets.is_any_old)) {
        if (!may_have_ended(p, &sets))
            return false;
        if (hvd_trace_asks_first(p)) /* that master may have succeeded */
            return true;
    }
    (void)hvd_ensure_no_workers(p);
    hvd_outcome_remove_workers(p);
    return true;
}
