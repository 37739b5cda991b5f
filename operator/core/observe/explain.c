/*
 * Answers questions from events. Controllers and kubelets report only in events why an action does
 * not happen: many times, in slightly different words. The operator reads events seldom. A token
 * bucket bounds the lists of the whole operator, even if one user creates many stuck jobs. Pure.
 */
#include "operator/core/observe/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/view/text.h"

#define SKEW_S 60 /* the clock of an event's writer may be behind by so much */

static const char *uid_of(const cJSON *event)
{
    const char *uid = hvd_json_str(event, "involvedObject.uid");

    return uid ? uid : "";
}

static int compare(const void *a, const void *b)
{
    const struct hvd_indexed_event *x = a;
    const struct hvd_indexed_event *y = b;

    return strcmp(uid_of(x->event), uid_of(y->event));
}

hvd_status_t hvd_explain_index_init(const cJSON *list, struct hvd_event_index *out)
{
    const cJSON *items = hvd_json_get(list, "items");
    const int size = cJSON_GetArraySize(items);
    const cJSON *event = NULL;
    struct hvd_event_index index = {._n = 0};

    index._events = hvd_malloc((size_t)size + 1, sizeof(index._events[0]));
    if (!index._events)
        return HVD_ERR_NOMEM;
    cJSON_ArrayForEach(event, items)
    {
        index._events[index._n++].event = event;
    }
    qsort(index._events, index._n, sizeof(index._events[0]), compare);
    *out = index;
    return HVD_OK;
}

void hvd_explain_index_fini(struct hvd_event_index *index)
{
    hvd_free(index->_events);
    *index = (struct hvd_event_index){0};
}

/* The first event about that uid, or the place where it would be. */
static size_t find_first(const struct hvd_event_index *index, const char *uid)
{
    size_t low = 0, high = index->_n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(uid_of(index->_events[middle].event), uid) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t last_seen_s(const cJSON *event)
{
    static const char *const paths[] = {"series.lastObservedTime", "lastTimestamp", "eventTime",
                                        "metadata.creationTimestamp"};
    int64_t last_s = 0;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        int64_t at_s = hvd_rfc3339_parse(hvd_json_str(event, paths[i]));

        last_s = at_s > last_s ? at_s : last_s;
    }
    return last_s;
}

/* How well the event answers the question; 0: not at all. */
static int rank(const cJSON *event, enum hvd_question question)
{
    static const char *const of_start[] = {"FailedMount",
                                           "FailedAttachVolume",
                                           "FailedMapVolume",
                                           "NetworkNotReady",
                                           "FailedPostStartHook",
                                           "FailedCreatePodSandBox",
                                           "FailedCreatePodContainer",
                                           "FailedPodSandBoxStatus",
                                           "FailedPrepareDynamicResources"};
    static const char vague[] = "Unable to attach or mount volumes";
    const char *reason = hvd_json_str(event, "reason");

    if (question == HVD_ASK_CREATION)
        return hvd_str_equal(reason, "FailedCreate");
    if (hvd_str_equal(reason, "Unhealthy") || hvd_str_equal(reason, "ProbeWarning"))
        return question == HVD_ASK_READY ? 1 : 0;
    for (size_t i = 0; question == HVD_ASK_START && i < sizeof(of_start) / sizeof(of_start[0]);
         i++) {
        if (hvd_str_equal(reason, of_start[i]))
            return hvd_str_has_prefix(hvd_json_str(event, "message"), vague) ? 1 : 2;
    }
    return 0;
}

/* The REASON in "create Pod P in StatefulSet S failed error: REASON" and "Error creating: REASON".
 * If REASON is "pods "P" is REST", the result is REST. */
static const char *reason_of(const char *message)
{
    static const char *const starts[] = {" failed error: ", "Error creating: "};
    const char *found = NULL;

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]) && !found; i++) {
        found = strstr(message, starts[i]);
        if (found)
            message = found + strlen(starts[i]);
    }
    found = strncmp(message, "pods \"", 6) == 0 ? strstr(message + 6, "\" is ") : NULL;
    return found ? found + strlen("\" is ") : message;
}

bool hvd_explain_find(const struct hvd_event_index *index, const struct hvd_explain_what *what,
                      char out[HVD_EXPLAIN_SIZE])
{
    const cJSON *best = NULL;
    int64_t best_s = 0;
    int best_rank = 0;

    for (size_t i = find_first(index, what->uid);
         i < index->_n && strcmp(uid_of(index->_events[i].event), what->uid) == 0; i++) {
        const cJSON *event = index->_events[i].event;
        int64_t at_s = last_seen_s(event);
        int its_rank = rank(event, what->question);

        if (!its_rank || !hvd_json_str(event, "message") || at_s < what->since_s - SKEW_S ||
            its_rank < best_rank || (its_rank == best_rank && at_s < best_s))
            continue;
        best = event;
        best_s = at_s;
        best_rank = its_rank;
    }
    hvd_text_format(out, HVD_EXPLAIN_SIZE, "%s",
                    best ? reason_of(hvd_json_str(best, "message")) : "");
    return out[0] != '\0';
}

int64_t hvd_explain_due_ms(const struct hvd_explain_budget *budget, int64_t now_ms)
{
    int64_t due_ms =
        budget->_full_ms - INT64_C(1) * (HVD_EXPLAIN_BURST - 1) * HVD_EXPLAIN_PERIOD_MS;

    return due_ms > now_ms ? due_ms : now_ms;
}

bool hvd_explain_take(struct hvd_explain_budget *budget, int64_t now_ms)
{
    if (hvd_explain_due_ms(budget, now_ms) > now_ms)
        return false;
    budget->_full_ms =
        (budget->_full_ms > now_ms ? budget->_full_ms : now_ms) + HVD_EXPLAIN_PERIOD_MS;
    return true;
}
