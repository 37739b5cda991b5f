/*
 * The list of actions, and the bodies that are the same for every kind. Pure.
 *
 * Events are written before the status that records their occasion. If the operator dies in
 * between, its successor decides the same again and writes the same event. The event's name is a
 * hash of the occasion and of the persisted status, so the API server answers AlreadyExists and no
 * duplicate appears.
 */
#include "operator/core/pass/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/view/hash.h"

#define NAME_MAX_SIZE 80

static hvd_status_t grow(struct hvd_plan *plan)
{
    size_t capacity = plan->_capacity ? plan->_capacity * 2 : 8;
    struct hvd_action *bigger;

    if (plan->n_actions < plan->_capacity)
        return HVD_OK;
    bigger = hvd_realloc(plan->actions, capacity, sizeof(plan->actions[0]));
    if (!bigger)
        return HVD_ERR_NOMEM;
    plan->actions = bigger;
    plan->_capacity = capacity;
    return HVD_OK;
}

static void action_fini(struct hvd_action *action)
{
    hvd_free(action->namespace);
    hvd_free(action->name);
    hvd_free(action->body);
}

hvd_status_t hvd_plan_add(struct hvd_plan *plan, const struct hvd_action *action,
                          const char *namespace, const char *name)
{
    struct hvd_action made = *action;
    bool needs_body = made.type != HVD_ACTION_CREATE_SECRET && made.type != HVD_ACTION_LOOK &&
                      made.type != HVD_ACTION_READ_SPEC && made.type != HVD_ACTION_ATTRIBUTE;

    made.namespace = hvd_strdup(namespace);
    made.name = hvd_strdup(name);
    if (!made.namespace || !made.name || (needs_body && !made.body) || grow(plan)) {
        action_fini(&made);
        return HVD_ERR_NOMEM;
    }
    plan->actions[plan->n_actions++] = made;
    return HVD_OK;
}

void hvd_plan_remove(struct hvd_plan *plan, size_t at)
{
    action_fini(&plan->actions[at]);
    plan->n_actions--;
    memmove(&plan->actions[at], &plan->actions[at + 1],
            (plan->n_actions - at) * sizeof(plan->actions[0]));
}

void hvd_plan_defer_events(struct hvd_plan *plan)
{
    size_t n_left = plan->n_actions;

    for (size_t i = 0; n_left > 0; n_left--) {
        struct hvd_action action = plan->actions[i];

        if (action.type != HVD_ACTION_EVENT || action.repair != HVD_REPAIR_NONE) {
            i++;
            continue;
        }
        action.waits = true;
        memmove(&plan->actions[i], &plan->actions[i + 1],
                (plan->n_actions - i - 1) * sizeof(plan->actions[0]));
        plan->actions[plan->n_actions - 1] = action;
    }
}

void hvd_plan_wake(struct hvd_plan *plan, int64_t at_ms)
{
    if (plan->wake_at_ms == 0 || at_ms < plan->wake_at_ms)
        plan->wake_at_ms = at_ms;
}

static cJSON *delete_options(struct hvd_jb *jb, const char *uid)
{
    cJSON *root = hvd_jb_root(jb);

    hvd_jb_str(jb, root, "apiVersion", "v1");
    hvd_jb_str(jb, root, "kind", "DeleteOptions");
    hvd_jb_str(jb, root, "propagationPolicy", "Background");
    hvd_jb_str(jb, hvd_jb_object(jb, root, "preconditions"), "uid", uid);
    return root;
}

static struct hvd_action deletion(const struct hvd_write *write)
{
    return (struct hvd_action){.type = HVD_ACTION_DELETE,
                               .kind = write->kind,
                               .repair = write->repair,
                               .value = write->value};
}

hvd_status_t hvd_plan_delete(struct hvd_plan *plan, const struct hvd_write *write,
                             const char *namespace, const char *uid)
{
    struct hvd_action action = deletion(write);
    struct hvd_jb jb = {0};
    cJSON *root = delete_options(&jb, uid);

    action.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    return hvd_plan_add(plan, &action, namespace, write->name);
}

hvd_status_t hvd_plan_kill(struct hvd_plan *plan, const struct hvd_write *write,
                           const struct hvd_object *pod)
{
    struct hvd_action action = deletion(write);
    struct hvd_jb jb = {0};
    cJSON *root = delete_options(&jb, pod->meta.uid);

    hvd_jb_int(&jb, root, "gracePeriodSeconds", 0);
    action.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    return hvd_plan_add(plan, &action, pod->meta.namespace, pod->meta.name);
}

static void event_name(const struct hvd_job *job, const struct hvd_event *event,
                       char out[NAME_MAX_SIZE])
{
    const struct hvd_job_status *status = &job->status;
    uint64_t hash = hvd_hash_text(HVD_HASH_START, job->uid);

    hash = hvd_hash_text(hash, event->reason);
    hash = hvd_hash_text(hash, event->key ? event->key : event->message);
    hash = hvd_hash_number(hash, hvd_job_ended(status));
    hash = hvd_hash_number(hash, event->key ? 0 : status->cleaned);
    hash = hvd_hash_number(hash, event->key ? 0 : status->start_s);
    for (size_t i = 0; i < HVD_N_CONDITIONS && !event->key; i++)
        hash = hvd_hash_number(hash, status->conditions[i].since_s);
    (void)snprintf(out, NAME_MAX_SIZE, "%.*s.%016" PRIx64, HVD_JOB_NAME_MAX, job->name, hash);
}

static void event_subject(struct hvd_jb *jb, cJSON *root, const struct hvd_job *job)
{
    cJSON *subject = hvd_jb_object(jb, root, "involvedObject");

    hvd_jb_str(jb, subject, "apiVersion", hvd_kind_info(HVD_KIND_HOROVODJOB)->api_version);
    hvd_jb_str(jb, subject, "kind", HVD_JOB_KIND);
    hvd_jb_str(jb, subject, "namespace", job->namespace);
    hvd_jb_str(jb, subject, "name", job->name);
    hvd_jb_str(jb, subject, "uid", job->uid);
}

hvd_status_t hvd_plan_event(struct hvd_plan *plan, const struct hvd_job *job,
                            const struct hvd_event *event, int64_t now_s)
{
    struct hvd_action action = {.type = HVD_ACTION_EVENT, .kind = HVD_KIND_EVENT};
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *meta = hvd_jb_object(&jb, root, "metadata");
    char name[NAME_MAX_SIZE], time[HVD_RFC3339_SIZE];

    event_name(job, event, name);
    hvd_rfc3339_format(now_s, time);
    hvd_jb_str(&jb, root, "apiVersion", "v1");
    hvd_jb_str(&jb, root, "kind", "Event");
    hvd_jb_str(&jb, meta, "name", name);
    hvd_jb_str(&jb, meta, "namespace", job->namespace);
    event_subject(&jb, root, job);
    hvd_jb_str(&jb, root, "reason", event->reason);
    hvd_jb_str(&jb, root, "message", event->message);
    hvd_jb_str(&jb, root, "type", event->is_warning ? "Warning" : "Normal");
    hvd_jb_str(&jb, hvd_jb_object(&jb, root, "source"), "component", HVD_MANAGER);
    hvd_jb_str(&jb, root, "reportingComponent", HVD_MANAGER);
    hvd_jb_int(&jb, root, "count", 1);
    hvd_jb_str(&jb, root, "firstTimestamp", time);
    hvd_jb_str(&jb, root, "lastTimestamp", time);
    action.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    return hvd_plan_add(plan, &action, job->namespace, name);
}

void hvd_plan_fini(struct hvd_plan *plan)
{
    for (size_t i = 0; i < plan->n_actions; i++)
        action_fini(&plan->actions[i]);
    hvd_free(plan->actions);
    *plan = (struct hvd_plan){0};
}
