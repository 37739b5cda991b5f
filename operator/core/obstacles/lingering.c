/*
 * Pods that should be deleted but are not: their StatefulSet or Job is gone, or has no place for
 * them any more, and the controller that removes them does not work. The wait begins with the
 * latest possible cause: one that the status or an object records, or one that this process saw or
 * wrote. Pure.
 */
#include "operator/core/obstacles/lingering.h"

#include "base/str.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/repair.h"
#include "operator/core/writes/repair_internal.h"

/* The set or Job that made the pod; NULL if it is gone. */
static const struct hvd_object *owner_of(const struct hvd_pass *p, const struct hvd_object *pod)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *owner = p->view->objects[i];

        if ((owner->kind == HVD_KIND_STATEFULSET || owner->kind == HVD_KIND_JOB) &&
            hvd_str_equal(owner->meta.uid, pod->meta.owner_uid))
            return owner;
    }
    return NULL;
}

/* Whether the set has too few replicas for the pod's number, and that is intended. */
static bool is_beyond(const struct hvd_pass *p, const struct hvd_object *set,
                      const struct hvd_object *pod)
{
    return !p->is_rescaled && set->kind == HVD_KIND_STATEFULSET && !set->meta.is_deleting &&
           hvd_pods_number_in(set->meta.name, pod->meta.name) >= set->u.statefulset.replicas;
}

static void keep_later(int64_t *latest_s, int64_t at_s)
{
    if (at_s > *latest_s)
        *latest_s = at_s;
}

/* The latest cause that the status and the job record. */
static int64_t persisted_s(const struct hvd_pass *p)
{
    int64_t latest_s = p->job->created_s;

    keep_later(&latest_s, p->next.start_s);
    keep_later(&latest_s, p->next.completion_s);
    keep_later(&latest_s, p->next.conditions[HVD_COND_RUNNING].since_s);
    keep_later(&latest_s, p->next.conditions[HVD_COND_SUSPENDED].since_s);
    return latest_s;
}

/* The latest time at which this process wrote the owner of that name, or saw it change. */
static int64_t noted_s(const struct hvd_pass *p, enum hvd_kind kind, const char *name)
{
    const enum hvd_repair repairs[] = {hvd_repair_of_existence(kind), HVD_REPAIR_REPLICAS};
    int64_t latest_s = 0;

    for (size_t i = 0; i < sizeof(repairs) / sizeof(repairs[0]); i++) {
        const struct hvd_repair_record *record =
            hvd_repairs_find(p->view->repairs, hvd_repair_key(kind, name, repairs[i]));

        if (record)
            keep_later(&latest_s, record->last_ms / 1000);
    }
    for (size_t i = 0; i < p->view->n_gone; i++) {
        const struct hvd_gone *gone = &p->view->gone[i];

        if (gone->kind == kind && gone->at_s && hvd_str_equal(gone->name, name))
            keep_later(&latest_s, p->now_s - (p->view->monotonic_ms / 1000 - gone->at_s));
    }
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->kind == kind && hvd_str_equal(object->meta.name, name))
            keep_later(&latest_s, object->meta.created_s);
    }
    return latest_s;
}

/* Whether the status reports that controllers do not delete pods. The report stays until all those
 * pods are gone, even if a restarted operator has not seen the cause. */
static bool is_told(const struct hvd_pass *p)
{
    const struct hvd_condition *known = &p->job->status.conditions[HVD_COND_DELETION_BLOCKED];

    return known->truth == HVD_TRUE && hvd_str_equal(known->reason, HVD_REASON_NOT_DELETED);
}

int64_t hvd_lingering_since_s(const struct hvd_pass *p, const struct hvd_object *pod)
{
    const struct hvd_object *owner = owner_of(p, pod);
    const struct hvd_repairs *repairs = p->view->repairs;
    const enum hvd_kind kind =
        pod->meta.role == HVD_ROLE_MASTER ? HVD_KIND_JOB : HVD_KIND_STATEFULSET;
    int64_t since_s = persisted_s(p);

    if (pod->meta.is_deleting || !pod->meta.owner_uid || (owner && !is_beyond(p, owner, pod)))
        return 0;
    keep_later(&since_s, pod->meta.created_s);
    if (is_told(p))
        return pod->meta.created_s;
    keep_later(&since_s, noted_s(p, kind, pod->meta.owner_name));
    if (repairs) /* a new process has not seen the beginning */
        keep_later(&since_s, repairs->since_ms / 1000);
    return since_s;
}

void hvd_lingering_describe(const struct hvd_pass *p, const struct hvd_object *pod, char *out,
                            size_t size)
{
    const struct hvd_object *owner = owner_of(p, pod);

    if (owner && !hvd_pods_is_numbered(pod))
        hvd_text_format(
            out, size,
            "is to go, and StatefulSet %s, which has taken it, never deletes a pod whose "
            "name has no worker's number: delete the pod",
            owner->meta.name);
    else if (owner)
        hvd_text_format(
            out, size,
            "is to go, as StatefulSet %s has %d replicas, and the StatefulSet controller "
            "has not deleted it: check kube-controller-manager, or delete the pod",
            owner->meta.name, (int)owner->u.statefulset.replicas);
    else
        hvd_text_format(
            out, size,
            "is to go, as the %s %s that made it is gone, and the garbage collector has "
            "not deleted it: check kube-controller-manager, or delete the pod",
            pod->meta.owner_kind, pod->meta.owner_name);
}
