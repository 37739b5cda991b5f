/* Whose a child is: the job's whose uid its controller has. Pure. */
#include "operator/core/owner.h"

#include <string.h>

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

/* The uid of the HorovodJob that it was made for; NULL: it does not tell. */
static const char *made_for(const struct hvd_object *child)
{
    switch (child->kind) {
    case HVD_KIND_STATEFULSET:
        return child->u.statefulset.made_for;
    case HVD_KIND_JOB:
        return child->u.job.made_for;
    case HVD_KIND_VOLCANO_PODGROUP:
    case HVD_KIND_PLUGINS_PODGROUP:
        return child->u.podgroup.made_for;
    default:
        return NULL;
    }
}

/* One that does not tell is an older operator's, and has to have its labels: of those that are as
 * old as the job, some may be of a job of this name that was deleted in that second. */
static bool is_made_for(const struct hvd_job *job, const struct hvd_object *child)
{
    const char *uid = made_for(child);

    return uid ? strcmp(uid, job->uid) == 0
               : !child->meta.lost_labels && job->created_s > 0 &&
                     child->meta.created_s > job->created_s;
}

bool hvd_owner_is_lost(const struct hvd_job *job, const struct hvd_object *child)
{
    return has_our_annotation(child) && !child->meta.owner_uid && is_made_for(job, child) &&
           has_our_name(job, child);
}

bool hvd_owner_is_job(const struct hvd_job *job, const struct hvd_object *child)
{
    return hvd_str_equal(child->meta.owner_uid, job->uid) || hvd_owner_is_lost(job, child);
}
