/*
 * Lists events for all jobs that ask why their pods are missing, do not start or are not Ready. The
 * questions are the open failures of the entries. The choice of a list looks at all of them; the
 * budget of lists bounds that. No job depends on an answer, so a lost answer counts as none. One
 * thread.
 */
#include "operator/app/explainer.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/app/clock.h"

#define SUBSYSTEM "operator"
#define QUERY_SIZE 256
#define PODS_KEPT 4 /* answers about pods that an entry keeps */

void hvd_explainer_init(struct hvd_explainer *explainer, const struct hvd_explainer_setup *setup)
{
    *explainer = (struct hvd_explainer){
        ._api = setup->api, ._store = setup->store, ._log = setup->log, ._clock = setup->clock};
}

static int64_t server_ms(const struct hvd_explainer *explainer)
{
    return hvd_server_clock_at(explainer->_clock, hvd_clock_ms());
}

static const struct hvd_failure *find_failure(const struct hvd_entry *entry,
                                              const struct hvd_action *action)
{
    for (size_t i = 0; i < entry->n_failures; i++) {
        if (entry->failures[i].kind == action->kind &&
            hvd_str_equal(entry->failures[i].name, action->name))
            return &entry->failures[i];
    }
    return NULL;
}

/* Forgets the oldest answer about a pod: the slow pods may differ each time. */
static void forget_pods(struct hvd_entry *entry)
{
    const struct hvd_failure *oldest = NULL;
    int n = 0;

    for (size_t i = 0; i < entry->n_failures; i++) {
        const struct hvd_failure *failure = &entry->failures[i];

        if (failure->kind != HVD_KIND_POD || failure->type != HVD_FAILURE_NO_PODS)
            continue;
        n++;
        oldest = oldest && oldest->at_ms <= failure->at_ms ? oldest : failure;
    }
    if (n > PODS_KEPT)
        hvd_notes_drop_failure(entry, HVD_KIND_POD, oldest->name);
}

hvd_status_t hvd_explainer_ask(struct hvd_explainer *explainer, struct hvd_entry *entry,
                               const struct hvd_action *action)
{
    const struct hvd_failure *known = find_failure(entry, action);
    struct hvd_failure question = {
        .type = HVD_FAILURE_NO_PODS,
        .kind = action->kind,
        .name = action->name,
        .at_ms = server_ms(explainer),
        .uid = action->body,
        .question = action->question,
        .since_s = action->since_s,
        .is_open = true,
    };
    hvd_status_t st;

    /* The last answer is valid until the next. */
    if (known && known->type == HVD_FAILURE_NO_PODS && hvd_str_equal(known->uid, action->body) &&
        known->question == action->question) {
        question.message = known->message;
        question.is_unread = known->is_unread;
    }
    st = hvd_notes_set_failure(entry, &question);
    if (st == HVD_OK && action->kind == HVD_KIND_POD)
        forget_pods(entry);
    explainer->_is_wanted = true;
    return st;
}

static bool is_in(const struct hvd_entry *entry, const char *ns)
{
    const size_t len = strlen(ns);

    return entry->has_job && strncmp(entry->key, ns, len) == 0 && entry->key[len] == '/';
}

/* Orders questions: those that a list for all could not answer last, then the oldest first. */
static bool is_before(const struct hvd_failure *a, const struct hvd_failure *b)
{
    return a->is_alone != b->is_alone ? !a->is_alone : a->at_ms < b->at_ms;
}

static int count_answers(const struct hvd_explainer *explainer)
{
    struct hvd_entry *entry = NULL;
    int n = 0;

    while ((entry = hvd_store_next(explainer->_store, entry)) != NULL) {
        for (size_t i = 0; is_in(entry, explainer->_ns) && i < entry->n_failures; i++)
            n += entry->failures[i].type == HVD_FAILURE_NO_PODS && !entry->failures[i].is_alone;
    }
    return n;
}

/* Chooses what to list; false if no question is open. */
static bool choose(struct hvd_explainer *explainer)
{
    const struct hvd_failure *first = NULL;
    struct hvd_entry *entry = NULL;

    while ((entry = hvd_store_next(explainer->_store, entry)) != NULL) {
        for (size_t i = 0; entry->has_job && i < entry->n_failures; i++) {
            const struct hvd_failure *failure = &entry->failures[i];

            if (failure->type != HVD_FAILURE_NO_PODS || !failure->is_open ||
                (first && !is_before(failure, first)))
                continue;
            first = failure;
            (void)snprintf(explainer->_ns, sizeof(explainer->_ns), "%s", entry->job.namespace);
        }
    }
    if (!first)
        return false;
    (void)snprintf(explainer->_uid, sizeof(explainer->_uid), "%s", first->uid);
    explainer->_is_wide = !first->is_alone && count_answers(explainer) > 1;
    return true;
}

/* Replaces the answer; true if that is a change. An unreadable list keeps the last answer. */
static bool answer(struct hvd_failure *failure, const char *text, bool is_unread, int64_t at_ms)
{
    const bool was_open = failure->is_open, was_unread = failure->is_unread;
    char *copy = NULL;

    failure->at_ms = at_ms;
    failure->is_open = failure->is_alone = false;
    failure->is_unread = is_unread;
    if (is_unread ||
        hvd_str_equal(failure->message, text)) /* pods without an explanation are looked up */
        return was_unread != is_unread || (was_open && !failure->message);
    copy = text ? hvd_strdup(text) : NULL;
    if (text && !copy)
        return false; /* the old answer stays */
    hvd_free((void *)failure->message);
    failure->message = copy;
    return true;
}

/* The answers of one list; NULL index: it failed. */
struct answers {
    struct hvd_explainer *explainer;
    const struct hvd_event_index *index;
    bool is_cut; /* there are more events than the list has */
    int64_t at_ms;
};

static bool answer_one(const struct answers *answers, struct hvd_failure *failure)
{
    const struct hvd_explain_what what = {failure->question, failure->uid, failure->since_s};
    char text[HVD_EXPLAIN_SIZE] = "";
    const bool is_wide = answers->explainer->_is_wide;
    bool is_found;

    if (failure->type != HVD_FAILURE_NO_PODS ||
        (!is_wide && !hvd_str_equal(failure->uid, answers->explainer->_uid)))
        return false;
    is_found = answers->index && hvd_explain_find(answers->index, &what, text);
    if (!is_found && answers->index && is_wide && (answers->is_cut || failure->is_alone)) {
        failure->is_alone = failure->is_open;
        return false;
    }
    return answer(failure, is_found ? text : NULL, !answers->index, answers->at_ms);
}

static void answer_all(const struct answers *answers)
{
    const struct hvd_store *store = answers->explainer->_store;
    struct hvd_entry *entry = NULL;

    while ((entry = hvd_store_next(store, entry)) != NULL) {
        bool is_changed = false;

        for (size_t i = 0; is_in(entry, answers->explainer->_ns) && i < entry->n_failures; i++)
            is_changed |= answer_one(answers, &entry->failures[i]);
        if (is_changed)
            store->changed(store->ctx, entry);
    }
}

static void on_listed(void *ctx, const struct hvd_kube_response *response)
{
    struct hvd_explainer *explainer = ctx;
    struct hvd_event_index index = {0};
    struct answers answers = {.explainer = explainer, .at_ms = server_ms(explainer)};
    const char *more = hvd_json_str(response->body, "metadata.continue");

    explainer->_is_asking = false;
    if (response->status == HVD_ERR_CANCELED || response->status == HVD_ERR_SHUTDOWN)
        return;
    if (response->status != HVD_OK)
        HVD_LOG_KV(
            explainer->_log, HVD_LOG_WARN, SUBSYSTEM,
            "cannot read the events about objects whose pods are missing or not ready",
            {"namespace", explainer->_ns},
            {"error", response->err ? response->err->msg : hvd_status_str(response->status)});
    else if (hvd_explain_index_init(response->body, &index) == HVD_OK)
        answers.index = &index;
    answers.is_cut = more && *more;
    answer_all(&answers);
    hvd_explain_index_fini(&index);
}

static void list(struct hvd_explainer *explainer)
{
    struct hvd_kube_request request = {
        .verb = HVD_VERB_LIST,
        .path = {.kind = HVD_KIND_EVENT, .ns = explainer->_ns},
        .on_done = on_listed,
        .ctx = explainer,
    };
    struct hvd_err err = {0};
    char query[QUERY_SIZE];

    if (explainer->_is_wide)
        (void)snprintf(query, sizeof(query), "?limit=500&fieldSelector=type%%3DWarning");
    else
        (void)snprintf(query, sizeof(query),
                       "?limit=100&fieldSelector=type%%3DWarning%%2CinvolvedObject.uid%%3D%s",
                       explainer->_uid);
    request.query = query;
    explainer->_is_asking = true;
    if (explainer->_api->send(explainer->_api->self, &request, NULL, &err) == HVD_OK)
        return;
    explainer->_is_asking = false;
    HVD_LOG_KV(explainer->_log, HVD_LOG_WARN, SUBSYSTEM, "cannot ask for events",
               {"namespace", explainer->_ns}, {"error", err.msg});
}

int64_t hvd_explainer_step(struct hvd_explainer *explainer, int64_t now_ms)
{
    if (!explainer->_is_wanted || explainer->_is_asking)
        return INT64_MAX;
    if (hvd_explain_due_ms(&explainer->_budget, now_ms) > now_ms)
        return hvd_explain_due_ms(&explainer->_budget, now_ms);
    explainer->_is_wanted = choose(explainer);
    if (!explainer->_is_wanted)
        return INT64_MAX;
    (void)hvd_explain_take(&explainer->_budget, now_ms);
    list(explainer);
    return explainer->_is_asking ? INT64_MAX : hvd_explain_due_ms(&explainer->_budget, now_ms + 1);
}
