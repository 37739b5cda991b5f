/* Facts about an object that its own fields lack. Pure but for the allocator and a clock. */
#include "operator/app/history.h"

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/kind.h"
#include "operator/app/clock.h"

/* Replaces a text that the object owns. */
static hvd_status_t set_text(char **slot, const char *text)
{
    char *copy = hvd_strdup(text);

    if (!copy)
        return HVD_ERR_NOMEM;
    hvd_free(*slot);
    *slot = copy;
    return HVD_OK;
}

/* Records that the store saw a master under its Job, which has released it, whatever its labels are
 * now. Records when a deletion was seen (hvd_pod_view). */
static void note_pod(const struct hvd_object *known, struct hvd_object *pod)
{
    const bool is_free = pod->meta.role == HVD_ROLE_MASTER && !pod->meta.owner_kind;
    struct hvd_pod_view *view = &pod->u.pod;

    if (known && is_free)
        view->is_orphan |= known->u.pod.is_orphan || hvd_str_equal(known->meta.owner_kind, "Job");
    if (view->deleted_s == 0)
        return;
    if (!known)
        view->going_ms = hvd_clock_ms() - view->grace_s * 1000;
    else
        view->going_ms = known->u.pod.going_ms ? known->u.pod.going_ms : hvd_clock_ms();
    if (view->going_ms <= 0)
        view->going_ms = 1;
}

/* Records the child's owner, and where it is filed. */
static hvd_status_t note_owner(struct hvd_object *child, const char *job_uid, const char *job_name,
                               enum hvd_noted noted)
{
    hvd_status_t st = set_text(&child->meta.made_for, job_uid);

    if (st == HVD_OK)
        st = set_text(&child->meta.job, job_name);
    if (st == HVD_OK)
        child->meta.noted = noted;
    return st;
}

static hvd_status_t note_child(const struct hvd_object *known, struct hvd_object *child)
{
    const bool was_owned = known && hvd_str_equal(known->meta.owner_kind, HVD_JOB_KIND);

    if (!known || hvd_str_equal(child->meta.owner_kind, HVD_JOB_KIND))
        return HVD_OK;
    if (was_owned)
        return note_owner(child, known->meta.owner_uid, known->meta.job, HVD_NOTED_SEEN);
    return known->meta.noted
               ? note_owner(child, known->meta.made_for, known->meta.job, known->meta.noted)
               : HVD_OK;
}

hvd_status_t hvd_history_note(struct hvd_store *store, struct hvd_object *object)
{
    const struct hvd_object *known =
        hvd_store_find(store, object->kind, object->meta.namespace, object->meta.name);

    if (known && !hvd_str_equal(known->meta.uid, object->meta.uid))
        known = NULL;
    if (object->kind != HVD_KIND_POD)
        return note_child(known, object);
    note_pod(known, object);
    return HVD_OK;
}

hvd_status_t hvd_history_note_made(const struct hvd_job *job, struct hvd_object *object)
{
    const char *made_for = object->meta.made_for;

    /* By now the job may be another one of its name. */
    if (hvd_str_equal(object->meta.owner_kind, HVD_JOB_KIND) ||
        (made_for && !hvd_str_equal(made_for, job->uid)))
        return HVD_OK;
    return note_owner(object, job->uid, job->name, HVD_NOTED_MADE);
}
