/*
 * Decodes, copies, compares and encodes the status of a HorovodJob, and sets conditions. The status
 * is the operator's only memory, so encode and decode are inverse to each other. One table has all
 * fields but the conditions; a new field is a new row. Pure.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "operator/api/rfc3339.h"

#define MESSAGE_MAX 1024
#define ATTEMPT_MESSAGE_MAX 512

static const char *const state_names[HVD_N_JOB_STATES] = {
    [HVD_JOB_NEW] = "",
    [HVD_JOB_PENDING] = "Pending",
    [HVD_JOB_STARTING] = "Starting",
    [HVD_JOB_RUNNING] = "Running",
    [HVD_JOB_SUSPENDED] = "Suspended",
    [HVD_JOB_RESTARTING] = "Restarting",
    [HVD_JOB_SUCCEEDED] = "Succeeded",
    [HVD_JOB_FAILED] = "Failed",
};

static const char *const condition_names[HVD_N_CONDITIONS] = {
    [HVD_COND_WORKERS_READY] = "WorkersReady",
    [HVD_COND_RUNNING] = "Running",
    [HVD_COND_SUSPENDED] = "Suspended",
    [HVD_COND_SUCCEEDED] = "Succeeded",
    [HVD_COND_FAILED] = "Failed",
    [HVD_COND_CONTESTED] = "Contested",
    [HVD_COND_DELETION_BLOCKED] = "DeletionBlocked",
};

static const char *const truth_names[] = {
    [HVD_ABSENT] = "", [HVD_FALSE] = "False", [HVD_TRUE] = "True", [HVD_UNKNOWN] = "Unknown"};

/* The forms of a field in the stored status. */
enum sort {
    STATE,    /* its name */
    NUMBER,   /* from 0 to max; any other value counts as 0 */
    POSITIVE, /* likewise, and null for 0 */
    CODE,     /* a number or null; the bool at has_at holds which */
    FLAG,     /* true or false */
    TIME,     /* null for 0 */
    TEXT,     /* of at most 1 KiB, owned; null for NULL */
};

struct field {
    const char *key;    /* in its object; NULL: the field is not written */
    const char *parent; /* the member that is this object; NULL: the status itself */
    enum sort sort;
    size_t at, size; /* in struct hvd_job_status */
    int64_t max;
    size_t has_at;
};

#define AT(member)                                                                                 \
    offsetof(struct hvd_job_status, member), sizeof(((struct hvd_job_status *)NULL)->member)
#define FAILURE "workerFailure" /* null if there is no message */

/* In the order of writing. */
static const struct field fields[] = {
    {"desired", "workers", NUMBER, AT(workers_desired), HVD_JOB_WORKERS_MAX + 1, 0},
    {"ready", "workers", NUMBER, AT(workers_ready), HVD_JOB_WORKERS_MAX + 1, 0},
    {"state", NULL, STATE, AT(state), 0, 0},
    {"image", NULL, TEXT, AT(image), 0, 0},
    {"replicas", NULL, NUMBER, AT(replicas), HVD_JOB_WORKERS_MAX + 1, 0},
    {"hosts", NULL, NUMBER, AT(hosts), HVD_JOB_WORKERS_MAX + 1, 0},
    {"attempts", NULL, NUMBER, AT(attempts), INT32_MAX, 0},
    {"failures", NULL, NUMBER, AT(failures), HVD_JOB_COUNT_MAX, 0},
    {"interruptions", NULL, NUMBER, AT(interruptions), HVD_JOB_COUNT_MAX, 0},
    {"failuresInARow", NULL, NUMBER, AT(failures_in_row), INT32_MAX, 0},
    {"nextAttemptTime", NULL, TIME, AT(retry_s), 0, 0},
    {"cleaned", NULL, NUMBER, AT(cleaned), INT32_MAX, 0},
    {"sshPort", NULL, POSITIVE, AT(launch_port), UINT16_MAX, 0},
    {"observedGeneration", NULL, NUMBER, AT(observed_generation), INT64_MAX, 0},
    {"startTime", NULL, TIME, AT(start_s), 0, 0},
    {"completionTime", NULL, TIME, AT(completion_s), 0, 0},
    {"message", FAILURE, TEXT, AT(worker_failure.message), 0, 0},
    {"attempt", FAILURE, NUMBER, AT(worker_failure.attempt), INT32_MAX, 0},
    {"time", FAILURE, TIME, AT(worker_failure.at_s), 0, 0},
    {"exitCode", FAILURE, CODE, AT(worker_failure.exit_code), INT32_MAX,
     offsetof(struct hvd_job_status, worker_failure.has_exit_code)},
    {NULL, FAILURE, FLAG, AT(worker_failure.has_exit_code), 0, 0},
    {"disruption", FAILURE, FLAG, AT(worker_failure.is_disruption), 0, 0},
    {"masterUID", NULL, TEXT, AT(master_uid), 0, 0},
    {"failureLog", NULL, TEXT, AT(failure_log), 0, 0},
    {NULL, NULL, TEXT, AT(others), 0, 0},
    {NULL, NULL, FLAG, AT(is_inexact), 0, 0},
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))
#define N_FIRST 4 /* so many fields precede those that are derived from the status */

_Static_assert(N_FIELDS + (size_t)2 * HVD_N_CONDITIONS <= HVD_STATUS_TEXTS_MAX,
               "each may be a text");

/* The address of a field in a status. */
static void *member(const struct hvd_job_status *status, size_t at)
{
    return (char *)status + at;
}

/* The number in the field, which is not a text. */
static int64_t number_of(const struct hvd_job_status *status, const struct field *field)
{
    const void *from = member(status, field->at);

    if (field->size == sizeof(int64_t))
        return *(const int64_t *)from;
    return field->size == sizeof(int32_t) ? *(const int32_t *)from : *(const bool *)from;
}

static void set_number(struct hvd_job_status *status, const struct field *field, int64_t value)
{
    void *to = member(status, field->at);

    if (field->size == sizeof(int64_t))
        *(int64_t *)to = value;
    else if (field->size == sizeof(int32_t))
        *(int32_t *)to = (int32_t)value;
    else
        *(bool *)to = value != 0;
}

const char *hvd_job_state_str(enum hvd_job_state state)
{
    return state_names[state];
}

const char *hvd_job_condition_str(enum hvd_condition_type type)
{
    return condition_names[type];
}

bool hvd_job_is_finished(const struct hvd_job_status *status)
{
    return status->conditions[HVD_COND_SUCCEEDED].truth == HVD_TRUE ||
           status->conditions[HVD_COND_FAILED].truth == HVD_TRUE;
}

int32_t hvd_job_ended(const struct hvd_job_status *status)
{
    return status->failures + status->interruptions;
}

/* The index of text in names, 0 when it is not there. */
static size_t index_of(const char *const *names, size_t n, const char *text)
{
    for (size_t i = 1; text && i < n; i++) {
        if (strcmp(names[i], text) == 0)
            return i;
    }
    return 0;
}

size_t hvd_status_cut(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);

    if (len <= max)
        return len;
    len = max;
    while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80)
        len--;
    return len;
}

/* Copies reason and message (NULL: empty), cut at 1 KiB, into the condition. On failure the
 * condition keeps its old texts. */
static hvd_status_t condition_texts(struct hvd_condition *condition, const char *reason,
                                    const char *message)
{
    char *new_reason, *new_message = NULL;

    if (!reason)
        reason = "";
    if (!message)
        message = "";
    new_reason = hvd_strndup(reason, hvd_status_cut(reason, MESSAGE_MAX));
    if (new_reason)
        new_message = hvd_strndup(message, hvd_status_cut(message, MESSAGE_MAX));
    if (!new_message) {
        hvd_free(new_reason);
        return HVD_ERR_NOMEM;
    }
    hvd_free(condition->reason);
    hvd_free(condition->message);
    condition->reason = new_reason;
    condition->message = new_message;
    return HVD_OK;
}

hvd_status_t hvd_job_condition_set(struct hvd_job_status *status,
                                   const struct hvd_condition_update *update, int64_t now_s,
                                   bool *changed)
{
    struct hvd_condition *condition = &status->conditions[update->type];
    bool differs = condition->truth != update->truth;

    if (condition_texts(condition, update->reason, update->message))
        return HVD_ERR_NOMEM;
    if (differs)
        condition->since_s = now_s;
    condition->truth = update->truth;
    condition->generation = status->observed_generation;
    if (changed)
        *changed = differs;
    return HVD_OK;
}

/* Replaces an owned text by a copy of at most 1 KiB. */
static hvd_status_t set_text(char **target, const char *text)
{
    char *copy = NULL;

    if (text) {
        copy = hvd_strndup(text, hvd_status_cut(text, MESSAGE_MAX));
        if (!copy)
            return HVD_ERR_NOMEM;
    }
    hvd_free(*target);
    *target = copy;
    return HVD_OK;
}

hvd_status_t hvd_job_set_image(struct hvd_job_status *status, const char *image)
{
    return set_text(&status->image, image);
}

hvd_status_t hvd_job_set_master_uid(struct hvd_job_status *status, const char *uid)
{
    return set_text(&status->master_uid, uid);
}

hvd_status_t hvd_job_set_failure_log(struct hvd_job_status *status, const char *text)
{
    return set_text(&status->failure_log, text);
}

hvd_status_t hvd_job_set_worker_failure(struct hvd_job_status *status,
                                        const struct hvd_worker_failure *failure)
{
    struct hvd_worker_failure made = *failure;

    made.message = NULL;
    if (set_text(&made.message, failure->message))
        return HVD_ERR_NOMEM;
    hvd_free(status->worker_failure.message);
    status->worker_failure = made;
    return HVD_OK;
}

bool hvd_status_is_own_condition(const char *type)
{
    for (size_t i = 0; i < HVD_N_CONDITIONS; i++) {
        if (hvd_str_equal(condition_names[i], type))
            return true;
    }
    return false;
}

/* A time since 1970; 0 if there is none. */
static int64_t time_at(const cJSON *object, const char *path)
{
    int64_t time_s = hvd_rfc3339_parse(hvd_json_str(object, path));

    return time_s > 0 ? time_s : 0;
}

/* A number from 0 to max; 0 for any other value. The bound leaves room for counting on. */
static int64_t number_at(const cJSON *object, const char *path, int64_t max)
{
    int64_t value = hvd_json_int(object, path, 0);

    return value < 0 || value > max ? 0 : value;
}

static hvd_status_t decode_condition(const cJSON *item, struct hvd_job_status *out)
{
    size_t truth = index_of(truth_names, sizeof(truth_names) / sizeof(truth_names[0]),
                            hvd_json_str(item, "status"));
    const char *type = hvd_json_str(item, "type");

    for (size_t i = 0; type && truth && i < HVD_N_CONDITIONS; i++) {
        struct hvd_condition *condition = &out->conditions[i];

        if (strcmp(condition_names[i], type) != 0)
            continue;
        condition->truth = (enum hvd_truth)truth;
        condition->since_s = time_at(item, "lastTransitionTime");
        condition->generation = number_at(item, "observedGeneration", INT64_MAX);
        return condition_texts(condition, hvd_json_str(item, "reason"),
                               hvd_json_str(item, "message"));
    }
    return HVD_OK;
}

static hvd_status_t decode_field(const cJSON *status, const struct field *field,
                                 struct hvd_job_status *out)
{
    const cJSON *object = field->parent ? hvd_json_get(status, field->parent) : status;
    int64_t value = 0;

    switch (field->sort) {
    case STATE:
        value = (int64_t)index_of(state_names, HVD_N_JOB_STATES, hvd_json_str(object, field->key));
        break;
    case NUMBER:
    case POSITIVE:
    case CODE:
        value = number_at(object, field->key, field->max);
        break;
    case FLAG:
        value = hvd_json_true(object, field->key);
        break;
    case TIME:
        value = time_at(object, field->key);
        break;
    case TEXT:
        return set_text(member(out, field->at), hvd_json_str(object, field->key));
    }
    set_number(out, field, value);
    if (field->sort == CODE)
        *(bool *)member(out, field->has_at) =
            value > 0 || hvd_json_int(object, field->key, -1) == 0;
    return HVD_OK;
}

static hvd_status_t decode_fields(const cJSON *status, struct hvd_job_status *out)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < N_FIELDS && !st; i++) {
        if (fields[i].key)
            st = decode_field(status, &fields[i], out);
    }
    if (!out->worker_failure.message)
        out->worker_failure = (struct hvd_worker_failure){0};
    if (out->state == HVD_JOB_PENDING && out->observed_generation == 0)
        out->state = HVD_JOB_NEW; /* the definition's default: no status was written yet */
    return st;
}

hvd_status_t hvd_status_decode(const cJSON *status, struct hvd_job *job, struct hvd_err *err)
{
    struct hvd_job_status *out = &job->status;
    hvd_status_t st = decode_fields(status, out);
    const cJSON *item = NULL;
    bool is_exact = true;

    cJSON_ArrayForEach(item, hvd_json_get(status, "conditions"))
    {
        st = st ? st : decode_condition(item, out);
    }
    if (!st)
        st = hvd_exact_keep_others(status, &out->others);
    if (!st)
        st = hvd_exact_check(status, job, &is_exact);
    out->is_inexact = !is_exact;
    return st ? HVD_FAIL(err, st, 0, "HorovodJob status") : HVD_OK;
}

size_t hvd_status_texts(struct hvd_job_status *status, char **out[HVD_STATUS_TEXTS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < N_FIELDS; i++) {
        if (fields[i].sort == TEXT)
            out[n++] = member(status, fields[i].at);
    }
    for (size_t i = 0; i < HVD_N_CONDITIONS; i++) {
        out[n++] = &status->conditions[i].reason;
        out[n++] = &status->conditions[i].message;
    }
    return n;
}

hvd_status_t hvd_job_status_copy(const struct hvd_job_status *from, struct hvd_job_status *out)
{
    struct hvd_job_status copy = *from;
    char **texts[HVD_STATUS_TEXTS_MAX];
    bool has_failed = false;
    size_t n;

    for (size_t i = 0; i < HVD_N_CONDITIONS; i++) {
        if (copy.conditions[i].truth == HVD_ABSENT)
            copy.conditions[i] = (struct hvd_condition){0};
    }
    n = hvd_status_texts(&copy, texts);
    for (size_t i = 0; i < n; i++) {
        const char *text = *texts[i];

        *texts[i] = text && !has_failed ? hvd_strdup(text) : NULL;
        has_failed = has_failed || (text && !*texts[i]);
    }
    if (has_failed) {
        hvd_job_status_fini(&copy);
        return HVD_ERR_NOMEM;
    }
    *out = copy;
    return HVD_OK;
}

void hvd_job_status_fini(struct hvd_job_status *status)
{
    char **texts[HVD_STATUS_TEXTS_MAX];
    const size_t n = hvd_status_texts(status, texts);

    for (size_t i = 0; i < n; i++)
        hvd_free(*texts[i]);
    *status = (struct hvd_job_status){0};
}

static bool condition_equal(const struct hvd_condition *a, const struct hvd_condition *b)
{
    return a->truth == b->truth && a->since_s == b->since_s && a->generation == b->generation &&
           hvd_str_equal(a->reason, b->reason) && hvd_str_equal(a->message, b->message);
}

static bool field_equal(const struct field *field, const struct hvd_job_status *a,
                        const struct hvd_job_status *b)
{
    if (field->sort == TEXT)
        return hvd_str_equal(*(char **)member(a, field->at), *(char **)member(b, field->at));
    return number_of(a, field) == number_of(b, field);
}

bool hvd_job_status_equal(const struct hvd_job_status *a, const struct hvd_job_status *b)
{
    bool equal = true;

    for (size_t i = 0; equal && i < N_FIELDS; i++)
        equal = field_equal(&fields[i], a, b);
    for (size_t i = 0; equal && i < HVD_N_CONDITIONS; i++)
        equal = condition_equal(&a->conditions[i], &b->conditions[i]);
    return equal;
}

static void encode_time(struct hvd_jb *jb, cJSON *parent, const char *key, int64_t seconds)
{
    char text[HVD_RFC3339_SIZE];

    hvd_rfc3339_format(seconds, text);
    hvd_jb_str(jb, parent, key, seconds ? text : NULL);
}

/* Adds the conditions of others, because a merge patch replaces a list as a whole. */
static void encode_others(struct hvd_jb *jb, cJSON *array, const char *others)
{
    cJSON *list = NULL;
    const cJSON *item = NULL;

    if (others && hvd_json_parse(others, &list) != HVD_OK)
        jb->failed = true;
    cJSON_ArrayForEach(item, list)
    {
        hvd_jb_copy(jb, array, NULL, item);
    }
    cJSON_Delete(list);
}

static void encode_conditions(struct hvd_jb *jb, cJSON *parent, const struct hvd_job_status *status)
{
    cJSON *array = hvd_jb_array(jb, parent, "conditions");

    for (size_t i = 0; array && i < HVD_N_CONDITIONS; i++) {
        const struct hvd_condition *condition = &status->conditions[i];
        cJSON *item;

        if (condition->truth == HVD_ABSENT)
            continue;
        item = hvd_jb_object(jb, array, NULL);
        hvd_jb_str(jb, item, "type", condition_names[i]);
        hvd_jb_str(jb, item, "status", truth_names[condition->truth]);
        hvd_jb_str(jb, item, "reason", condition->reason);
        hvd_jb_str(jb, item, "message", condition->message);
        hvd_jb_int(jb, item, "observedGeneration", condition->generation);
        encode_time(jb, item, "lastTransitionTime", condition->since_s);
    }
    encode_others(jb, array, status->others);
}

/* A number, or null. */
static void encode_number(struct hvd_jb *jb, cJSON *object, const char *key, bool is_there,
                          int64_t number)
{
    if (is_there)
        hvd_jb_int(jb, object, key, number);
    else
        hvd_jb_str(jb, object, key, NULL);
}

static void encode_field(struct hvd_jb *jb, cJSON *object, const struct field *field,
                         const struct hvd_job_status *status)
{
    const int64_t value = field->sort == TEXT ? 0 : number_of(status, field);

    switch (field->sort) {
    case STATE:
        hvd_jb_str(jb, object, field->key, state_names[value]);
        break;
    case NUMBER:
        hvd_jb_int(jb, object, field->key, value);
        break;
    case POSITIVE:
        encode_number(jb, object, field->key, value > 0, value);
        break;
    case CODE:
        encode_number(jb, object, field->key, *(bool *)member(status, field->has_at), value);
        break;
    case FLAG:
        hvd_jb_bool(jb, object, field->key, value != 0);
        break;
    case TIME:
        encode_time(jb, object, field->key, value);
        break;
    case TEXT:
        hvd_jb_str(jb, object, field->key, *(char **)member(status, field->at));
        break;
    }
}

/* Writes n fields. A member that is an object begins with its first field. Without a failure the
 * object is null. */
static void encode_fields(struct hvd_jb *jb, cJSON *out, const struct field *field, size_t n,
                          const struct hvd_job_status *status)
{
    for (const struct field *end = field + n; field < end; field++) {
        const bool is_failure = field->parent && strcmp(field->parent, FAILURE) == 0;

        if (!field->key)
            continue;
        if (!is_failure || status->worker_failure.message)
            encode_field(jb, field->parent ? hvd_jb_ensure_object(jb, out, field->parent) : out,
                         field, status);
        else if (!hvd_json_get(out, FAILURE))
            hvd_jb_str(jb, out, FAILURE, NULL);
    }
}

/* The summary in one line: the message of the condition that decides the state. */
static const char *headline(const struct hvd_job_status *status)
{
    static const enum hvd_condition_type order[] = {HVD_COND_FAILED, HVD_COND_SUCCEEDED,
                                                    HVD_COND_SUSPENDED, HVD_COND_RUNNING,
                                                    HVD_COND_DELETION_BLOCKED};
    const struct hvd_condition *running = &status->conditions[HVD_COND_RUNNING];

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if (status->conditions[order[i]].truth == HVD_TRUE)
            return status->conditions[order[i]].message;
    }
    if (running->message && running->message[0] != '\0')
        return running->message;
    return status->conditions[HVD_COND_WORKERS_READY].message;
}

/* Writes the Ready workers and the wanted ones. Workers that are removed after the job's end count
 * as neither, also while the API server denies other removals. */
static void encode_ready(struct hvd_jb *jb, cJSON *out, const struct hvd_job *job,
                         const struct hvd_job_status *status)
{
    const struct hvd_condition *workers = &status->conditions[HVD_COND_WORKERS_READY];

    if (hvd_str_equal(workers->reason, HVD_REASON_JOB_FINISHED) ||
        (hvd_str_equal(workers->reason, HVD_REASON_REMOVAL_DENIED) && status->workers_ready == 0 &&
         job->spec.clean_pod_policy != HVD_CLEAN_NONE))
        hvd_jb_str(jb, out, "ready", "-");
    else
        hvd_jb_fmt(jb, out, "ready", "%d/%d", status->workers_ready, status->workers_desired);
}

void hvd_status_put(struct hvd_jb *jb, cJSON *out, const struct hvd_job *job,
                    const struct hvd_job_status *status)
{
    encode_fields(jb, out, fields, N_FIRST, status);
    hvd_jb_str(jb, out, "message", headline(status));
    encode_ready(jb, out, job, status);
    hvd_jb_fmt(jb, out, "selector", "%s=%s,%s=worker,!%s", HVD_LABEL_JOB, job->name, HVD_LABEL_ROLE,
               HVD_LABEL_GROUP);
    encode_fields(jb, out, fields + N_FIRST, N_FIELDS - N_FIRST, status);
    encode_conditions(jb, out, status);
}

/* A text of at most max bytes; NULL writes null. */
static void encode_cut(struct hvd_jb *jb, cJSON *parent, const char *key, const char *text,
                       size_t max)
{
    if (text && text[0] != '\0')
        hvd_jb_fmt(jb, parent, key, "%.*s", (int)hvd_status_cut(text, max), text);
    else
        hvd_jb_str(jb, parent, key, NULL);
}

/*
 * Writes one entry of a map, so that a merge patch adds it without the others, which only the API
 * server holds. Every ended attempt is written once, under its number. Each time the entry that is
 * HVD_ATTEMPT_LOGS older is removed, so their number is constant.
 */
static void encode_attempt_end(struct hvd_jb *jb, cJSON *out, const struct hvd_attempt_end *end)
{
    cJSON *logs = hvd_jb_object(jb, out, "attemptLogs");
    char key[16];
    cJSON *item;

    (void)snprintf(key, sizeof(key), "%d", (int)end->number);
    item = hvd_jb_object(jb, logs, key);
    hvd_jb_str(jb, item, "reason", end->reason);
    encode_cut(jb, item, "message", end->message, ATTEMPT_MESSAGE_MAX);
    encode_cut(jb, item, "log", end->log, MESSAGE_MAX);
    encode_time(jb, item, "time", end->at_s);
    encode_number(jb, item, "exitCode", end->has_exit_code, end->exit_code);
    if (end->number <= HVD_ATTEMPT_LOGS)
        return;
    (void)snprintf(key, sizeof(key), "%d", (int)(end->number - HVD_ATTEMPT_LOGS));
    hvd_jb_str(jb, logs, key, NULL);
}

hvd_status_t hvd_job_status_encode(const struct hvd_job *job, const struct hvd_job_status *status,
                                   const struct hvd_attempt_end *end, char **out,
                                   struct hvd_err *err)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *meta = hvd_jb_object(&jb, root, "metadata");
    cJSON *body = hvd_jb_object(&jb, root, "status");
    char *text;

    hvd_jb_str(&jb, meta, "uid", job->uid);
    hvd_jb_str(&jb, meta, "resourceVersion", job->resource_version);
    hvd_status_put(&jb, body, job, status);
    if (end && end->number > 0)
        encode_attempt_end(&jb, body, end);
    text = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    if (!text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s/%s: status", job->namespace,
                        job->name);
    *out = text;
    return HVD_OK;
}
