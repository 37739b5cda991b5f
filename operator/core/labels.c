/*
 * Puts labels and owner references of ours back that somebody has edited. Without them an object
 * leaves the sight of the watches, the Service forgets the pod, and a StatefulSet lets it go. Whose
 * an object is, its controller says, or what cannot change in a pod: never the labels themselves.
 * Pure.
 */
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/children.h"
#include "operator/core/owner.h"
#include "operator/core/pass.h"
#include "operator/core/patch.h"

#define MESSAGE_SIZE 512
#define EVENTS_MAX 16 /* of a pass; one more tells of all further objects */

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
        hvd_pass_text(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", labels[i].name);
        len = strlen(names);
    }
    hvd_pass_text(message, sizeof(message),
                  "%s %s: somebody changed or removed the label %s, which the operator puts back",
                  hvd_kind_info(object->kind)->kind, object->meta.name, names);
    hvd_pass_event(p, "LabelsRestored", message, true);
}

static void report_many(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE];

    hvd_pass_text(message, sizeof(message),
                  "somebody changed or removed labels of more than %d objects at once, which the "
                  "operator puts back",
                  EVENTS_MAX);
    hvd_pass_event(p, "LabelsRestored", message, true);
}

/* The pod of a worker or of the current master, also while its Job has not adopted it again: no
 * watch reports of that without the label. False for every other. */
static bool is_our_pod(const struct hvd_pass *p, const struct hvd_object *pod,
                       struct hvd_worker *worker)
{
    return hvd_pods_identify(p->view, pod, &p->owners, worker) || pod == p->pods.master ||
           (pod == p->pods.stray && hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS);
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
    hvd_child_labels(&jb, meta, p->job, object->kind);
    if (object->kind == HVD_KIND_POD)
        hvd_jb_str(&jb, (cJSON *)hvd_json_get(meta, "labels"), HVD_LABEL_ROLE,
                   object->meta.role == HVD_ROLE_MASTER ? "master" : "worker");
    if (object->meta.lost_labels & HVD_LOST_GROUP)
        hvd_jb_str(&jb, (cJSON *)hvd_json_get(meta, "labels"), HVD_LABEL_GROUP,
                   p->job->spec.groups[worker.group].name);
    patch.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    hvd_pass_patch(p, object, &patch);
}

/* Makes the job the controller of its child again, beside owners of other sorts. */
static void adopt(struct hvd_pass *p, const struct hvd_object *child)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *steps = hvd_jb_array(&jb, root, "patch");
    const struct hvd_write write = {child->kind, child->meta.name, HVD_REPAIR_OWNER, 0};
    struct hvd_patch patch = {.repair = HVD_REPAIR_OWNER, .is_json_patch = true};
    char message[MESSAGE_SIZE];
    cJSON *step;

    hvd_pass_text(message, sizeof(message),
                  "%s %s: somebody removed its owner reference, which the operator puts back",
                  hvd_kind_info(child->kind)->kind, child->meta.name);
    if (!hvd_contest_is_repeated(p, &write))
        hvd_pass_event(p, "OwnerRestored", message, true);
    hvd_patch_expect_steps(&jb, steps, &child->meta);
    step = hvd_patch_step(&jb, steps, "add",
                          child->meta.has_owners ? "/metadata/ownerReferences/-"
                                                 : "/metadata/ownerReferences");
    if (child->meta.has_owners)
        hvd_child_owner(&jb, hvd_jb_object(&jb, step, "value"), p->job);
    else
        hvd_child_owner(&jb, hvd_jb_object(&jb, hvd_jb_array(&jb, step, "value"), NULL), p->job);
    patch.body = hvd_jb_print(&jb, steps);
    cJSON_Delete(root);
    hvd_pass_patch(p, child, &patch);
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

void hvd_labels_restore(struct hvd_pass *p)
{
    unsigned n_told = 0;

    for (size_t i = 0; i < p->view->n_objects && !p->st; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->meta.is_deleting || is_leaving(p, object))
            continue;
        if (hvd_owner_is_lost(p->job, object)) /* first: the watch then shows a child of the job */
            adopt(p, object);
        else if (object->meta.lost_labels)
            restore(p, object, &n_told);
    }
}
