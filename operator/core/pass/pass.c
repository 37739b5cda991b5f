/*
 * What every step of a reconcile pass uses: reading the view, and adding to the plan and to the
 * next status. The first failure sticks, so that steps need no checks of their own. Pure.
 */
#include "operator/core/pass/pass.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/children/children.h"
#include "operator/core/children/owner.h"
#include "operator/core/obstacles/look.h"
#include "operator/core/pass/plan.h"
#include "operator/core/pass/trouble.h"

#define ALIEN_RETRY_MS 60000
#define LOCATED_AT_ONCE 256 /* nodes read at the same time */

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
                              : HVD_INPROGRESS; /* hvd_reconcile asks for it */
    return p->spec;
}

/* The failure of jb sticks; the data are the pass's then. */
static const cJSON *take_hosts(struct hvd_pass *p, const struct hvd_jb *jb, cJSON *data,
                               cJSON **slot)
{
    *slot = data;
    if (jb->failed)
        p->st = HVD_ERR_NOMEM;
    return jb->failed ? NULL : data;
}

static bool is_asked_for(const struct hvd_pass *p, const char *node)
{
    for (size_t i = 0; i < p->plan->n_actions; i++) {
        if (p->plan->actions[i].type == HVD_ACTION_LOCATE &&
            hvd_str_equal(p->plan->actions[i].name, node))
            return true;
    }
    return false;
}

static void ask_for(struct hvd_pass *p, const char *node)
{
    const struct hvd_action action = {.type = HVD_ACTION_LOCATE,
                                      .kind = HVD_KIND_NODE,
                                      .body = hvd_strdup(p->job->spec.topology_keys)};

    p->st = hvd_plan_add(p->plan, &action, p->job->namespace, node);
}

/* Finds the topology of all Ready workers; asks for nodes that are not known, some at a time, and
 * returns false then. */
static bool locate(struct hvd_pass *p)
{
    const struct hvd_topology_source *topology = p->view->topology;
    const char *keys = p->job->spec.topology_keys;
    int n_asked = 0;

    if (!keys || !topology)
        return true;
    for (size_t i = 0; i < p->pods.n_ready && !p->st && n_asked < LOCATED_AT_ONCE; i++) {
        struct hvd_worker *worker = &p->pods.ready[i];
        const char *node = worker->pod->u.pod.node;

        worker->topology = node ? topology->find(topology->ctx, node, keys) : "";
        if (worker->topology)
            continue;
        n_asked++;
        if (!is_asked_for(p, node) && !hvd_look_is_put_off(p, HVD_KIND_NODE, node))
            ask_for(p, node);
    }
    return n_asked == 0 && !p->st;
}

const cJSON *hvd_pass_hosts(struct hvd_pass *p)
{
    struct hvd_jb jb = {0};

    if (p->hosts_data || p->st)
        return p->st ? NULL : p->hosts_data;
    if (!locate(p))
        return NULL;
    hvd_pods_sort(&p->pods);
    return take_hosts(p, &jb, hvd_hosts_data(&jb, p->job, p->pods.ready, p->pods.n_ready),
                      &p->hosts_data);
}

const cJSON *hvd_pass_all_hosts(struct hvd_pass *p)
{
    struct hvd_jb jb = {0};

    if (p->all_hosts_data || p->st)
        return p->st ? NULL : p->all_hosts_data;
    return take_hosts(p, &jb, hvd_hosts_data_of_all(&jb, p->job), &p->all_hosts_data);
}

const struct hvd_worker_failure *hvd_pass_loss(const struct hvd_pass *p)
{
    const struct hvd_worker_failure *known = &p->next.worker_failure;

    return known->message && known->attempt == hvd_job_ended(&p->job->status) + 1 ? known : NULL;
}

void hvd_pass_attempt(const struct hvd_pass *p, char out[HVD_ATTEMPT_SIZE])
{
    const struct hvd_job_status *status = &p->job->status;
    int64_t number = (int64_t)status->failures + 1;
    int64_t of = (int64_t)p->job->spec.backoff_limit + 1;
    int n;

    if (of < number) /* the limit was lowered meanwhile */
        of = number;
    n = snprintf(out, HVD_ATTEMPT_SIZE, "attempt %lld of %lld", (long long)number, (long long)of);
    if (status->interruptions > 0)
        (void)snprintf(out + n, HVD_ATTEMPT_SIZE - (size_t)n, " after %d interruption%s",
                       status->interruptions, status->interruptions == 1 ? "" : "s");
}

bool hvd_pass_is_running(const struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;
    const struct hvd_object *job = p->child[HVD_KIND_JOB];

    /* The pod of a Job that is being deleted, and held, runs on. */
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

void hvd_pass_attempt_end(struct hvd_pass *p, const struct hvd_attempt_end *end)
{
    char *message = p->st ? NULL : hvd_strdup(end->message);

    if (p->st)
        return;
    if (!message) {
        p->st = HVD_ERR_NOMEM;
        return;
    }
    hvd_free(p->end_message);
    p->end_message = message;
    p->end = *end;
    p->end.message = message;
    p->end.number = end->number ? end->number : hvd_job_ended(&p->next);
    p->end.at_s = p->now_s;
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

void hvd_pass_patch(struct hvd_pass *p, const struct hvd_object *object,
                    const struct hvd_patch *patch)
{
    const struct hvd_action action = {.type = HVD_ACTION_PATCH,
                                      .kind = object->kind,
                                      .body = patch->body,
                                      .repair = patch->repair,
                                      .value = patch->value,
                                      .is_json_patch = patch->is_json_patch,
                                      .is_template = patch->is_template};
    const struct hvd_write write = {object->kind, object->meta.name, patch->repair, patch->value};

    if (p->st || (patch->body && !hvd_contest_admit(p, &write))) {
        hvd_free(patch->body);
        return;
    }
    p->st = hvd_plan_add(p->plan, &action, object->meta.namespace, object->meta.name);
}

void hvd_pass_delete_for(struct hvd_pass *p, const struct hvd_object *object,
                         enum hvd_repair repair)
{
    const struct hvd_write write = {object->kind, object->meta.name, repair, HVD_REPAIR_ABSENT};

    if (!p->st && hvd_contest_admit(p, &write))
        p->st = hvd_plan_delete(p->plan, &write, object->meta.namespace, object->meta.uid);
}

void hvd_pass_delete(struct hvd_pass *p, const struct hvd_object *object)
{
    hvd_pass_delete_for(p, object, hvd_repair_of_existence(object->kind));
}

void hvd_pass_text(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    size_t len;
    int wanted;

    va_start(args, fmt);
    wanted = vsnprintf(out, size, fmt, args);
    va_end(args);
    if (wanted < 0 || (size_t)wanted < size)
        return;
    /* Cut: drop the last character, which may be a part of one. */
    for (len = strlen(out); len > 0; len--) {
        bool is_first_byte = ((unsigned char)out[len - 1] & 0xC0) != 0x80;

        out[len - 1] = '\0';
        if (is_first_byte)
            break;
    }
}
