/*
 * Objects of a job that should be gone but are not: a finalizer holds them, no kubelet ends a pod,
 * or the controllers that delete them do not work. The job waits for them, because they hold their
 * names. The condition DeletionBlocked and one event name the first of them, since when it is so,
 * and who has to act. Meanwhile the operator writes nothing; a watch reports the end of the object.
 * Pure.
 */
#include "operator/core/obstacles/terminating.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/finalizers.h"
#include "operator/api/rfc3339.h"
#include "operator/core/obstacles/lingering.h"
#include "operator/core/view/text.h"

#define MESSAGE_SIZE 1024
#define SUBJECT_SIZE 512
#define OVERDUE_S 10 /* an object may take so long to go after its deletion */
#define SLOW_S 60    /* the same if the garbage collector has to work first */
#define KUBELET_S 30 /* the same for a pod, after its grace period, that its kubelet must end */

/* The object to name, and the number of such objects. */
struct blocked {
    const struct hvd_object *first;
    size_t n;
};

/* Whether the garbage collector alone holds an object with these finalizers. */
static bool is_collected(const char *finalizers)
{
    return hvd_str_equal(finalizers, HVD_FINALIZER_FOREGROUND) ||
           hvd_str_equal(finalizers, HVD_FINALIZER_ORPHAN);
}

static bool is_of_job(const struct hvd_pass *p, const struct hvd_object *object)
{
    if (object->kind == HVD_KIND_POD)
        return hvd_pods_is_ours(p->view, object, &p->owners);
    return hvd_pass_is_ours(p, object) || hvd_pass_is_leftover(p, object);
}

/* When the object counts as stuck; 0: it is not to go. */
static int64_t due_s(const struct hvd_pass *p, const struct hvd_object *object)
{
    const struct hvd_meta *meta = &object->meta;

    if (meta->is_doubtful) /* its existence is unknown */
        return 0;
    if (!meta->is_deleting && object->kind == HVD_KIND_POD) {
        const int64_t since_s = hvd_lingering_since_s(p, object);

        return since_s ? since_s + SLOW_S : 0;
    }
    if (!meta->is_deleting && !hvd_pass_is_leftover(p, object))
        return 0;
    if (!meta->is_deleting)
        return SLOW_S + (meta->created_s > p->job->created_s ? meta->created_s : p->job->created_s);
    if (is_collected(meta->finalizers))
        return meta->deletion_s + SLOW_S;
    return meta->deletion_s +
           (object->kind == HVD_KIND_POD && !meta->finalizers ? KUBELET_S : OVERDUE_S);
}

/* Begins the message about the object. */
static void name_subject(const struct hvd_object *object, char out[SUBJECT_SIZE])
{
    hvd_text_format(out, SUBJECT_SIZE, "%s %s/%s ", hvd_kind_info(object->kind)->kind,
                    object->meta.namespace, object->meta.name);
}

/* Whether the object is the pod without a deletion that the status already names. */
static bool is_named(const struct hvd_pass *p, const struct hvd_object *object)
{
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_DELETION_BLOCKED];
    char subject[SUBJECT_SIZE];

    if (object->kind != HVD_KIND_POD || object->meta.is_deleting || was->truth != HVD_TRUE)
        return false;
    name_subject(object, subject);
    return hvd_str_has_prefix(was->message, subject);
}

static bool is_before(const struct hvd_pass *p, const struct hvd_object *a,
                      const struct hvd_object *b)
{
    /* All of them are to go for one reason and become due one by one: keep the pod that is named.
     */
    if (a->kind == HVD_KIND_POD && b->kind == HVD_KIND_POD && is_named(p, a) != is_named(p, b))
        return is_named(p, a);
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return strcmp(a->meta.name, b->meta.name) < 0;
}

/* The HorovodJob as one of its own objects: it is the last to go. */
static struct hvd_object self(const struct hvd_pass *p)
{
    return (struct hvd_object){.kind = HVD_KIND_HOROVODJOB,
                               .meta = {.namespace = p->job->namespace,
                                        .name = p->job->name,
                                        .is_deleting = p->job->is_deleting,
                                        .deletion_s = p->job->deletion_s,
                                        .finalizers = p->job->finalizers}};
}

static struct blocked find(struct hvd_pass *p, const struct hvd_object *job)
{
    struct blocked found = {NULL, 0};

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];
        const int64_t due = is_of_job(p, object) ? due_s(p, object) : 0;

        if (due == 0)
            continue;
        if (p->now_s < due) {
            hvd_plan_wake(p->plan, due * 1000);
            continue;
        }
        found.n++;
        if (!found.first || is_before(p, object, found.first))
            found.first = object;
    }
    if (found.first || !job->meta.is_deleting)
        return found;
    if (p->now_s >= due_s(p, job))
        return (struct blocked){job, 1};
    hvd_plan_wake(p->plan, due_s(p, job) * 1000);
    return found;
}

/* Describes why the object does not go, and what to do. */
static void describe(const struct hvd_pass *p, const struct hvd_object *object, char *out,
                     size_t size)
{
    const struct hvd_kind_info *info = hvd_kind_info(object->kind);
    const struct hvd_meta *meta = &object->meta;
    const bool is_pod = object->kind == HVD_KIND_POD;
    char since[HVD_RFC3339_SIZE];

    hvd_rfc3339_format(meta->deletion_s - (is_pod ? object->u.pod.grace_s : 0), since);
    if (!meta->is_deleting && is_pod)
        hvd_lingering_describe(p, object, out, size);
    else if (!meta->is_deleting)
        hvd_text_format(
            out, size,
            "belongs to a deleted HorovodJob of this name, and the garbage collector has "
            "not removed it: check kube-controller-manager, or delete the object");
    else if (is_collected(meta->finalizers))
        hvd_text_format(out, size,
                        "is terminating since %s, and the garbage collector, whose finalizer %s "
                        "holds it, has not finished: check kube-controller-manager and what the "
                        "object owns",
                        since, meta->finalizers);
    else if (meta->finalizers)
        hvd_text_format(
            out, size,
            "is terminating since %s, held by finalizers [%s]: the program that set them "
            "has to remove them; if it is gone, kubectl patch %s %s -n %s --type=merge "
            "-p '{\"metadata\":{\"finalizers\":null}}'",
            since, meta->finalizers, info->resource, meta->name, meta->namespace);
    else if (is_pod)
        hvd_text_format(
            out, size,
            "is terminating since %s, and the kubelet of node %s has not ended it: check "
            "the node; the pod is removed by force a minute after its grace period",
            since, object->u.pod.node ? object->u.pod.node : "(none)");
    else
        hvd_text_format(out, size, "is terminating since %s", since);
}

static void announce(struct hvd_pass *p, const char *subject, const char *message)
{
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_DELETION_BLOCKED];
    const struct hvd_event event = {
        .reason = "DeletionBlocked", .message = message, .is_warning = true, .key = subject};

    if (p->st || (was->truth == HVD_TRUE && hvd_str_has_prefix(was->message, subject)))
        return;
    p->is_urgent = true;
    p->st = hvd_plan_event(p->plan, p->job, &event, p->now_s);
}

static void show(struct hvd_pass *p, const char *reason, const char *subject, const char *text)
{
    struct hvd_condition_update update = {HVD_COND_DELETION_BLOCKED, HVD_TRUE, reason, NULL};
    char message[MESSAGE_SIZE];

    hvd_text_format(message, sizeof(message), "%s%s", subject, text);
    update.message = message;
    announce(p, subject, message);
    hvd_pass_condition(p, &update);
}

static void show_object(struct hvd_pass *p, const struct blocked *blocked)
{
    const struct hvd_meta *meta = &blocked->first->meta;
    char subject[SUBJECT_SIZE], text[MESSAGE_SIZE - 128], more[64] = "";

    name_subject(blocked->first, subject);
    describe(p, blocked->first, text, sizeof(text));
    if (blocked->n > 1)
        (void)snprintf(more, sizeof(more), "; further objects that do not go: %zu", blocked->n - 1);
    hvd_text_format(text + strlen(text), sizeof(text) - strlen(text), "%s", more);
    show(p, meta->is_deleting ? "ObjectTerminating" : HVD_REASON_NOT_DELETED, subject, text);
}

/* Corrects whether the workers of a finished job are removed, which WorkersReady reports from the
 * job's end on. */
static void correct_workers(struct hvd_pass *p, bool is_blocked)
{
    const struct hvd_condition *workers = &p->next.conditions[HVD_COND_WORKERS_READY];
    const bool is_there = is_blocked && p->pods.n_workers > 0;
    const struct hvd_condition_update update = {
        HVD_COND_WORKERS_READY, HVD_FALSE, HVD_REASON_JOB_FINISHED,
        is_there ? "the job has finished, and workers are not removed yet: see the condition "
                   "DeletionBlocked"
                 : HVD_TEXT_REMOVED};

    if (hvd_job_is_finished(&p->job->status) && workers->truth == HVD_FALSE &&
        hvd_str_equal(workers->reason, HVD_REASON_JOB_FINISHED) &&
        !hvd_str_equal(workers->message, update.message))
        hvd_pass_condition(p, &update);
}

void hvd_terminating_report(struct hvd_pass *p)
{
    static const struct hvd_condition_update over = {HVD_COND_DELETION_BLOCKED, HVD_FALSE,
                                                     "ObjectsGone",
                                                     "no object of the job is held any more"};
    const struct hvd_object job = self(p);
    struct blocked blocked;

    if (p->st)
        return;
    blocked = find(p, &job);
    if (blocked.first)
        show_object(p, &blocked);
    else if (p->job->status.conditions[HVD_COND_DELETION_BLOCKED].truth == HVD_TRUE)
        hvd_pass_condition(p, &over);
    correct_workers(p, blocked.first != NULL);
}

bool hvd_terminating_leaves_pod(struct hvd_pass *p, const struct hvd_object *pod)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *owner = p->view->objects[i];
        const int64_t due = owner->meta.deletion_s + OVERDUE_S;

        if (owner->kind == HVD_KIND_POD || !owner->meta.is_deleting ||
            !hvd_str_equal(owner->meta.uid, pod->meta.owner_uid))
            continue;
        if (p->now_s < due)
            hvd_plan_wake(p->plan, due * 1000);
        return p->now_s >= due;
    }
    return false;
}
