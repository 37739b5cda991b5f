/*
 * The log of writes to a job's objects: how often the same value was set in a row, when, and which
 * other writer changes it. The shell keeps the log, and contest.c decides by it. Pure.
 */
#include "operator/core/writes/repair.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/slab.h"
#include "base/str.h"
#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "operator/core/launch/launch.h"
#include "operator/core/view/hash.h"
#include "operator/core/writes/crowd.h"
#include "operator/core/writes/denial.h"
#include "operator/core/writes/repair_internal.h"

#define RECORDS_MAX 256 /* of one job, */
#define OF_PODS_MAX 192 /* and of its pods, which may be many: the rest is for its children */
#define LONGEST_MS 300000
#define TEXT_SIZE 384
#define NAME_SIZE 128
#define CARRIED 16 /* repairs after which the next one waits for the longest time */
#define PATHS_MAX 8
#define PATH_MAX 3

/* A path in managedFields. */
typedef const char *const field_path[PATH_MAX + 1];

struct repair_info {
    const char *field;  /* for messages; NULL: the object as a whole */
    int64_t wait_ms[2]; /* after the first write and after the second; then doubled */
    /* In managedFields, down to the keys that the operator sets: neighbouring keys may be
     * anybody's, and a removed key has no owner. */
    field_path paths[PATHS_MAX];
};

/* clang-format off */
#define WAITS {1000, 2000}

static const struct repair_info infos[HVD_N_REPAIRS] = {
    /* The first creation repairs nothing. */
    [HVD_REPAIR_EXISTENCE] = {NULL, {0, 2000}, {{NULL}}},
    /* Each costs an attempt: all workers are made anew. */
    [HVD_REPAIR_MASTER] = {NULL, {0, 600000}, {{NULL}}},
    /* The first of them also adds an event. */
    [HVD_REPAIR_LABELS] = {"metadata.labels", {2000, 4000},
                           {{"f:metadata", "f:labels"}}},
    [HVD_REPAIR_OWNER] = {"metadata.ownerReferences", {2000, 4000},
                          {{"f:metadata", "f:ownerReferences"}}},
    [HVD_REPAIR_SELECTOR] = {"spec.selector", WAITS, {{"f:spec", "f:selector"}}},
    [HVD_REPAIR_UNREADY] = {"spec.publishNotReadyAddresses", WAITS,
                            {{"f:spec", "f:publishNotReadyAddresses"}}},
    [HVD_REPAIR_TYPE] = {"spec.type", WAITS, {{"f:spec", "f:type"}, {"f:spec", "f:externalName"}}},
    /* Each is a deletion and a creation. */
    [HVD_REPAIR_ADDRESS] = {"spec.clusterIP", {30000, 600000},
                            {{"f:spec", "f:type"}, {"f:spec", "f:clusterIP"}}},
    [HVD_REPAIR_REPLICAS] = {"spec.replicas", WAITS, {{"f:spec", "f:replicas"}}},
    [HVD_REPAIR_STRATEGY] = {"spec.updateStrategy", WAITS, {{"f:spec", "f:updateStrategy"}}},
    [HVD_REPAIR_ORDINALS] = {"spec.ordinals", WAITS, {{"f:spec", "f:ordinals"}}},
    [HVD_REPAIR_HOSTS] = {"data", WAITS,
                          {{"f:data", "f:hostfile"}, {"f:data", "f:hosts"},
                           {"f:data", "f:discover_hosts.sh"}, {"f:data", "f:" HVD_LAUNCH_FILE},
                           {"f:binaryData", "f:hostfile"}, {"f:binaryData", "f:hosts"},
                           {"f:binaryData", "f:discover_hosts.sh"},
                           {"f:binaryData", "f:" HVD_LAUNCH_FILE}}},
    /* Each costs new workers, and seven requests. */
    [HVD_REPAIR_IMMUTABLE] = {"immutable", {3600000, 3600000}, {{"f:immutable"}}},
    [HVD_REPAIR_HOSTS_SEEN] = {"metadata.annotations[" HVD_ANNOTATION_HOSTS "]", WAITS,
                               {{"f:metadata", "f:annotations", "f:" HVD_ANNOTATION_HOSTS}}},
    [HVD_REPAIR_END] = {"metadata.annotations[" HVD_ANNOTATION_END "]", WAITS,
                        {{"f:metadata", "f:annotations", "f:" HVD_ANNOTATION_END}}},
    [HVD_REPAIR_WORKERS] = {"metadata.annotations[" HVD_ANNOTATION_WORKERS "]", WAITS,
                            {{"f:metadata", "f:annotations", "f:" HVD_ANNOTATION_WORKERS}}},
    [HVD_REPAIR_SUSPEND] = {"spec.suspend or spec.parallelism", WAITS,
                            {{"f:spec", "f:suspend"}, {"f:spec", "f:parallelism"}}},
    [HVD_REPAIR_TTL] = {"spec.ttlSecondsAfterFinished", WAITS,
                        {{"f:spec", "f:ttlSecondsAfterFinished"}}},
    [HVD_REPAIR_DEADLINE] = {"spec.activeDeadlineSeconds", WAITS,
                             {{"f:spec", "f:activeDeadlineSeconds"}}},
    [HVD_REPAIR_BACKOFF] = {"spec.backoffLimit", WAITS, {{"f:spec", "f:backoffLimit"}}},
    [HVD_REPAIR_GANG] = {"spec", WAITS,
                         {{"f:spec", "f:minMember"}, {"f:spec", "f:minResources"},
                          {"f:spec", "f:queue"}, {"f:spec", "f:priorityClassName"},
                          {"f:spec", "f:scheduleTimeoutSeconds"}}},
    [HVD_REPAIR_STATUS] = {"status", WAITS, {{"f:status"}}},
};
/* clang-format on */

uint64_t hvd_repair_key(enum hvd_kind kind, const char *name, enum hvd_repair repair)
{
    uint64_t hash = hvd_hash_number(HVD_HASH_START, (int64_t)kind);

    return hvd_hash_number(hvd_hash_text(hash, name), (int64_t)repair);
}

static struct hvd_repair_record *find(const struct hvd_repairs *repairs, uint64_t key)
{
    for (size_t i = 0; repairs && i < repairs->n; i++) {
        if (repairs->records[i].key == key)
            return &repairs->records[i];
    }
    return NULL;
}

const struct hvd_repair_record *hvd_repairs_find(const struct hvd_repairs *repairs, uint64_t key)
{
    return find(repairs, key);
}

int64_t hvd_repair_longest_ms(const struct hvd_repair_record *record)
{
    int64_t wait_ms = infos[record->repair].wait_ms[1];

    return wait_ms > LONGEST_MS ? wait_ms : LONGEST_MS;
}

int64_t hvd_repair_due_ms(const struct hvd_repair_record *record)
{
    const int64_t *waits_ms = infos[record->repair].wait_ms;
    int64_t longest_ms = hvd_repair_longest_ms(record);
    int64_t wait_ms = waits_ms[record->n > 1];

    for (unsigned i = 2; i < record->n && wait_ms < longest_ms; i++)
        wait_ms *= 2;
    return record->last_ms + (wait_ms < longest_ms ? wait_ms : longest_ms);
}

int64_t hvd_repair_calm_ms(const struct hvd_repair_record *record)
{
    return hvd_repair_due_ms(record) + HVD_REPAIR_CALM_MS;
}

/* A clock that was set back must not lengthen a wait. */
static bool is_calm(const struct hvd_repair_record *record, int64_t now_ms)
{
    return now_ms < record->last_ms || now_ms >= hvd_repair_calm_ms(record);
}

bool hvd_repair_is_again(const struct hvd_repair_record *record, uint64_t value, int64_t now_ms)
{
    return record->value == value && !is_calm(record, now_ms);
}

bool hvd_repair_is_fight(const struct hvd_repair_record *record)
{
    return record->n >= 2 || infos[record->repair].wait_ms[0] > LONGEST_MS;
}

enum hvd_repair hvd_repair_of_existence(enum hvd_kind kind)
{
    return kind == HVD_KIND_JOB ? HVD_REPAIR_MASTER : HVD_REPAIR_EXISTENCE;
}

/* ---- the log ---- */

static void remove_at(struct hvd_repairs *repairs, size_t at)
{
    hvd_free(repairs->records[at].text);
    repairs->n--;
    memmove(&repairs->records[at], &repairs->records[at + 1],
            (repairs->n - at) * sizeof(repairs->records[0]));
}

/* Room for another record. False: out of memory. */
static bool add_room(struct hvd_repairs *repairs)
{
    const size_t size = sizeof(repairs->records[0]);
    const uint32_t room = repairs->n + 1;
    struct hvd_repair_record *records = hvd_slab_take(repairs->slab, room * size);

    if (!records)
        return false;
    if (repairs->n)
        memcpy(records, repairs->records, repairs->n * size);
    hvd_slab_give(repairs->slab, repairs->records, repairs->room * size);
    repairs->records = records;
    repairs->room = room;
    return true;
}

static void free_room(struct hvd_repairs *repairs)
{
    hvd_slab_give(repairs->slab, repairs->records, repairs->room * sizeof(repairs->records[0]));
    repairs->records = NULL;
    repairs->room = 0;
}

bool hvd_repairs_has_room(const struct hvd_repairs *repairs, enum hvd_kind kind, size_t n_planned)
{
    size_t n = repairs ? repairs->n : 0, n_of_pods = 0;

    for (size_t i = 0; kind == HVD_KIND_POD && i < n; i++)
        n_of_pods += repairs->records[i].is_of_pod ? 1 : 0;
    return n + n_planned < RECORDS_MAX &&
           (kind != HVD_KIND_POD || n_of_pods + n_planned < OF_PODS_MAX);
}

const struct hvd_crowd *hvd_repairs_crowd(const struct hvd_repairs *repairs, int64_t now_ms)
{
    const struct hvd_crowd *crowd = repairs ? repairs->crowd : NULL;

    return crowd && !hvd_crowd_is_calm(crowd, now_ms) ? crowd : NULL;
}

static void drop_crowd(struct hvd_repairs *repairs)
{
    hvd_crowd_destroy(repairs->crowd);
    repairs->crowd = NULL;
}

void hvd_repairs_prune(struct hvd_repairs *repairs, int64_t now_ms)
{
    hvd_denials_prune(&repairs->denials, now_ms);
    if (repairs->crowd && hvd_crowd_is_calm(repairs->crowd, now_ms))
        drop_crowd(repairs);
    for (size_t i = repairs->n; i > 0; i--) {
        if (is_calm(&repairs->records[i - 1], now_ms))
            remove_at(repairs, i - 1);
    }
    if (!repairs->n)
        free_room(repairs);
}

void hvd_repairs_fini(struct hvd_repairs *repairs)
{
    while (repairs->n)
        remove_at(repairs, repairs->n - 1);
    free_room(repairs);
    drop_crowd(repairs);
    hvd_free(repairs->carried);
    hvd_denials_destroy(repairs->denials);
    *repairs = (struct hvd_repairs){.slab = repairs->slab};
}

static struct hvd_repair_record *add(struct hvd_repairs *repairs, uint64_t key)
{
    if (repairs->n == repairs->room && !add_room(repairs))
        return NULL;
    repairs->records[repairs->n] = (struct hvd_repair_record){.key = key};
    return &repairs->records[repairs->n++];
}

/* Whether another writer is known to undo it. */
static bool is_known_fight(const struct hvd_repair_record *record)
{
    return record->text || record->is_announced;
}

/* What follows was not undone by another writer. */
static void forget_creation(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name,
                            bool keeps_fight)
{
    const uint64_t key = hvd_repair_key(kind, name, hvd_repair_of_existence(kind));

    for (size_t i = repairs->n; i > 0; i--) {
        const struct hvd_repair_record *record = &repairs->records[i - 1];

        if (record->key == key && !(keeps_fight && is_known_fight(record)))
            remove_at(repairs, i - 1);
    }
}

void hvd_repairs_forget(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name)
{
    const struct hvd_attempted_write write =
        hvd_denials_write(kind, name, hvd_repair_of_existence(kind), HVD_REPAIR_PRESENT, 0);

    forget_creation(repairs, kind, name, false);
    hvd_denials_drop(&repairs->denials, &write);
    if (!repairs->n)
        free_room(repairs);
}

void hvd_repairs_excuse(struct hvd_repairs *repairs, enum hvd_kind kind, const char *name)
{
    forget_creation(repairs, kind, name, true);
    if (!repairs->n)
        free_room(repairs);
}

void hvd_repairs_begin(struct hvd_repairs *repairs, const struct hvd_job *job, int64_t now_ms)
{
    const struct hvd_condition *contested = &job->status.conditions[HVD_COND_CONTESTED];

    if (repairs->since_ms)
        return;
    repairs->since_ms = now_ms;
    if (contested->truth == HVD_TRUE && contested->message)
        repairs->carried = hvd_strdup(contested->message);
}

/* The beginning of a text about the repair of that object. */
static void begin_text(const struct hvd_action *action, char out[TEXT_SIZE])
{
    const struct repair_info *info = &infos[action->repair];
    const bool is_of_field = info->field && action->repair != HVD_REPAIR_IMMUTABLE;

    (void)snprintf(out, TEXT_SIZE, "%s %s/%s%s%s: ", hvd_kind_info(action->kind)->kind,
                   action->namespace, action->name, is_of_field ? " field " : "",
                   is_of_field ? info->field : "");
}

bool hvd_repairs_has_carried(const struct hvd_repairs *repairs, const struct hvd_action *action,
                             int64_t now_ms)
{
    char text[TEXT_SIZE];

    if (!repairs || !repairs->carried || now_ms >= repairs->since_ms + HVD_REPAIR_CALM_MS)
        return false;
    begin_text(action, text);
    return strstr(repairs->carried, text) != NULL;
}

bool hvd_repair_is_costly(enum hvd_repair repair)
{
    return infos[repair].wait_ms[1] > LONGEST_MS;
}

static void note_crowd(struct hvd_repairs *repairs, uint64_t key, uint64_t value, int64_t now_ms)
{
    if (!repairs->crowd)
        repairs->crowd = hvd_crowd_create(now_ms);
    if (repairs->crowd)
        hvd_crowd_note(repairs->crowd, key, value, now_ms);
}

static void note(struct hvd_repairs *repairs, const struct hvd_action *action, int64_t now_ms,
                 bool is_refused)
{
    uint64_t key = hvd_repair_key(action->kind, action->name, action->repair);
    struct hvd_repair_record *record;
    bool is_new;

    if (action->repair == HVD_REPAIR_NONE || action->type == HVD_ACTION_EVENT)
        return;
    hvd_repairs_prune(repairs, now_ms);
    if (action->type == HVD_ACTION_DELETE && infos[action->repair].field)
        forget_creation(repairs, action->kind, action->name, false); /* the operator deletes it
                                                                        itself */
    record = find(repairs, key);
    is_new = !record;
    if (!record && hvd_repairs_has_room(repairs, action->kind, 0))
        record = add(repairs, key);
    else if (!record)
        note_crowd(repairs, key, action->value, now_ms);
    if (!record)
        return;
    if (record->n == 0 || record->value != action->value) {
        hvd_free(record->text);
        *record = (struct hvd_repair_record){.key = key, .value = action->value};
    }
    if (is_new && hvd_repairs_has_carried(repairs, action, now_ms)) {
        record->n = CARRIED;
        record->is_announced = true;
    }
    if (record->is_refused != is_refused) { /* the recorded other writer is out of date */
        hvd_free(record->text);
        record->text = NULL;
    }
    record->is_refused = is_refused;
    record->repair = (uint8_t)action->repair;
    record->is_of_pod = action->kind == HVD_KIND_POD;
    record->last_ms = now_ms;
    if (record->n < UINT16_MAX)
        record->n++;
}

void hvd_repairs_note(struct hvd_repairs *repairs, const struct hvd_action *action, int64_t now_ms)
{
    const struct hvd_attempted_write write =
        hvd_denials_write(action->kind, action->name, action->repair, action->value, 0);

    if (action->repair != HVD_REPAIR_NONE && action->type != HVD_ACTION_EVENT)
        hvd_denials_drop(&repairs->denials, &write);
    note(repairs, action, now_ms, false);
}

void hvd_repairs_note_refused(struct hvd_repairs *repairs, const struct hvd_action *action,
                              int64_t now_ms)
{
    note(repairs, action, now_ms, true);
}

void hvd_repairs_announced(struct hvd_repairs *repairs, const struct hvd_action *action)
{
    struct hvd_repair_record *record =
        action->repair == HVD_REPAIR_NONE ? NULL : find(repairs, action->value);

    if (repairs->crowd && action->repair != HVD_REPAIR_NONE && action->value == HVD_CROWD_KEY)
        repairs->crowd->is_announced = true;
    if (record)
        record->is_announced = true;
}

/* ---- other writers ---- */

/* Whether the fields of an entry have the path, and there one of the keys (NULL: any). */
static bool has_path(const cJSON *fields, field_path path, const cJSON *keys)
{
    const cJSON *key = NULL;

    for (size_t i = 0; path[i]; i++)
        fields = hvd_json_get(fields, path[i]);
    if (!path[0] || !keys)
        return path[0] && fields;
    cJSON_ArrayForEach(key, keys)
    {
        if (cJSON_IsString(key) && hvd_json_get(fields, key->valuestring))
            return true;
    }
    return false;
}

static bool has_any(const cJSON *fields, const struct repair_info *info, const cJSON *keys)
{
    bool has = !info->paths[0][0];

    for (size_t i = 0; i < PATHS_MAX && !has; i++)
        has = has_path(fields, info->paths[i], keys);
    return has;
}

/* The manager, other than this operator, that last wrote to the fields; NULL if none did. */
static const char *find_manager(const cJSON *object, const struct repair_info *info,
                                const cJSON *keys)
{
    const cJSON *entry = NULL;
    const char *found = NULL, *last = "";

    cJSON_ArrayForEach(entry, hvd_json_at(object, "metadata.managedFields"))
    {
        const char *manager = hvd_json_str(entry, "manager");
        const char *time = hvd_json_str(entry, "time"); /* RFC 3339 in UTC: sorts as text */

        if (!manager || strcmp(manager, HVD_MANAGER) == 0 || strcmp(time ? time : "", last) < 0 ||
            !has_any(hvd_json_get(entry, "fieldsV1"), info, keys))
            continue;
        found = manager;
        last = time ? time : "";
    }
    return found;
}

/* Describes the action of the other writer. */
static void describe(const struct hvd_action *action, const char *by, bool is_refused,
                     char out[TEXT_SIZE])
{
    const struct repair_info *info = &infos[action->repair];
    size_t len;

    begin_text(action, out);
    len = strlen(out);
    out += len;
    if (action->repair == HVD_REPAIR_IMMUTABLE)
        (void)snprintf(out, TEXT_SIZE - len, "made immutable by %s after each creation", by);
    else if (info->field && is_refused)
        (void)snprintf(out, TEXT_SIZE - len,
                       "the API server refuses each repair, for what %s has set beside it", by);
    else if (info->field)
        (void)snprintf(out, TEXT_SIZE - len, "changed again by %s after each repair", by);
    else if (action->value == HVD_REPAIR_PRESENT)
        (void)snprintf(out, TEXT_SIZE - len, "deleted by another program after each creation");
    else
        (void)snprintf(out, TEXT_SIZE - len, "made again by %s after each deletion", by);
}

hvd_status_t hvd_repairs_attribute(struct hvd_repairs *repairs, const struct hvd_action *action,
                                   const cJSON *object)
{
    uint64_t key = hvd_repair_key(action->kind, action->name, action->repair);
    struct hvd_repair_record *record = find(repairs, key);
    cJSON *keys = action->body ? cJSON_Parse(action->body) : NULL;
    const char *manager = find_manager(object, &infos[action->repair], keys);
    char by[NAME_SIZE + 16], text[TEXT_SIZE];
    char *copy;

    cJSON_Delete(keys);
    if (!record)
        return HVD_OK;
    if (manager)
        (void)snprintf(by, sizeof(by), "manager \"%.*s\"", NAME_SIZE, manager);
    describe(action, manager ? by : "an admission webhook or another program", record->is_refused,
             text);
    copy = hvd_strdup(text);
    if (!copy)
        return HVD_ERR_NOMEM;
    hvd_free(record->text);
    record->text = copy;
    return HVD_OK;
}
