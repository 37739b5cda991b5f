/*
 * Traces of a master's Job that was removed before the operator read its end, by its
 * ttlSecondsAfterFinished or by hand. The Job controller writes an event when a Job ends, which
 * stays for an hour. Events of other writers do not count, nor do those about other Jobs of that
 * name: a foreign one, or the master's of an earlier attempt or an earlier HorovodJob. The master
 * is made when its workers are Ready, so their times separate these Jobs. Pure.
 */
#include "operator/core/obstacles/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/children/children.h"
#include "operator/core/obstacles/look.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/repair.h"
#include "operator/core/writes/repair_internal.h"

#define BODY_SIZE 128
#define MESSAGE_SIZE 512

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- bounds of the Job ---- */

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The earliest time at which the worker was reachable, as far as is known; after a restart its
 * container's start does not count. Nodes have clocks of their own, but a pod is made before it
 * runs. */
static int64_t worker_started_s(const struct hvd_object *pod)
{
    return pod->u.pod.restarts > 0 ? pod->meta.created_s
                                   : later(pod->meta.created_s, pod->u.pod.started_s);
}

/* Since when enough workers of the group exist (is_made) or run; there are enough now. room has one
 * entry for each Ready worker. */
static int64_t enough_since_s(const struct hvd_pass *p, size_t group, bool is_made, int64_t *room)
{
    const int32_t n_enough = p->job->spec.groups[group].n_enough;
    size_t n = 0;

    for (size_t i = 0; i < p->pods.n_ready; i++) {
        const struct hvd_object *pod = p->pods.ready[i].pod;

        if (p->pods.ready[i].group == group)
            room[n++] = is_made ? pod->meta.created_s : worker_started_s(pod);
    }
    qsort(room, n, sizeof(room[0]), compare);
    return n_enough > 0 && (size_t)n_enough <= n ? room[n_enough - 1] : 0;
}

/* Bounds an attempt that no status records: its master came after its workers, which are new in
 * each attempt. */
static void bound_unseen(struct hvd_pass *p, struct hvd_trace_bounds *out)
{
    int64_t *room = hvd_malloc(p->pods.n_ready ? p->pods.n_ready : 1, sizeof(room[0]));

    if (!room) {
        p->st = HVD_ERR_NOMEM;
        return;
    }
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        const struct hvd_object *set = p->owners.sets[i];

        if (set)
            out->made_s = later(out->made_s, set->meta.created_s);
        out->made_s = later(out->made_s, enough_since_s(p, i, true, room));
        out->ended_s = later(out->ended_s, enough_since_s(p, i, false, room));
    }
    out->ended_s = later(out->ended_s, out->made_s);
    hvd_free(room);
}

/*
 * Whether a failed read of the events waits for its next try; the condition Running reports that.
 * The time of that condition bounds the question if the status does not name the master's Job: then
 * the condition stays unchanged.
 */
static bool is_put_off(struct hvd_pass *p, const char *name)
{
    const struct hvd_job_status *status = &p->job->status;
    const struct hvd_failure *failure = hvd_pass_failure(p, HVD_KIND_JOB, name);
    char message[MESSAGE_SIZE];

    if (!failure || failure->type != HVD_FAILURE_UNTRACED)
        return false;
    hvd_text_format(
        message, sizeof(message),
        "the job waits for the events about Job %s, which show whether it has ended: they "
        "cannot be read, will be tried again: %s",
        name, failure->message ? failure->message : "no reason given");
    if (hvd_refusal_is_told(failure) &&
        (status->attempts <= hvd_job_ended(status) || status->master_uid))
        hvd_trouble_report(p, "Denied", message);
    return hvd_look_waits(p, failure);
}

void hvd_trace_ask(struct hvd_pass *p, const char *name)
{
    const struct hvd_condition *running = &p->job->status.conditions[HVD_COND_RUNNING];
    struct hvd_action action = {.type = HVD_ACTION_TRACE, .kind = HVD_KIND_JOB};
    struct hvd_trace_bounds bounds = {.made_s = p->job->created_s, .ended_s = p->job->created_s};

    if (p->st || is_put_off(p, name))
        return;
    (void)snprintf(bounds.job_uid, sizeof(bounds.job_uid), "%s", p->job->uid);
    if (p->job->status.attempts <= hvd_job_ended(&p->job->status))
        bound_unseen(p, &bounds);
    else if (p->job->status.master_uid)
        (void)snprintf(bounds.master_uid, sizeof(bounds.master_uid), "%s",
                       p->job->status.master_uid);
    else /* it may have ended in the same second in which its state was recorded */
        bounds.ended_s =
            (running->truth == HVD_ABSENT ? p->job->status.start_s : running->since_s) - 1;
    if (p->st)
        return;
    action.body = hvd_trace_encode(&bounds);
    p->st = action.body ? hvd_plan_add(p->plan, &action, p->job->namespace, name) : HVD_ERR_NOMEM;
}

char *hvd_trace_encode(const struct hvd_trace_bounds *bounds)
{
    char text[BODY_SIZE + 2 * HVD_TRACE_UID_SIZE];

    (void)snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 " %s %s", bounds->made_s,
                   bounds->ended_s, bounds->job_uid, bounds->master_uid);
    return hvd_strdup(text);
}

void hvd_trace_decode(const char *body, struct hvd_trace_bounds *out)
{
    struct hvd_trace_bounds read = {.made_s = 0};
    const char *space;
    char *end = NULL;

    *out = (struct hvd_trace_bounds){.made_s = INT64_MAX, .ended_s = INT64_MAX};
    if (!body)
        return;
    read.made_s = strtoll(body, &end, 10);
    if (end == body || *end != ' ')
        return;
    body = end + 1;
    read.ended_s = strtoll(body, &end, 10);
    if (end == body || *end != ' ')
        return;
    space = strchr(end + 1, ' ');
    if (!space)
        return;
    (void)snprintf(read.job_uid, sizeof(read.job_uid), "%.*s", (int)(space - end - 1), end + 1);
    (void)snprintf(read.master_uid, sizeof(read.master_uid), "%s", space + 1);
    *out = read;
}

/* ---- subjects of events ---- */

static bool is_by_controller(const cJSON *event)
{
    static const char controller[] = "job-controller";

    return hvd_str_equal(hvd_json_str(event, "source.component"), controller) ||
           hvd_str_equal(hvd_json_str(event, "reportingComponent"), controller);
}

static bool is_failure(const char *reason)
{
    static const char *const reasons[] = {"BackoffLimitExceeded", "DeadlineExceeded",
                                          "PodFailurePolicy"};
    bool is = false;

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        is = is || hvd_str_equal(reason, reasons[i]);
    return is;
}

static int64_t time_of(const cJSON *event, const char *path)
{
    return hvd_rfc3339_parse(hvd_json_str(event, path));
}

/*
 * When the controller last wrote the event, by its own clock. At most the time at which the API
 * server first stored it, because an end happens once. The controller's clock may be ahead; all
 * times that this is compared with are the API server's.
 */
static int64_t written_s(const cJSON *event)
{
    const int64_t at_s = later(time_of(event, "lastTimestamp"), time_of(event, "eventTime"));
    const int64_t stored_s = time_of(event, "metadata.creationTimestamp");

    return stored_s > 0 && stored_s < at_s ? stored_s : at_s;
}

/* Whether the event's Job existed before the Job of the attempt. */
static bool is_about_older(const cJSON *events, const cJSON *about, int64_t made_s)
{
    const char *uid = hvd_json_str(about, "involvedObject.uid");
    const cJSON *event = NULL;

    cJSON_ArrayForEach(event, hvd_json_get(events, "items"))
    {
        const int64_t stored_s = time_of(event, "metadata.creationTimestamp");

        if (uid && stored_s > 0 && stored_s < made_s && is_by_controller(event) &&
            hvd_str_equal(hvd_json_str(event, "involvedObject.uid"), uid))
            return true;
    }
    return false;
}

/* Whether the event is about the master's Job of the attempt. */
static bool is_about_master(const cJSON *events, const cJSON *event,
                            const struct hvd_trace_bounds *bounds)
{
    if (bounds->master_uid[0] != '\0')
        return hvd_str_equal(hvd_json_str(event, "involvedObject.uid"), bounds->master_uid);
    return written_s(event) > bounds->ended_s && !is_about_older(events, event, bounds->made_s);
}

enum hvd_failure_type hvd_trace_find(const cJSON *events, const struct hvd_trace_bounds *bounds,
                                     char out[HVD_TRACE_SIZE])
{
    enum hvd_failure_type found = HVD_FAILURE_NO_TRACE;
    const cJSON *event = NULL;

    out[0] = '\0';
    cJSON_ArrayForEach(event, hvd_json_get(events, "items"))
    {
        const char *reason = hvd_json_str(event, "reason");
        const char *message = hvd_json_str(event, "message");
        const bool is_success = hvd_str_equal(reason, "Completed");

        const bool is_begin = hvd_str_equal(reason, "SuccessfulCreate");

        if (!is_by_controller(event) || (!is_success && !is_failure(reason) && !is_begin) ||
            !is_about_master(events, event, bounds))
            continue;
        if (is_begin) {
            found = found == HVD_FAILURE_NO_TRACE ? HVD_FAILURE_BEGUN : found;
            continue;
        }
        if (is_success) {
            out[0] = '\0';
            return HVD_FAILURE_SUCCEEDED;
        }
        found = HVD_FAILURE_FAILED;
        hvd_text_format(out, HVD_TRACE_SIZE, "%s", message ? message : reason);
    }
    return found;
}

bool hvd_trace_is_answer(const struct hvd_failure *failure)
{
    return failure &&
           (failure->type == HVD_FAILURE_NO_TRACE || failure->type == HVD_FAILURE_BEGUN ||
            failure->type == HVD_FAILURE_SUCCEEDED || failure->type == HVD_FAILURE_FAILED);
}

bool hvd_trace_was_in_conflict(const struct hvd_pass *p)
{
    const struct hvd_job_status *status = &p->job->status;
    const struct hvd_condition *running = &status->conditions[HVD_COND_RUNNING];

    return running->truth == HVD_FALSE && hvd_str_equal(running->reason, HVD_REASON_CONFLICT) &&
           !(status->attempts > hvd_job_ended(status) && status->master_uid);
}

/* When this process last made that write; 0: it did not, or long ago. */
static int64_t written_ms(const struct hvd_pass *p, enum hvd_kind kind, const char *name,
                          enum hvd_repair repair)
{
    const struct hvd_repair_record *record =
        hvd_repairs_find(p->view->repairs, hvd_repair_key(kind, name, repair));

    return record && record->value != HVD_REPAIR_ABSENT ? record->last_ms : 0;
}

bool hvd_trace_asks_first(struct hvd_pass *p)
{
    char name[HVD_CHILD_NAME_MAX], set_name[HVD_CHILD_NAME_MAX];
    int64_t started_ms = 0, made_ms, set_ms;

    hvd_children_name(p->job, HVD_KIND_JOB, name);
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        hvd_children_group_name(p->job, i, set_name);
        set_ms = written_ms(p, HVD_KIND_STATEFULSET, set_name, HVD_REPAIR_EXISTENCE);
        started_ms = set_ms > started_ms ? set_ms : started_ms;
        set_ms = written_ms(p, HVD_KIND_STATEFULSET, set_name, HVD_REPAIR_REPLICAS);
        started_ms = set_ms > started_ms ? set_ms : started_ms;
    }
    made_ms = written_ms(p, HVD_KIND_JOB, name, HVD_REPAIR_MASTER);
    if (p->job->status.attempts > hvd_job_ended(&p->job->status) || hvd_trace_was_in_conflict(p) ||
        hvd_trace_is_answer(hvd_pass_failure(p, HVD_KIND_JOB, name)) ||
        (started_ms > 0 && (made_ms == 0 || made_ms < started_ms)))
        return false;
    hvd_trace_ask(p, name);
    return true;
}
