/*
 * The status of a HorovodJob: decode, copy, compare, set conditions, encode. It is the operator's
 * only memory, so encode and decode are inverse to each other. Pure.
 */
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

static void condition_fini(struct hvd_condition *condition)
{
    hvd_free(condition->reason);
    hvd_free(condition->message);
    *condition = (struct hvd_condition){0};
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

/* Copies reason and message (NULL: empty), cut at 1 KiB, into the condition, which keeps its old
 * ones on failure.
 */
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

/* A time since 1970; 0 if none stands there. */
static int64_t time_at(const cJSON *object, const char *path)
{
    int64_t time_s = hvd_rfc3339_parse(hvd_json_str(object, path));

    return time_s > 0 ? time_s : 0;
}

/* A number from 0 to max; 0 for anything else, so that one that is counted on is never at the end
 * of its range. */
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

static int32_t count(const cJSON *status, const char *path)
{
    return (int32_t)number_at(status, path, INT32_MAX);
}

/* One of two that are added up. */
static int32_t count_ended(const cJSON *status, const char *path)
{
    return (int32_t)number_at(status, path, HVD_JOB_COUNT_MAX);
}

static int32_t count_workers(const cJSON *status, const char *path)
{
    return (int32_t)number_at(status, path, HVD_JOB_WORKERS_MAX + 1);
}

static hvd_status_t decode_failures(const cJSON *status, struct hvd_job_status *out)
{
    const cJSON *failure = hvd_json_get(status, "workerFailure");
    int64_t code = hvd_json_int(failure, "exitCode", -1);
    bool has_code = code >= 0 && code <= INT32_MAX;
    const struct hvd_worker_failure found = {
        .message = (char *)hvd_json_str(failure, "message"),
        .attempt = count(failure, "attempt"),
        .at_s = time_at(failure, "time"),
        .has_exit_code = has_code,
        .exit_code = has_code ? (int32_t)code : 0,
        .is_disruption = hvd_json_true(failure, "disruption"),
    };

    if (found.message && hvd_job_set_worker_failure(out, &found))
        return HVD_ERR_NOMEM;
    if (hvd_job_set_master_uid(out, hvd_json_str(status, "masterUID")))
        return HVD_ERR_NOMEM;
    return hvd_job_set_failure_log(out, hvd_json_str(status, "failureLog"));
}

static void decode_numbers(const cJSON *status, struct hvd_job_status *out)
{
    out->state =
        (enum hvd_job_state)index_of(state_names, HVD_N_JOB_STATES, hvd_json_str(status, "state"));
    out->workers_desired = count_workers(status, "workers.desired");
    out->workers_ready = count_workers(status, "workers.ready");
    out->hosts = count_workers(status, "hosts");
    out->attempts = count(status, "attempts");
    out->failures = count_ended(status, "failures");
    out->interruptions = count_ended(status, "interruptions");
    out->failures_in_row = count(status, "failuresInARow");
    out->retry_s = time_at(status, "nextAttemptTime");
    out->cleaned = count(status, "cleaned");
    out->ssh_port = (int32_t)number_at(status, "sshPort", UINT16_MAX);
    out->start_s = time_at(status, "startTime");
    out->completion_s = time_at(status, "completionTime");
    out->observed_generation = number_at(status, "observedGeneration", INT64_MAX);
    if (out->state == HVD_JOB_PENDING && out->observed_generation == 0)
        out->state = HVD_JOB_NEW; /* the definition's default: nobody has written a status yet */
}

hvd_status_t hvd_status_decode(const cJSON *status, struct hvd_job *job, struct hvd_err *err)
{
    struct hvd_job_status *out = &job->status;
    hvd_status_t st = decode_failures(status, out);
    const cJSON *item = NULL;
    bool is_exact = true;

    decode_numbers(status, out);
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

hvd_status_t hvd_job_status_copy(const struct hvd_job_status *from, struct hvd_job_status *out)
{
    struct hvd_job_status copy = *from;

    memset(copy.conditions, 0, sizeof(copy.conditions));
    memset(&copy.worker_failure, 0, sizeof(copy.worker_failure));
    copy.failure_log = copy.master_uid = NULL;
    copy.others = from->others ? hvd_strdup(from->others) : NULL;
    if ((from->others && !copy.others) ||
        hvd_job_set_worker_failure(&copy, &from->worker_failure) ||
        hvd_job_set_failure_log(&copy, from->failure_log) ||
        hvd_job_set_master_uid(&copy, from->master_uid)) {
        hvd_job_status_fini(&copy);
        return HVD_ERR_NOMEM;
    }
    for (size_t i = 0; i < HVD_N_CONDITIONS; i++) {
        const struct hvd_condition *source = &from->conditions[i];

        if (source->truth == HVD_ABSENT)
            continue;
        if (condition_texts(&copy.conditions[i], source->reason, source->message)) {
            hvd_job_status_fini(&copy);
            return HVD_ERR_NOMEM;
        }
        copy.conditions[i].truth = source->truth;
        copy.conditions[i].since_s = source->since_s;
        copy.conditions[i].generation = source->generation;
    }
    *out = copy;
    return HVD_OK;
}

void hvd_job_status_fini(struct hvd_job_status *status)
{
    for (size_t i = 0; i < HVD_N_CONDITIONS; i++)
        condition_fini(&status->conditions[i]);
    hvd_free(status->worker_failure.message);
    hvd_free(status->failure_log);
    hvd_free(status->master_uid);
    hvd_free(status->others);
    *status = (struct hvd_job_status){0};
}

static bool condition_equal(const struct hvd_condition *a, const struct hvd_condition *b)
{
    return a->truth == b->truth && a->since_s == b->since_s && a->generation == b->generation &&
           hvd_str_equal(a->reason, b->reason) && hvd_str_equal(a->message, b->message);
}

bool hvd_job_status_equal(const struct hvd_job_status *a, const struct hvd_job_status *b)
{
    const struct hvd_worker_failure *fa = &a->worker_failure, *fb = &b->worker_failure;
    bool equal =
        a->state == b->state && a->workers_desired == b->workers_desired &&
        a->workers_ready == b->workers_ready && a->hosts == b->hosts &&
        a->attempts == b->attempts && a->failures == b->failures && a->cleaned == b->cleaned &&
        a->ssh_port == b->ssh_port && a->start_s == b->start_s &&
        a->completion_s == b->completion_s && a->observed_generation == b->observed_generation &&
        a->interruptions == b->interruptions && a->failures_in_row == b->failures_in_row &&
        a->retry_s == b->retry_s && fa->attempt == fb->attempt && fa->at_s == fb->at_s &&
        fa->has_exit_code == fb->has_exit_code && fa->exit_code == fb->exit_code &&
        fa->is_disruption == fb->is_disruption && hvd_str_equal(fa->message, fb->message) &&
        hvd_str_equal(a->master_uid, b->master_uid) &&
        hvd_str_equal(a->failure_log, b->failure_log) && hvd_str_equal(a->others, b->others) &&
        a->is_inexact == b->is_inexact;

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

/* A list is written as a whole: what others have put there has to be in it. */
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

static void encode_worker_failure(struct hvd_jb *jb, cJSON *parent,
                                  const struct hvd_worker_failure *failure)
{
    cJSON *item;

    if (!failure->message) {
        hvd_jb_str(jb, parent, "workerFailure", NULL);
        return;
    }
    item = hvd_jb_object(jb, parent, "workerFailure");
    hvd_jb_str(jb, item, "message", failure->message);
    hvd_jb_int(jb, item, "attempt", failure->attempt);
    encode_time(jb, item, "time", failure->at_s);
    if (failure->has_exit_code)
        hvd_jb_int(jb, item, "exitCode", failure->exit_code);
    else
        hvd_jb_str(jb, item, "exitCode", NULL);
    hvd_jb_bool(jb, item, "disruption", failure->is_disruption);
}

/* What one line for people says: the message of the condition that decides the state. */
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

/* Ready workers of those wanted; workers that are removed because the job has finished are neither,
 * also while something else of it may not be removed. */
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
    cJSON *workers = hvd_jb_object(jb, out, "workers");

    hvd_jb_int(jb, workers, "desired", status->workers_desired);
    hvd_jb_int(jb, workers, "ready", status->workers_ready);
    hvd_jb_str(jb, out, "state", state_names[status->state]);
    hvd_jb_str(jb, out, "message", headline(status));
    encode_ready(jb, out, job, status);
    hvd_jb_str(jb, out, "image", job->spec.image);
    hvd_jb_fmt(jb, out, "selector", "%s=%s,%s=worker", HVD_LABEL_JOB, job->name, HVD_LABEL_ROLE);
    hvd_jb_int(jb, out, "hosts", status->hosts);
    hvd_jb_int(jb, out, "attempts", status->attempts);
    hvd_jb_int(jb, out, "failures", status->failures);
    hvd_jb_int(jb, out, "interruptions", status->interruptions);
    hvd_jb_int(jb, out, "failuresInARow", status->failures_in_row);
    encode_time(jb, out, "nextAttemptTime", status->retry_s);
    hvd_jb_int(jb, out, "cleaned", status->cleaned);
    if (status->ssh_port > 0)
        hvd_jb_int(jb, out, "sshPort", status->ssh_port);
    else
        hvd_jb_str(jb, out, "sshPort", NULL);
    hvd_jb_int(jb, out, "observedGeneration", status->observed_generation);
    encode_time(jb, out, "startTime", status->start_s);
    encode_time(jb, out, "completionTime", status->completion_s);
    encode_worker_failure(jb, out, &status->worker_failure);
    hvd_jb_str(jb, out, "masterUID", status->master_uid);
    hvd_jb_str(jb, out, "failureLog", status->failure_log);
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
 * One entry of a map, so that a merge patch adds it without the others, which are in the API server
 * alone. Every ended attempt is written once, under its number, so that removing the one that is
 * HVD_ATTEMPT_LOGS older keeps their number.
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
    if (end->has_exit_code)
        hvd_jb_int(jb, item, "exitCode", end->exit_code);
    else
        hvd_jb_str(jb, item, "exitCode", NULL);
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
