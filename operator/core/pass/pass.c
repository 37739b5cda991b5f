/*
 * The common part of all steps of a reconcile pass: reads the view, and adds to the plan and to the
 * next status. The first failure sticks, so that steps need no checks of their own. Pure.
 */
#include "operator/core/pass/pass.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/children/children.h"
#include "operator/core/children/owner.h"
#include "operator/core/pass/trouble.h"

#define ALIEN_RETRY_MS 60000

bool hvd_pass_is_ours(const struct hvd_pass *p, const struct hvd_object *object)
{
    return hvd_owner_is_job(p->job, object);
}

bool hvd_pass_is_leftover(const struct hvd_pass *p, const struct hvd_object *object)
{
    return !hvd_pass_is_ours(p, object) && hvd_str_equal(object->meta.owner_kind, HVD_JOB_KIND) &&
           hvd_str_equal(object->meta.owner_name, p->job->name);
}

const struct hvd_failure *hvd_pass_failure(const struct hvd_pass *p, enum hvd_kind kind,
                                           const char *name)
{
    for (size_t i = 0; i < p->view->n_failures; i++) {
        const struct hvd_failure *failure = &p->view->failures[i];

        if (failure->kind == kind && hvd_str_equal(failure->name, name))
            return failure;
    }
    return NULL;
}

static enum hvd_child_state state_of(const struct hvd_pass *p, const struct hvd_object *object,
                                     enum hvd_kind kind, const char *name)
{
    const struct hvd_failure *failure;

    if (object && hvd_pass_is_ours(p, object))
        return object->meta.is_deleting ? HVD_CHILD_WAIT : HVD_CHILD_OURS;
    if (object)
        return hvd_pass_is_leftover(p, object) ? HVD_CHILD_WAIT : HVD_CHILD_ALIEN;
    failure = hvd_pass_failure(p, kind, name);
    if (failure && failure->type == HVD_FAILURE_FOREIGN) {
        if (p->now_ms < failure->at_ms + ALIEN_RETRY_MS) {
            hvd_plan_wake(p->plan, failure->at_ms + ALIEN_RETRY_MS);
            return HVD_CHILD_ALIEN;
        }
    }
    return HVD_CHILD_MISSING;
}

enum hvd_child_state hvd_pass_child(const struct hvd_pass *p, enum hvd_kind kind)
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(p->job, kind, name);
    return state_of(p, p->child[kind], kind, name);
}

enum hvd_child_state hvd_pass_set(const struct hvd_pass *p, size_t group)
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_group_name(p->job, group, name);
    return state_of(p, p->owners.sets[group], HVD_KIND_STATEFULSET, name);
}

bool hvd_pass_is_stopping(const struct hvd_pass *p)
{
    const struct hvd_condition *known = &p->job->status.conditions[HVD_COND_SUSPENDED];

    return known->truth == HVD_TRUE ||
           (known->truth == HVD_FALSE && hvd_str_equal(known->reason, HVD_REASON_SUSPENDING)) ||
           (p->mark.state == HVD_JOB_SUSPENDED && !p->job->spec.is_suspended);
}

const cJSON *hvd_pass_spec(struct hvd_pass *p)
{
    if (p->spec || p->st)
        return p->spec;
    p->st = p->job->spec.text ? hvd_json_parse(p->job->spec.text, &p->spec)
                              : HVD_INPROGRESS; /* hvd_reconcile requests the spec */
    return p->spec;
}

bool hvd_pass_is_running(const struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;
    const struct hvd_object *job = p->child[HVD_KIND_JOB];

    /* The pod of a Job that is being deleted, and held by a finalizer, still runs. */
    return pod && pod->u.pod.phase == HVD_POD_RUNNING &&
           (!pod->meta.is_deleting || p->job->status.state == HVD_JOB_RUNNING) && job &&
           hvd_pass_is_ours(p, job);
}

void hvd_pass_condition(struct hvd_pass *p, const struct hvd_condition_update *update)
{
    const struct hvd_condition *was = &p->job->status.conditions[update->type];
    bool changed = false;

    if (p->st)
        return;
    p->st = hvd_job_condition_set(&p->next, update, p->now_s, &changed);
    p->is_urgent = p->is_urgent || changed || hvd_trouble_has_changed(was, update);
}

void hvd_pass_state(struct hvd_pass *p, enum hvd_job_state state)
{
    p->is_urgent = p->is_urgent || p->next.state != state;
    p->next.state = state;
}

void hvd_pass_event(struct hvd_pass *p, const char *reason, const char *message, bool is_warning)
{
    const struct hvd_event event = {reason, message, is_warning, NULL};

    p->is_urgent = true;
    if (!p->st)
        p->st = hvd_plan_event(p->plan, p->job, &event, p->now_s);
}

void hvd_pass_end_event(struct hvd_pass *p, const char *reason, const char *message,
                        bool is_warning)
{
    const struct hvd_event event = {reason, message, is_warning, "end"};

    p->is_urgent = true;
    if (!p->st)
        p->st = hvd_plan_event(p->plan, p->job, &event, p->now_s);
}
