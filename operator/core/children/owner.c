/*
 * Decides which job owns a child: the one whose uid its controller reference has. Other writers may
 * edit that metadata, though, so a job keeps a child that other evidence identifies. Pure.
 */
#include "operator/core/children/owner.h"

#include <string.h>

#include "base/str.h"
#include "operator/core/children/children.h"

bool hvd_owner_has_name(const struct hvd_job *job, enum hvd_kind kind, const char *name)
{
    char child[HVD_CHILD_NAME_MAX];

    if (kind != HVD_KIND_STATEFULSET) {
        hvd_children_name(job, kind, child);
        return hvd_str_equal(name, child);
    }
    for (size_t i = 0; i < job->spec.n_groups; i++) {
        hvd_children_group_name(job, i, child);
        if (hvd_str_equal(name, child))
            return true;
    }
    return false;
}

bool hvd_owner_is_set_name(const struct hvd_job *job, const char *name)
{
    char set[HVD_CHILD_NAME_MAX];
    size_t len;

    hvd_children_name(job, HVD_KIND_STATEFULSET, set);
    len = strlen(set);
    return hvd_str_has_prefix(name, set) && (name[len] == '\0' || name[len] == '-');
}

/* Whether the name is one that a child of the job has, or had. */
static bool has_our_name(const struct hvd_job *job, const struct hvd_object *child)
{
    return child->kind == HVD_KIND_STATEFULSET
               ? hvd_owner_is_set_name(job, child->meta.name)
               : hvd_owner_has_name(job, child->kind, child->meta.name);
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

/* Whether the operator has recorded the object's uid as one of this job. */
static bool is_noted(const struct hvd_job *job, const struct hvd_object *child)
{
    return (child->meta.noted && hvd_str_equal(child->meta.made_for, job->uid)) ||
           (child->kind == HVD_KIND_JOB && job->status.master_uid &&
            hvd_str_equal(child->meta.uid, job->status.master_uid));
}

/* A child without the job's uid is an older operator's, and must have its labels. If it is as old
 * as the job, it may belong to a job of this name that was deleted in the same second. */
static bool is_made_for(const struct hvd_job *job, const struct hvd_object *child)
{
    if (child->meta.made_for)
        return hvd_str_equal(child->meta.made_for, job->uid);
    return has_our_annotation(child) && !child->meta.lost_labels && job->created_s > 0 &&
           child->meta.created_s > job->created_s;
}

bool hvd_owner_is_lost(const struct hvd_job *job, const struct hvd_object *child)
{
    return child->kind != HVD_KIND_POD && !hvd_str_equal(child->meta.owner_uid, job->uid) &&
           (is_noted(job, child) || (!child->meta.owner_uid && is_made_for(job, child))) &&
           has_our_name(job, child);
}

bool hvd_owner_is_job(const struct hvd_job *job, const struct hvd_object *child)
{
    return hvd_str_equal(child->meta.owner_uid, job->uid) || hvd_owner_is_lost(job, child);
}
