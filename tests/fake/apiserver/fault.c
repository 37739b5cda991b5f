/*
 * Rules that say which request goes wrong, and how. Each counts the requests that it matches, so
 * that a schedule ("the third patch of a status") is the same in every run of the same requests.
 */
#include "tests/fake/apiserver/fault.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "operator/api/json.h"
#include "tests/fake/apiserver/must.h"
#include "tests/fake/apiserver/server.h"

static const char *const verbs[FAKE_N_VERBS] = {
    [FAKE_GET] = "get",       [FAKE_LIST] = "list",     [FAKE_WATCH] = "watch",
    [FAKE_CREATE] = "create", [FAKE_UPDATE] = "update", [FAKE_PATCH] = "patch",
    [FAKE_DELETE] = "delete",
};

static const char *const actions[FAKE_N_FAULT_ACTIONS] = {
    [FAKE_FAULT_ANSWER] = "answer",       [FAKE_FAULT_DROP] = "drop",
    [FAKE_FAULT_HALF] = "half",           [FAKE_FAULT_SLOW] = "slow",
    [FAKE_FAULT_HANG] = "hang",           [FAKE_FAULT_DELAY] = "delay",
    [FAKE_FAULT_FREEZE] = "freeze",       [FAKE_FAULT_GARBAGE] = "garbage",
    [FAKE_FAULT_DUPLICATE] = "duplicate", [FAKE_FAULT_REORDER] = "reorder",
};

static const char *const keys[] = {
    "verb",        "resource", "namespace", "name",   "subresource",  "agent",  "nth",
    "times",       "every",    "chance",    "action", "code",         "reason", "message",
    "retry_after", "executed", "delay_ms",  "bytes",  "after_events", "events"};

const char *fake_verb_name(enum fake_verb verb)
{
    return verbs[verb];
}

static bool is_known_key(const char *key)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static bool find_action(const char *name, enum fake_fault_action *out)
{
    for (int i = 0; name && i < FAKE_N_FAULT_ACTIONS; i++) {
        if (strcmp(actions[i], name) == 0) {
            *out = (enum fake_fault_action)i;
            return true;
        }
    }
    return false;
}

static const char *check(const cJSON *rule, enum fake_fault_action *action)
{
    const char *verb = hvd_json_str(rule, "verb");
    const cJSON *item = NULL;
    bool is_verb = !verb || strcmp(verb, "write") == 0;

    cJSON_ArrayForEach(item, rule)
    {
        if (!is_known_key(item->string))
            return "unknown key in a fault";
    }
    for (int i = 0; i < FAKE_N_VERBS && verb; i++)
        is_verb = is_verb || strcmp(verbs[i], verb) == 0;
    if (!is_verb)
        return "unknown verb in a fault";
    return find_action(hvd_json_str(rule, "action"), action) ? NULL : "unknown action of a fault";
}

const struct fake_fault *fake_fault_add(struct fake_faults *faults, const cJSON *rule,
                                        const char **why)
{
    enum fake_fault_action action = FAKE_FAULT_ANSWER;
    const cJSON *chance = hvd_json_get(rule, "chance");
    struct fake_fault *fault;

    *why = check(rule, &action);
    if (*why)
        return NULL;
    fault = fake_new(sizeof(*fault));
    *fault = (struct fake_fault){
        .id = ++faults->n_made,
        .verb = fake_copy(hvd_json_str(rule, "verb")),
        .resource = fake_copy(hvd_json_str(rule, "resource")),
        .ns = fake_copy(hvd_json_str(rule, "namespace")),
        .name = fake_copy(hvd_json_str(rule, "name")),
        .subresource = fake_copy(hvd_json_str(rule, "subresource")),
        .agent = fake_copy(hvd_json_str(rule, "agent")),
        .nth = hvd_json_int(rule, "nth", 1),
        .times = hvd_json_int(rule, "times", 1),
        .every = hvd_json_int(rule, "every", 1),
        .chance = cJSON_IsNumber(chance) ? chance->valuedouble : 1.0,
        .action = action,
        .code = (int)hvd_json_int(rule, "code", 500),
        .reason = fake_copy(hvd_json_str(rule, "reason")),
        .message = fake_copy(hvd_json_str(rule, "message")),
        .retry_after_s = hvd_json_int(rule, "retry_after", -1),
        .is_executed = hvd_json_true(rule, "executed"),
        .delay_us = hvd_json_int(rule, "delay_ms", 0) * 1000,
        .bytes = hvd_json_int(rule, "bytes", 0),
        .after_events = hvd_json_int(rule, "after_events", 0),
        .n_events = hvd_json_int(rule, "events", -1),
    };
    LL_APPEND(faults->rules, fault);
    return fault;
}

cJSON *fake_faults_list(const struct fake_faults *faults)
{
    cJSON *list = fake_must(cJSON_CreateArray());
    const struct fake_fault *fault = NULL;

    LL_FOREACH(faults->rules, fault)
    {
        cJSON *item = fake_must(cJSON_CreateObject());

        fake_set_int(item, "id", fault->id);
        fake_set_str(item, "action", actions[fault->action]);
        fake_set_int(item, "seen", fault->n_seen);
        fake_set_int(item, "hits", fault->n_hits);
        (void)cJSON_AddItemToArray(list, item);
    }
    return list;
}

static void free_fault(struct fake_fault *fault)
{
    free(fault->verb);
    free(fault->resource);
    free(fault->ns);
    free(fault->name);
    free(fault->subresource);
    free(fault->agent);
    free(fault->reason);
    free(fault->message);
    free(fault);
}

void fake_faults_clear(struct fake_faults *faults, int64_t id)
{
    struct fake_fault **place = &faults->rules;

    while (*place) {
        struct fake_fault *fault = *place;

        if (id > 0 && fault->id != id) {
            place = &fault->next;
            continue;
        }
        *place = fault->next;
        free_fault(fault);
    }
}

static bool is_same(const char *wanted, const char *is)
{
    return !wanted || strcmp(wanted, is ? is : "") == 0;
}

static bool is_write(enum fake_verb verb)
{
    return verb >= FAKE_CREATE;
}

static bool matches(const struct fake_fault *fault, const struct fake_request *r)
{
    const char *agent = fault->agent ? fault->agent : r->conn->server->config.agent;

    if (fault->verb && strcmp(fault->verb, "write") == 0 ? !is_write(r->verb)
                                                         : !is_same(fault->verb, verbs[r->verb]))
        return false;
    return is_same(fault->resource, r->kind->resource) && is_same(fault->ns, r->ns) &&
           is_same(fault->name, r->object_name) && is_same(fault->subresource, r->subresource) &&
           hvd_str_has_prefix(r->agent, agent);
}

static double next_random(struct fake_faults *faults)
{
    faults->random = faults->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(faults->random >> 11) / (double)((uint64_t)1 << 53);
}

static bool strikes(struct fake_faults *faults, struct fake_fault *fault)
{
    int64_t place = fault->n_seen - fault->nth;

    if (place < 0 || (fault->every > 1 && place % fault->every != 0))
        return false;
    if (fault->times >= 0 && fault->n_hits >= fault->times)
        return false;
    return fault->chance >= 1.0 || next_random(faults) < fault->chance;
}

const struct fake_fault *fake_fault_strike(struct fake_faults *faults,
                                           const struct fake_request *request)
{
    struct fake_fault *hit = NULL;
    struct fake_fault *fault = NULL;

    LL_FOREACH(faults->rules, fault)
    {
        if (!matches(fault, request))
            continue;
        fault->n_seen++;
        if (!hit && strikes(faults, fault))
            hit = fault;
    }
    if (hit)
        hit->n_hits++;
    return hit;
}
