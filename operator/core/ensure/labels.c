/*
 * Restores the operator's labels and owner references after edits. Without them watches lose the
 * object, the Service drops the pod, and a StatefulSet releases it. The controller of an object, or
 * the immutable fields of a pod, identify its job: never the labels themselves. Pure.
 */
#include "operator/core/ensure/labels.h"

#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/children/children.h"
#include "operator/core/children/hosts.h"
#include "operator/core/children/owner.h"
#include "operator/core/children/patch.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/write.h"

#define MESSAGE_SIZE 512
#define LABEL_OF_JOB "batch.kubernetes.io/job-name"
#define EVENTS_MAX 16 /* in a pass; one more event covers all further objects */

static const struct {
    enum hvd_label bit;
    const char *name;
} labels[] = {{HVD_LOST_MANAGER, HVD_LABEL_MANAGED_BY},
              {HVD_LOST_JOB, HVD_LABEL_JOB},
              {HVD_LOST_ROLE, HVD_LABEL_ROLE},
              {HVD_LOST_GROUP, HVD_LABEL_GROUP}};

static void report(struct hvd_pass *p, const struct hvd_object *object)
{
    char message[MESSAGE_SIZE], names[MESSAGE_SIZE / 2] = "";
    size_t len = 0;

    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        if (!(object->meta.lost_labels & (int32_t)labels[i].bit))
            continue;
        hvd_text_format(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", labels[i].name);
        len = strlen(names);
    }
    if (len == 0)
        hvd_text_format(names, sizeof(names), "%s", LABEL_OF_JOB);
    hvd_text_format(message, sizeof(message),
                    "%s %s: somebody changed or removed the label %s, which the operator puts back",
                    hvd_kind_info(object->kind)->kind, object->meta.name, names);
    hvd_pass_event(p, "LabelsRestored", message, true);
}

static void report_many(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE];

    hvd_text_format(message, sizeof(message),
                    "somebody changed or removed labels of more than %d objects at once, which the "
                    "operator puts back",
                    EVENTS_MAX);
    hvd_pass_event(p, "LabelsRestored", message, true);
}

/* Whether it is the pod of a worker or of the current master. That includes a pod that its Job has
 * not adopted again, and a pod that is to go: without the label no watch reports its end. */
static bool is_our_pod(const struct hvd_pass *p, const struct hvd_object *pod,
                       struct hvd_worker *worker)
{
    return hvd_pods_identify(p->view, pod, &p->owners, worker) || pod == p->pods.master ||
           pod == p->pods.stray;
}

/* Adds the label of the Job controller that selects nothing, and names the maker of the pod. */
static void put_label_of_job(struct hvd_jb *jb, cJSON *to, const struct hvd_job *job)
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(job, HVD_KIND_JOB, name);
    hvd_jb_str(jb, to, LABEL_OF_JOB, name);
}

/* Whether only the status identifies the pod as a master that its Job has released. */
static bool is_unlabelled(const struct hvd_pass *p, const struct hvd_object *pod)
{
    return pod == p->pods.stray && !pod->u.pod.is_orphan;
}

/* n_told: events of this pass. */
static void restore(struct hvd_pass *p, const struct hvd_object *object, unsigned *n_told)
{
    const struct hvd_write write = {object->kind, object->meta.name, HVD_REPAIR_LABELS, 0};
    struct hvd_patch patch = {.repair = HVD_REPAIR_LABELS};
    struct hvd_worker worker = {0};
    struct hvd_jb jb = {0};
    cJSON *root, *meta;

    if (object->kind == HVD_KIND_POD ? !is_our_pod(p, object, &worker)
                                     : !hvd_pass_is_ours(p, object))
        return;
    if (!hvd_contest_is_repeated(p, &write) && !hvd_contest_is_shared(p, &write)) {
        (*n_told)++;
        if (*n_told <= EVENTS_MAX)
            report(p, object);
        else if (*n_told == EVENTS_MAX + 1)
            report_many(p);
    }
    root = hvd_jb_root(&jb);
    meta = hvd_jb_object(&jb, root, "metadata");
    hvd_patch_expect(&jb, meta, &object->meta);
    hvd_children_labels(&jb, meta, p->job, object->kind);
    if (object->kind == HVD_KIND_POD)
        hvd_jb_str(&jb, (cJSON *)hvd_json_get(meta, "labels"), HVD_LABEL_ROLE,
                   object->meta.role == HVD_ROLE_MASTER ? "master" : "worker");
    if (object == p->pods.stray)
        put_label_of_job(&jb, (cJSON *)hvd_json_get(meta, "labels"), p->job);
    if (object->meta.lost_labels & HVD_LOST_GROUP)
        hvd_jb_str(&jb, (cJSON *)hvd_json_get(meta, "labels"), HVD_LABEL_GROUP,
                   p->job->spec.groups[worker.group].name);
    patch.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    hvd_write_patch(p, object, &patch);
}

static void report_owner(struct hvd_pass *p, const struct hvd_object *child)
{
    const char *kind = hvd_kind_info(child->kind)->kind;
    char message[MESSAGE_SIZE];

    if (child->meta.noted == HVD_NOTED_MADE)
        hvd_text_format(message, sizeof(message),
                        "%s %s came without its owner reference when the operator made it, as an "
                        "admission webhook removed that: the operator puts it back",
                        kind, child->meta.name);
    else
        hvd_text_format(message, sizeof(message),
                        "%s %s: somebody %s its owner reference, which the operator puts back",
                        kind, child->meta.name, child->meta.owner_uid ? "replaced" : "removed");
    hvd_pass_event(p, "OwnerRestored", message, true);
}

/* A JSON patch that adds the job as the controller beside owners of other kinds. Owned. */
static char *join_owners(struct hvd_pass *p, const struct hvd_object *child)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *steps = hvd_jb_array(&jb, root, "patch");
    cJSON *step;
    char *body;

    hvd_patch_expect_steps(&jb, steps, &child->meta);
    step = hvd_patch_step(&jb, steps, "add", "/metadata/ownerReferences/-");
    hvd_children_owner(&jb, hvd_jb_object(&jb, step, "value"), p->job);
    body = hvd_jb_print(&jb, steps);
    cJSON_Delete(root);
    return body;
}

/* A merge patch that makes the job the only owner. It also restores the annotations that are lost
 * together with the reference when a writer replaces the whole object. Owned. */
static char *replace_owners(struct hvd_pass *p, const struct hvd_object *child)
{
    const bool has_hash = /* or nothing will read it, or it may be of another spec */
        child->kind != HVD_KIND_STATEFULSET || child->u.statefulset.spec_hash ||
        hvd_job_is_finished(&p->job->status) ||
        p->job->generation != p->job->status.observed_generation;
    const struct hvd_child_inputs in = {.job = p->job,
                                        .spec = has_hash ? NULL : hvd_pass_spec(p),
                                        .attempt = hvd_job_ended(&p->job->status) + 1};
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *meta = hvd_jb_object(&jb, root, "metadata");
    char *body;

    hvd_patch_expect(&jb, meta, &child->meta);
    hvd_children_owner(&jb, hvd_jb_object(&jb, hvd_jb_array(&jb, meta, "ownerReferences"), NULL),
                       p->job);
    hvd_children_restore_marks(&jb, meta, &in, child);
    body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    return body;
}

/* Makes the job the controller of its child again. */
static void adopt(struct hvd_pass *p, const struct hvd_object *child)
{
    const bool is_shared = child->meta.has_owners && !child->meta.owner_uid;
    const struct hvd_write write = {child->kind, child->meta.name, HVD_REPAIR_OWNER, 0};
    struct hvd_patch patch = {.repair = HVD_REPAIR_OWNER, .is_json_patch = is_shared};

    patch.body = is_shared ? join_owners(p, child) : replace_owners(p, child);
    if (!p->st && !hvd_contest_is_repeated(p, &write))
        report_owner(p, child);
    hvd_write_patch(p, child, &patch);
}

/* Whether this plan removes the object. */
static bool is_leaving(const struct hvd_pass *p, const struct hvd_object *object)
{
    for (size_t i = 0; i < p->plan->n_actions; i++) {
        const struct hvd_action *action = &p->plan->actions[i];

        if (action->type == HVD_ACTION_DELETE && action->kind == object->kind &&
            hvd_str_equal(action->name, object->meta.name))
            return true;
    }
    return false;
}

void hvd_labels_restore_owners(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->view->n_objects && !p->st; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (!object->meta.is_deleting && !is_leaving(p, object) &&
            hvd_owner_is_lost(p->job, object))
            adopt(p, object);
    }
}

void hvd_labels_restore_stray(struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.stray;
    unsigned n_told = 0;

    if (!p->st && pod && (pod->meta.lost_labels || is_unlabelled(p, pod)) &&
        !pod->meta.is_deleting && !is_leaving(p, pod))
        restore(p, pod, &n_told);
}

void hvd_labels_restore(struct hvd_pass *p)
{
    unsigned n_told = 0;

    for (size_t i = 0; i < p->view->n_objects && !p->st; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->meta.is_deleting || is_leaving(p, object))
            continue;
        if (hvd_owner_is_lost(p->job, object)) /* first: then watches see it as a child of the
                                                  job */
            adopt(p, object);
        else if (object->meta.lost_labels || is_unlabelled(p, object))
            restore(p, object, &n_told);
    }
}
