/*
 * Refusals by others. An answer to a write is final for the job, or is reported and tried again. In
 * a namespace that is being deleted nothing is tried. A webhook, an admission policy or a quota may
 * reject an object of ours. It may also reject the pods of an accepted object: then the controllers
 * of StatefulSets and Jobs retry for ever, and report that only in an event. If pods are missing
 * for some time, the operator reads that event, seldom, and makes it a part of the job's condition.
 * Pure.
 */
#include "operator/core/writes/refusal.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/children/hosts.h"
#include "operator/core/observe/observe_internal.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/repair.h"

#define DELAY_MS 5000    /* missing pods are looked into after so long */
#define ASK_MIN_MS 15000 /* then the interval is the age of the job */
#define ASK_MAX_MS 300000
#define POD_DELAY_MS 15000 /* the same for a slow pod, because pulling an image takes so long */
#define ASK_POD_MAX_MS 120000
#define SLOW_MS 120000 /* then it is reported without a cause */
#define SLOW_TEXT "2 minutes"
#define LEAVING_RETRY_MS 3600000 /* a deletion of a namespace is final */
#define MESSAGE_SIZE 512
#define NAME_MAX_BYTES 253 /* of objects */
#define DENIED_SIZE (HVD_DENIED_MAX * (NAME_MAX_BYTES + HVD_OBSERVE_TEXT_MAX + 64))

/* ---- the meaning of an answer ---- */

static const char *text_of(const cJSON *body, const char *key)
{
    const char *text = hvd_json_str(body, key);

    return text ? text : "";
}

/* Whether one of the answer's causes has a member with that prefix. */
static bool has_cause(const cJSON *body, const char *key, const char *prefix)
{
    const cJSON *cause = NULL;

    cJSON_ArrayForEach(cause, hvd_json_at(body, "details.causes"))
    {
        if (hvd_str_has_prefix(text_of(cause, key), prefix))
            return true;
    }
    return false;
}

/* A webhook chooses code, reason and causes itself, but the API server puts this before its
 * text. */
static bool is_of_webhook(const cJSON *body)
{
    return hvd_str_has_prefix(text_of(body, "message"), "admission webhook \"");
}

static bool is_of_policy(const cJSON *body)
{
    const char *message = text_of(body, "message");

    return !strstr(message, "\" is invalid: ") &&
           strstr(message, " is forbidden: ValidatingAdmissionPolicy '");
}

/* Whether the write holds the job's template. */
static bool has_template(const struct hvd_action *action)
{
    return (action->kind == HVD_KIND_STATEFULSET || action->kind == HVD_KIND_JOB) &&
           (action->type == HVD_ACTION_CREATE ||
            (action->type == HVD_ACTION_PATCH && action->is_template));
}

/* Whether the answer is about an object that cannot be decoded. Unknown fields outside the template
 * are the operator's own, which an older server does not know. Only the template can have wrong
 * types. */
static bool is_undecodable(const cJSON *body)
{
    const char *message = text_of(body, "message");

    return strstr(message, "\" cannot be handled as a ") &&
           (!strstr(message, "strict decoding error: ") || strstr(message, "\"spec.template"));
}

static bool is_wrong_template(const struct hvd_action *action, long code, const cJSON *body)
{
    if (!has_template(action) || is_of_webhook(body) || is_of_policy(body))
        return false;
    if (code == 400)
        return hvd_str_equal(text_of(body, "reason"), "BadRequest") && is_undecodable(body);
    /* A patch whose result cannot be decoded has a field of that name. */
    return code == 422 && hvd_str_equal(text_of(body, "reason"), "Invalid") &&
           (has_cause(body, "field", "spec.template") ||
            (action->type == HVD_ACTION_PATCH && has_cause(body, "field", "patch")));
}

/* A patch fails because of what others changed in the object. A gang scheduler rejects a group for
 * a closed queue: that passes. */
static bool is_rule(const struct hvd_action *action, long code, const cJSON *body)
{
    return (code == 400 || code == 422) && action->type == HVD_ACTION_PATCH &&
           !action->is_template && action->kind != HVD_KIND_VOLCANO_PODGROUP &&
           action->kind != HVD_KIND_PLUGINS_PODGROUP && !is_of_webhook(body) && !is_of_policy(body);
}

/* Codes about the operator's account, about other requests, or about the server. */
static bool is_unserved(long code)
{
    return code < 400 || code == 401 || code == 408 || code == 409 || code == 429 || code >= 500;
}

enum hvd_refusal hvd_refusal_judge(const struct hvd_action *action, hvd_status_t status, long code,
                                   const cJSON *body)
{
    if (code == 403 && !is_of_webhook(body) && has_cause(body, "reason", "NamespaceTerminating"))
        return HVD_REFUSAL_LEAVING;
    if (is_wrong_template(action, code, body))
        return HVD_REFUSAL_FINAL;
    if (is_rule(action, code, body))
        return HVD_REFUSAL_RULE;
    /* A denial by a webhook has this status, whatever its code. */
    if (code == 404 && status == HVD_ERR_UNAVAILABLE) /* from a proxy before the server */
        return HVD_REFUSAL_UNSERVED;
    if (is_unserved(code) && (status != HVD_ERR_DENIED || code == 401))
        return HVD_REFUSAL_UNSERVED;
    return HVD_REFUSAL_DENIED;
}

const char *hvd_refusal_words(const cJSON *body)
{
    static const char value[] = " \"\" is invalid: patch: Invalid value: \"";
    const char *message = text_of(body, "message"), *words = NULL;

    if (!hvd_str_has_prefix(message, value))
        return message;
    for (const char *end = strstr(message, "}\": "); end; end = strstr(end + 1, "}\": "))
        words = end + strlen("}\": ");
    return words ? words : message;
}

bool hvd_refusal_is_told(const struct hvd_failure *failure)
{
    return failure->n >= failure->told_from;
}

const struct hvd_failure *hvd_refusal_of_status(const struct hvd_pass *p)
{
    const struct hvd_failure *known = hvd_pass_failure(p, HVD_KIND_HOROVODJOB, p->job->name);

    return known && known->type == HVD_FAILURE_STATUS && hvd_refusal_is_told(known) ? known : NULL;
}

/* ---- namespaces that are being deleted ---- */

/* The newest refusal for a namespace that is being deleted; NULL: none. */
static const struct hvd_failure *find_leaving(const struct hvd_pass *p)
{
    const struct hvd_failure *newest = NULL;

    for (size_t i = 0; i < p->view->n_failures; i++) {
        const struct hvd_failure *failure = &p->view->failures[i];

        if (failure->type == HVD_FAILURE_LEAVING && (!newest || failure->at_ms > newest->at_ms))
            newest = failure;
    }
    return newest;
}

bool hvd_refusal_is_leaving(const struct hvd_pass *p)
{
    return find_leaving(p) != NULL;
}

static void describe_leaving(const struct hvd_pass *p, char *out, size_t size)
{
    hvd_text_format(out, size, "namespace %s is being deleted, and nothing can be made in it",
                    p->job->namespace);
}

bool hvd_refusal_of_namespace(struct hvd_pass *p)
{
    const struct hvd_failure *leaving = find_leaving(p);
    char message[MESSAGE_SIZE];

    if (!leaving)
        return false;
    describe_leaving(p, message, sizeof(message));
    hvd_trouble_report(p, "NamespaceTerminating", message);
    if (p->now_ms >= leaving->at_ms + LEAVING_RETRY_MS)
        return false;
    hvd_plan_wake(p->plan, leaving->at_ms + LEAVING_RETRY_MS);
    return true;
}

/* ---- pods ---- */

/* The last answer about the object and the question, for a pod of that uid. */
static const struct hvd_failure *find_answer(const struct hvd_pass *p,
                                             const struct hvd_object *object,
                                             enum hvd_question question)
{
    const struct hvd_failure *known = hvd_pass_failure(p, object->kind, object->meta.name);

    if (!known || known->type != HVD_FAILURE_NO_PODS || known->question != question ||
        (known->uid && !hvd_str_equal(known->uid, object->meta.uid)))
        return NULL;
    return known;
}

/* When to ask next about a state that holds since since_ms: soon, and then at growing intervals. */
static int64_t due_ms(const struct hvd_pass *p, const struct hvd_failure *known, int64_t since_ms,
                      enum hvd_question question)
{
    const bool is_pod = question != HVD_ASK_CREATION;
    const int64_t from_ms = is_pod ? since_ms : p->next.start_s * 1000;
    const int64_t max_ms = is_pod ? ASK_POD_MAX_MS : ASK_MAX_MS;
    int64_t every_ms;

    if (!known)
        return since_ms + (is_pod ? POD_DELAY_MS : DELAY_MS);
    every_ms = known->at_ms - from_ms;
    every_ms = every_ms < ASK_MIN_MS ? ASK_MIN_MS : every_ms;
    every_ms = known->at_ms + (every_ms < max_ms ? every_ms : max_ms);
    /* An unchanged answer triggers no pass, so wake again. */
    return known->is_open && every_ms <= p->now_ms ? p->now_ms + ASK_MIN_MS : every_ms;
}

const char *hvd_refusal_ask(struct hvd_pass *p, const struct hvd_object *object,
                            enum hvd_question question, int64_t since_ms)
{
    const struct hvd_failure *other = hvd_pass_failure(p, object->kind, object->meta.name);
    const struct hvd_failure *known = find_answer(p, object, question);
    struct hvd_action action = {.type = HVD_ACTION_EXPLAIN,
                                .kind = object->kind,
                                .question = question,
                                .since_s = question == HVD_ASK_CREATION ? p->next.start_s
                                                                        : since_ms / 1000};
    const int64_t next_ms = due_ms(p, known, since_ms, question);

    if (p->st || (other && other->type != HVD_FAILURE_NO_PODS && hvd_refusal_is_told(other)))
        return NULL; /* the object itself is refused */
    if (p->now_ms < next_ms) {
        hvd_plan_wake(p->plan, next_ms);
    } else {
        action.body = hvd_strdup(object->meta.uid);
        p->st = hvd_plan_add(p->plan, &action, object->meta.namespace, object->meta.name);
    }
    return known ? known->message : NULL;
}

const char *hvd_refusal_silence(const struct hvd_pass *p, const struct hvd_object *object)
{
    const struct hvd_failure *known = hvd_pass_failure(p, object->kind, object->meta.name);

    return known && known->type == HVD_FAILURE_NO_PODS && known->is_unread
               ? "its events cannot be read"
               : "its events name no cause";
}

/* Whether the pod is one of the first n of the set, even if the set has released it and takes it
 * back. */
static bool is_of_set(const struct hvd_pass *p, const struct hvd_object *set,
                      const struct hvd_object *pod, int64_t n)
{
    struct hvd_worker worker;

    if (!hvd_pods_identify(p->view, pod, &p->owners, &worker))
        return hvd_str_equal(pod->meta.owner_uid, set->meta.uid);
    return p->owners.sets[worker.group] == set && worker.ordinal < n;
}

/* The number of pods that the group's set has to make. Pods beyond the job's wish are another
 * writer's, and their state is no trouble of the job. */
static int64_t count_due(const struct hvd_pass *p, size_t group)
{
    const int64_t wanted = p->job->spec.groups[group].replicas;
    const int64_t n = p->owners.sets[group]->u.statefulset.replicas;

    return n < wanted ? n : wanted;
}

/* Counts the first n pods of the set that exist; *newest_s becomes the creation time of the last of
 * them, if that is later. */
static int64_t count_pods_of(const struct hvd_pass *p, const struct hvd_object *set, int64_t n_due,
                             int64_t *newest_s)
{
    int64_t n = 0;

    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        if (pod->kind != HVD_KIND_POD || !is_of_set(p, set, pod, n_due))
            continue;
        n++;
        if (pod->meta.created_s > *newest_s)
            *newest_s = pod->meta.created_s;
    }
    return n;
}

/* The latest of the times from which pods may be missing. */
static int64_t since_ms(const struct hvd_pass *p, const struct hvd_object *object)
{
    int64_t newest_ms = object->meta.created_s * 1000;

    if (newest_ms < p->next.start_s * 1000)
        newest_ms = p->next.start_s * 1000;
    return newest_ms < p->view->status_written_ms ? p->view->status_written_ms : newest_ms;
}

/*
 * Whether pods have been missing since that time for so long that it is reported without a cause.
 * The report stays until they exist: its own status write does not restart the wait.
 */
static bool is_slow(struct hvd_pass *p, const char *told, const char *cause, int64_t from_ms)
{
    const struct hvd_repairs *repairs = p->view->repairs;

    if (told && strstr(told, cause))
        return true;
    if (repairs && from_ms < repairs->since_ms) /* the operator was just started */
        from_ms = repairs->since_ms;
    if (p->now_ms >= from_ms + SLOW_MS)
        return true;
    hvd_plan_wake(p->plan, from_ms + SLOW_MS);
    return false;
}

/* Whether the object itself is refused, which is reported elsewhere. */
static bool is_refused(const struct hvd_pass *p, const struct hvd_object *object)
{
    const struct hvd_failure *known = hvd_pass_failure(p, object->kind, object->meta.name);

    return known && known->type != HVD_FAILURE_NO_PODS && hvd_refusal_is_told(known);
}

/* Describes pods that a set does not make, without a known cause. */
static bool describe_slow_set(struct hvd_pass *p, size_t group, char *out, size_t size)
{
    const struct hvd_object *set = p->owners.sets[group];
    const int64_t n_due = count_due(p, group);
    const char *told = p->job->status.conditions[HVD_COND_WORKERS_READY].message;
    int64_t newest_s = 0;
    const int64_t n_missing = n_due - count_pods_of(p, set, n_due, &newest_s);
    int64_t from_ms = since_ms(p, set);
    char cause[256];

    hvd_text_format(cause, sizeof(cause), "pods of StatefulSet %s have not been made",
                    set->meta.name);
    from_ms = from_ms < newest_s * 1000 ? newest_s * 1000 : from_ms;
    if (p->is_occupied || is_refused(p, set) || !is_slow(p, told, cause, from_ms))
        return false;
    hvd_text_format(
        out, size, "%d of %d %s after " SLOW_TEXT ": %s", (int)n_missing, (int)n_due, cause,
        set->u.statefulset.is_unseen
            ? "the StatefulSet controller has not seen the StatefulSet yet, see whether "
              "kube-controller-manager runs"
            : hvd_refusal_silence(p, set));
    return true;
}

static bool describe_slow_job(struct hvd_pass *p, const struct hvd_object *job, char *out,
                              size_t size)
{
    const char *told = p->job->status.conditions[HVD_COND_RUNNING].message;
    int64_t from_ms = job->meta.created_s * 1000;
    char cause[256];

    hvd_text_format(cause, sizeof(cause), "the pod of Job %s has not been made", job->meta.name);
    from_ms = from_ms < p->next.start_s * 1000 ? p->next.start_s * 1000 : from_ms;
    if (is_refused(p, job) || job->u.job.is_held || job->u.job.is_complete ||
        job->u.job.is_failed || !is_slow(p, told, cause, from_ms))
        return false;
    hvd_text_format(out, size, "%s after " SLOW_TEXT ": %s%s", cause,
                    job->u.job.manager     ? "its spec.managedBy names another controller, "
                    : job->u.job.is_unseen ? "the Job controller has not seen the Job yet, see "
                                             "whether kube-controller-manager runs"
                                           : hvd_refusal_silence(p, job),
                    job->u.job.manager ? job->u.job.manager : "");
    return true;
}

bool hvd_refusal_of_workers(struct hvd_pass *p, char *out, size_t size)
{
    bool is_found = false;

    /* The API server also rejects the controllers' objects, and the events that would report it. */
    if (hvd_refusal_is_leaving(p)) {
        describe_leaving(p, out, size);
        return true;
    }
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        const struct hvd_object *set = p->owners.sets[i];
        int64_t newest_s = 0;
        const char *reason;

        if (hvd_pass_set(p, i) != HVD_CHILD_OURS ||
            count_pods_of(p, set, count_due(p, i), &newest_s) >= count_due(p, i))
            continue;
        reason = hvd_refusal_ask(p, set, HVD_ASK_CREATION, since_ms(p, set));
        if (!is_found && reason)
            hvd_text_format(out, size, "pods of StatefulSet %s cannot be made: %s", set->meta.name,
                            reason);
        is_found = is_found || reason || describe_slow_set(p, i, out, size);
    }
    return is_found;
}

bool hvd_refusal_of_master(struct hvd_pass *p, char *out, size_t size)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const char *reason;

    if (hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS || p->pods.n_masters > 0)
        return false;
    if (hvd_refusal_is_leaving(p)) {
        describe_leaving(p, out, size);
        return true;
    }
    reason = hvd_refusal_ask(p, job, HVD_ASK_CREATION, since_ms(p, job));
    if (!reason)
        return describe_slow_job(p, job, out, size);
    hvd_text_format(out, size, "the pod of Job %s cannot be made: %s", job->meta.name, reason);
    return true;
}

static int compare_failures(const struct hvd_failure *a, const struct hvd_failure *b)
{
    return a->kind != b->kind ? (int)a->kind - (int)b->kind : strcmp(a->name, b->name);
}

void hvd_refusal_add(struct hvd_pass *p, const struct hvd_failure *known, bool is_removal)
{
    size_t at = 0;

    while (at < p->n_denied && compare_failures(p->denied[at].known, known) < 0)
        at++;
    if (at < p->n_denied && compare_failures(p->denied[at].known, known) == 0)
        return;
    p->has_more_denied = p->has_more_denied || p->n_denied == HVD_DENIED_MAX;
    if (at == HVD_DENIED_MAX)
        return;
    if (p->n_denied < HVD_DENIED_MAX)
        p->n_denied++;
    memmove(&p->denied[at + 1], &p->denied[at], (p->n_denied - 1 - at) * sizeof(p->denied[0]));
    p->denied[at] = (struct hvd_denied){known, is_removal};
}

/* Adds the denied changes that this pass tries again. */
static void add_planned(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->plan->n_actions; i++) {
        const struct hvd_action *action = &p->plan->actions[i];
        const struct hvd_failure *known = hvd_pass_failure(p, action->kind, action->name);
        const bool is_patch = action->type == HVD_ACTION_PATCH;

        if ((!is_patch && action->type != HVD_ACTION_DELETE) || !known ||
            known->type != HVD_FAILURE_DENIED || !hvd_refusal_is_told(known))
            continue;
        p->is_denied = true;
        hvd_refusal_add(p, known, !is_patch);
    }
}

static const char *words_of(const struct hvd_denied *denied)
{
    return denied->known->message ? denied->known->message : "forbidden";
}

/* Whether an earlier one has the same text. */
static bool is_worded_before(const struct hvd_denied *const *denied, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (strcmp(words_of(denied[i]), words_of(denied[at])) == 0)
            return true;
    }
    return false;
}

/* Writes all denied deletions, or changes: each object once, and then the text of each denial once.
 * Returns the number of bytes; there is room for all. */
static size_t describe_denied(const struct hvd_pass *p, bool is_removal, char *out, size_t size)
{
    const struct hvd_denied *found[HVD_DENIED_MAX];
    size_t n = 0, len = 0;

    for (size_t i = 0; i < p->n_denied; i++) {
        if (p->denied[i].is_removal == is_removal)
            found[n++] = &p->denied[i];
    }
    for (size_t i = 0; i < n; i++) {
        const char *before = i == 0 ? "" : i + 1 == n && !p->has_more_denied ? " and " : ", ";

        len += (size_t)snprintf(out + len, size - len, "%s%s %.*s", before,
                                hvd_kind_info(found[i]->known->kind)->kind, NAME_MAX_BYTES,
                                found[i]->known->name);
    }
    if (n > 0)
        len += (size_t)snprintf(out + len, size - len, "%s cannot be %s, will be tried again",
                                p->has_more_denied ? " and others" : "",
                                is_removal ? "deleted" : "changed");
    for (size_t i = 0; i < n; i++) {
        if (!is_worded_before(found, i))
            len += (size_t)snprintf(out + len, size - len, "%s%.*s", i == 0 ? ": " : "; ",
                                    HVD_OBSERVE_TEXT_MAX, words_of(found[i]));
    }
    return len;
}

bool hvd_refusal_of_change(struct hvd_pass *p, char *out, size_t size)
{
    char removals[DENIED_SIZE] = "", changes[DENIED_SIZE] = "";

    add_planned(p);
    if (p->n_denied == 0)
        return false;
    (void)describe_denied(p, true, removals, sizeof(removals));
    (void)describe_denied(p, false, changes, sizeof(changes));
    hvd_text_format(out, size, "%s%s%s", removals, *removals && *changes ? "; " : "", changes);
    return true;
}
