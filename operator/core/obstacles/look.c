/*
 * Reads objects by name before a decision depends on their absence. A watch with a label selector
 * reports DELETED when another writer edits that label, and a list omits the object. So absence
 * alone ends no attempt, removes no worker, and stops no job. Only reads, and few of them: a
 * creation finds an existing object anyway, and an orderly end of an object is known. Pure.
 */
#include "operator/core/obstacles/look.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/attempt/loss.h"
#include "operator/core/children/children.h"
#include "operator/core/launch/launch.h"
#include "operator/core/obstacles/lingering.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/refusal.h"

/* Of a group: a sample of the pods that may keep a set from making others. */
#define PODS_AT_ONCE 8
#define FOREIGN_MS 60000  /* how often a foreign object is read */
#define OWNER_S 15        /* so long after a pod should be deleted, its unseen owner is read */
#define UNREAD_MIN_MS 100 /* first wait of a refused read, doubled each time */
#define UNREAD_MAX_MS 30000
#define SELECTOR_MAX 256
#define MESSAGE_SIZE 1024
#define POD_NAME_MAX (HVD_CHILD_NAME_MAX + 16)

static bool is_gone(const struct hvd_pass *p, enum hvd_kind kind, const char *name)
{
    for (size_t i = 0; i < p->view->n_gone; i++) {
        if (p->view->gone[i].kind == kind && hvd_str_equal(p->view->gone[i].name, name))
            return true;
    }
    return false;
}

/* Whether the view has an object of that kind and name. */
static bool is_in_view(const struct hvd_pass *p, enum hvd_kind kind, const char *name)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->kind == kind && hvd_str_equal(object->meta.name, name))
            return true;
    }
    return false;
}

bool hvd_look_waits(struct hvd_pass *p, const struct hvd_failure *failure)
{
    int64_t wait_ms = UNREAD_MIN_MS;

    for (unsigned i = 1; i < failure->n && wait_ms < UNREAD_MAX_MS; i++)
        wait_ms *= 2;
    wait_ms = wait_ms < UNREAD_MAX_MS ? wait_ms : UNREAD_MAX_MS;
    if (p->now_ms >= failure->at_ms + wait_ms)
        return false;
    hvd_plan_wake(p->plan, failure->at_ms + wait_ms);
    return true;
}

bool hvd_look_is_put_off(struct hvd_pass *p, enum hvd_kind kind, const char *name)
{
    const struct hvd_failure *failure = hvd_pass_failure(p, kind, name);

    if (!failure || failure->type != HVD_FAILURE_UNREAD)
        return false;
    if (hvd_refusal_is_told(failure) && !p->unread)
        p->unread = failure;
    if (!hvd_look_waits(p, failure))
        return false;
    p->is_unsure = true;
    return true;
}

static void look(struct hvd_pass *p, enum hvd_kind kind, const char *name)
{
    const struct hvd_action action = {.type = HVD_ACTION_LOOK, .kind = kind};

    if (!p->st && !hvd_look_is_put_off(p, kind, name))
        p->st = hvd_plan_add(p->plan, &action, p->job->namespace, name);
}

static void look_unless_gone(struct hvd_pass *p, enum hvd_kind kind, const char *name)
{
    if (!is_gone(p, kind, name))
        look(p, kind, name);
}

static bool has_pods_of_workers(const struct hvd_pass *p)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (hvd_pods_is_ours(p->view, object, &p->owners) && object->meta.role == HVD_ROLE_WORKER &&
            !object->meta.is_deleting)
            return true;
    }
    return false;
}

static bool has_sets_of_workers(const struct hvd_pass *p)
{
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        if (p->owners.sets[i] && p->owners.sets[i]->u.statefulset.replicas > 0)
            return true;
    }
    return false;
}

/* Whether sets must take pods down: the job is suspended, or its attempt has ended. */
static bool is_clearing(const struct hvd_pass *p)
{
    const struct hvd_job_status *status = &p->job->status;

    if (status->state == HVD_JOB_NEW || hvd_job_is_finished(status))
        return false;
    return p->job->spec.is_suspended || hvd_job_ended(status) > status->cleaned ||
           hvd_pass_is_stopping(p);
}

static void look_for_children(struct hvd_pass *p)
{
    const struct hvd_job_status *status = &p->job->status;
    bool is_finished = hvd_job_is_finished(status);
    bool has_pods = has_pods_of_workers(p);
    const enum hvd_kind launch_child = hvd_launch_of(p->job)->child;
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(p->job, HVD_KIND_JOB, name);
    if (!is_finished && status->attempts > status->cleaned && !p->child[HVD_KIND_JOB])
        look_unless_gone(p, HVD_KIND_JOB, name);
    hvd_children_name(p->job, launch_child, name);
    if (!is_finished && !p->child[launch_child] && (has_pods || has_sets_of_workers(p)))
        look_unless_gone(p, launch_child, name);
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        hvd_children_group_name(p->job, i, name);
        if (!p->owners.sets[i] && (has_pods || is_clearing(p)))
            look_unless_gone(p, HVD_KIND_STATEFULSET, name);
    }
}

/* Reads some of the first n workers of the group that are absent. Does not if so many of them
 * (most) are known to be gone that this explains the absence. */
static void look_for_workers(struct hvd_pass *p, size_t group, int64_t n, int most)
{
    char set[HVD_CHILD_NAME_MAX], name[POD_NAME_MAX];
    bool *seen = hvd_calloc((size_t)n, sizeof(seen[0]));
    int32_t ordinal;
    int n_known = 0;

    if (!seen) {
        p->st = HVD_ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        /* Even if another object controls the pod: a read would find the same. */
        ordinal = pod->kind == HVD_KIND_POD ? hvd_pods_ordinal(p->owners.sets[group], pod) : -1;
        if (ordinal >= 0 && ordinal < n)
            seen[ordinal] = true;
    }
    hvd_children_group_name(p->job, group, set);
    for (int64_t i = 0; i < n; i++) {
        hvd_text_format(name, sizeof(name), "%s-%lld", set, (long long)i);
        n_known += !seen[i] && is_gone(p, HVD_KIND_POD, name);
    }
    for (int64_t i = 0, left = n_known < most ? PODS_AT_ONCE - n_known : 0; i < n && left > 0;
         i++) {
        hvd_text_format(name, sizeof(name), "%s-%lld", set, (long long)i);
        if (seen[i] || is_gone(p, HVD_KIND_POD, name))
            continue;
        look(p, HVD_KIND_POD, name);
        left--;
    }
    hvd_free(seen);
}

/* The names of a Job's pods are random, so the pod is found by the Job controller's label. Reads
 * only if the status reports that the pod ran, or if no cause is known for its absence. */
static void look_for_master(struct hvd_pass *p)
{
    struct hvd_action action = {.type = HVD_ACTION_LOOK, .kind = HVD_KIND_POD};
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    char selector[SELECTOR_MAX];
    const struct hvd_failure *failure;

    if (p->pods.master || hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS ||
        job->u.job.is_complete || job->u.job.is_failed || is_gone(p, HVD_KIND_POD, job->meta.uid) ||
        p->st || hvd_look_is_put_off(p, HVD_KIND_POD, job->meta.uid))
        return;
    failure = hvd_pass_failure(p, HVD_KIND_JOB, job->meta.name);
    if (p->job->status.state != HVD_JOB_RUNNING &&
        !(failure && failure->type == HVD_FAILURE_NO_PODS && !failure->message &&
          !failure->is_open))
        return;
    hvd_text_format(selector, sizeof(selector), "batch.kubernetes.io/controller-uid=%s",
                    job->meta.uid);
    action.body = hvd_strdup(selector);
    p->st = action.body ? hvd_plan_add(p->plan, &action, p->job->namespace, job->meta.uid)
                        : HVD_ERR_NOMEM;
}

/* Reads the master's pod that the status names, of an attempt that is not cleared away: if it lost
 * all labels, no watch shows it, and its Job has released it. */
static void look_for_named(struct hvd_pass *p)
{
    const struct hvd_job_status *status = &p->job->status;
    char name[HVD_POD_NAME_SIZE];

    if (status->attempts > status->cleaned && hvd_pods_named(p->job, name) &&
        !is_in_view(p, HVD_KIND_POD, name))
        look_unless_gone(p, HVD_KIND_POD, name);
}

/* Reads foreign pods that have workers' names: no watch reports their end. */
static void look_for_foreign(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->view->n_failures; i++) {
        const struct hvd_failure *failure = &p->view->failures[i];

        if (failure->kind != HVD_KIND_POD || failure->type != HVD_FAILURE_FOREIGN)
            continue;
        if (p->now_ms >= failure->at_ms + FOREIGN_MS)
            look(p, HVD_KIND_POD, failure->name);
        else
            hvd_plan_wake(p->plan, failure->at_ms + FOREIGN_MS);
    }
}

static void look_for_pods(struct hvd_pass *p)
{
    look_for_named(p);
    look_for_master(p);
    look_for_foreign(p);
    for (size_t i = 0; i < p->job->spec.n_groups && !p->st; i++) {
        const struct hvd_object *set = p->owners.sets[i];
        int64_t counted_on = hvd_loss_counted_on(p, i);
        const struct hvd_failure *failure;

        if (hvd_pass_set(p, i) != HVD_CHILD_OURS)
            continue;
        failure = hvd_pass_failure(p, HVD_KIND_STATEFULSET, set->meta.name);
        if (p->pods.n_of[i] < counted_on)
            look_for_workers(p, i, counted_on, 1);
        else if (is_clearing(p) && p->pods.n_of[i] < set->u.statefulset.replicas)
            look_for_workers(p, i, set->u.statefulset.replicas, 1);
        else if (failure && failure->type == HVD_FAILURE_NO_PODS && !failure->message &&
                 !failure->is_open && p->pods.n_of[i] < set->u.statefulset.replicas)
            look_for_workers(p, i, set->u.statefulset.replicas, PODS_AT_ONCE);
    }
}

/* Reads StatefulSets and Jobs of our names whose pods should be deleted but whose existence is
 * unknown. No watch reports what an earlier job of this name left without an owner. In the normal
 * case the pods are gone soon, without any read. */
static void look_for_owners(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];
        const enum hvd_kind kind =
            pod->meta.role == HVD_ROLE_MASTER ? HVD_KIND_JOB : HVD_KIND_STATEFULSET;
        int64_t since_s;

        if (!hvd_pods_is_ours(p->view, pod, &p->owners) || !pod->meta.owner_name ||
            is_in_view(p, kind, pod->meta.owner_name) || is_gone(p, kind, pod->meta.owner_name))
            continue;
        since_s = hvd_lingering_since_s(p, pod);
        if (!since_s)
            continue;
        if (p->now_s >= since_s + OWNER_S) {
            look(p, kind, pod->meta.owner_name);
            return;
        }
        hvd_plan_wake(p->plan, (since_s + OWNER_S) * 1000);
    }
}

bool hvd_look_for_missing(struct hvd_pass *p)
{
    const bool is_finished = hvd_job_is_finished(&p->job->status);

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->meta.is_doubtful)
            look(p, object->kind, object->meta.name);
    }
    look_for_children(p);
    look_for_owners(p);
    if (!is_finished)
        look_for_pods(p);
    return p->plan->n_actions > 0 || (p->is_unsure && !is_finished);
}

bool hvd_look_describe(const struct hvd_pass *p, char *out, size_t size)
{
    if (!p->unread)
        return false;
    hvd_text_format(out, size, "%s %s cannot be read, will be tried again, and the %s for that: %s",
                    hvd_kind_info(p->unread->kind)->kind, p->unread->name,
                    p->unread->kind == HVD_KIND_NODE ? "list of hosts waits" : "job waits",
                    p->unread->message ? p->unread->message : "forbidden");
    return true;
}

void hvd_look_report(struct hvd_pass *p)
{
    const struct hvd_condition *known = &p->job->status.conditions[HVD_COND_WORKERS_READY];
    struct hvd_condition_update update = {HVD_COND_WORKERS_READY, known->truth, known->reason,
                                          NULL};
    char message[MESSAGE_SIZE];

    if (p->plan->n_actions > 0 || hvd_job_is_finished(&p->job->status) ||
        !hvd_look_describe(p, message, sizeof(message)))
        return;
    hvd_trouble_note(p, HVD_COND_WORKERS_READY, message, sizeof(message));
    update.message = message;
    if (known->truth == HVD_ABSENT) {
        update.truth = HVD_FALSE;
        update.reason = "WaitingForWorkers";
    }
    hvd_pass_condition(p, &update);
    if (p->job->status.state == HVD_JOB_NEW) {
        hvd_pass_state(p, HVD_JOB_PENDING);
        p->next.workers_desired = p->job->spec.replicas;
        if (p->next.start_s == 0 && !p->job->spec.is_suspended) /* the deadline counts from here */
            p->next.start_s = p->now_s;
        if (p->job->generation == 1) /* a later one may not be that of the running objects
                                        (start.c) */
            p->next.observed_generation = 1;
    }
    p->is_urgent = true;
}

bool hvd_look_is_expected(const struct hvd_object *set, const struct hvd_object *pod)
{
    return !set || set->meta.is_deleting ||
           (set->kind == HVD_KIND_STATEFULSET &&
            hvd_pods_ordinal(set, pod) >= set->u.statefulset.replicas);
}

bool hvd_look_is_adoptable(const struct hvd_object *pod)
{
    const struct hvd_meta *meta = &pod->meta;
    char set[HVD_CHILD_NAME_MAX];
    const char *tail = strrchr(meta->name, '-');

    if (meta->role != HVD_ROLE_WORKER || meta->owner_uid || meta->lost_labels ||
        meta->is_deleting || !tail || (size_t)(tail - meta->name) >= sizeof(set))
        return false;
    hvd_text_format(set, sizeof(set), "%.*s", (int)(tail - meta->name), meta->name);
    return hvd_pods_number_in(set, meta->name) >= 0 && hvd_str_has_prefix(set, meta->job) &&
           hvd_str_has_prefix(set + strlen(meta->job), "-worker");
}
