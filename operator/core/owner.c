/* Whose a child is: the job's whose uid its controller has. Pure. */
#include "operator/core/owner.h"

#include "base/str.h"
#include "operator/core/children.h"

static bool has_our_name(const struct hvd_job *job, const struct hvd_object *child)
{
    char name[HVD_CHILD_NAME_MAX];

    if (child->kind != HVD_KIND_STATEFULSET) {
        hvd_child_name(job, child->kind, name);
        return hvd_str_equal(child->meta.name, name);
    }
    for (size_t i = 0; i < job->spec.n_groups; i++) {
        hvd_group_name(job, i, name);
        if (hvd_str_equal(child->meta.name, name))
            return true;
    }
    return false;
}

/* Whether it has the annotation that this operator gives objects of its kind. */
static bool has_our_annotation(const struct hvd_object *child)
{
    switch (child->kind) {
    case HVD_KIND_STATEFULSET:
        return child->u.statefulset.spec_hash != NULL;
    case HVD_KIND_JOB:
        return child->u.job.attempt > 0;
    case HVD_KIND_VOLCANO_PODGROUP:
    case HVD_KIND_PLUGINS_PODGROUP:
        return child->u.podgroup.spec_hash != NULL;
    default:
        return false;
    }
}

bool hvd_owner_is_lost(const struct hvd_job *job, const struct hvd_object *child)
{
    return has_our_annotation(child) && !child->meta.owner_uid && !child->meta.lost_labels &&
           job->created_s > 0 && child->meta.created_s >= job->created_s &&
           has_our_name(job, child);
}

bool hvd_owner_is_job(const struct hvd_job *job, const struct hvd_object *child)
{
    return hvd_str_equal(child->meta.owner_uid, job->uid) || hvd_owner_is_lost(job, child);
}
