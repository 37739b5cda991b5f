/*
 * Ends and pauses: how a master ended, the consequences, and what is removed then. The operator
 * plans a deletion only when the persisted status has its reason, so an operator that dies in
 * between never has to guess. Pure.
 */
#include "operator/core/outcome/outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/attempt/attempt.h"
#include "operator/core/attempt/ending.h"
#include "operator/core/attempt/loss.h"
#include "operator/core/attempt/retry.h"
#include "operator/core/children/children.h"
#include "operator/core/children/hosts.h"
#include "operator/core/ensure/admit.h"
#include "operator/core/ensure/ensure.h"
#include "operator/core/obstacles/terminating.h"
#include "operator/core/obstacles/trace.h"
#include "operator/core/outcome/altered.h"
#include "operator/core/outcome/edits.h"
#include "operator/core/outcome/policy.h"
#include "operator/core/outcome/sidecars.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/write.h"

#define MESSAGE_SIZE 1024
#define NAME_SIZE 256         /* of a pod */
#define RANK_SIZE 640         /* of a message, so that the attempt fits after it */
#define POD_LAG_S 5           /* the pod's own state may arrive this long after its Job's */
#define LOST_GRACE_S 30       /* how long a master may outlive a worker that it needs */
#define STUCK_S 30            /* how long a deleted master may outlive its grace period */
#define VANISHED_MS 2000      /* a Job that is missing for so long counts as deleted */
#define FORCE_DELETE_S 60     /* how long a pod may outlive its grace period */
#define REMOVED_AT_ONCE 256   /* pods, in one plan */
#define INTERRUPTIONS_MAX 100 /* from here on failures count, whatever the rules are */

static bool is_pod_finished(const struct hvd_object *pod)
{
    return pod && (pod->u.pod.phase == HVD_POD_SUCCEEDED || pod->u.pod.phase == HVD_POD_FAILED);
}

/*
 * When the deleted pod has outlived its grace period by after_s. Its timestamp alone does not
 * decide, because a wrong one, or a wrong clock, must not cut the grace period short. So the
 * operator itself also waits that long after it saw the deletion.
 */
static int64_t overdue_ms(const struct hvd_pass *p, const struct hvd_object *pod, int64_t after_s)
{
    const struct hvd_pod_view *view = &pod->u.pod;
    int64_t due_ms = (view->deleted_s + after_s) * 1000;
    int64_t left_ms = view->going_ms + (view->grace_s + after_s) * 1000 - p->view->monotonic_ms;

    return view->going_ms && due_ms < p->now_ms + left_ms ? p->now_ms + left_ms : due_ms;
}

/* Whether the master is being deleted and its node does not report its end. */
static bool is_stuck(const struct hvd_object *pod)
{
    return pod && pod->u.pod.deleted_s != 0 && !is_pod_finished(pod);
}

/* Whether the master of the Job has ended, or never will run. */
static bool has_master_ended(const struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];

    return job && (job->u.job.is_complete || job->u.job.is_failed ||
                   is_pod_finished(p->pods.master) || hvd_sidecars_hold(p));
}

static void set(struct hvd_pass *p, enum hvd_condition_type type, enum hvd_truth truth,
                const char *const reason_message[2])
{
    const struct hvd_condition_update update = {type, truth, reason_message[0], reason_message[1]};

    hvd_pass_condition(p, &update);
}

static void show_removed(struct hvd_pass *p)
{
    p->next.workers_ready = p->next.replicas = 0;
    set(p, HVD_COND_WORKERS_READY, HVD_FALSE,
        (const char *const[2]){HVD_REASON_JOB_FINISHED, HVD_TEXT_REMOVED});
}

/* The common part of all ends; the caller sets the outcome's own condition. */
static void finish(struct hvd_pass *p, enum hvd_job_state state, const char *reason)
{
    hvd_pass_state(p, state);
    p->next.completion_s = p->now_s;
    p->next.retry_s = 0;
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){reason, ""});
    if (p->next.conditions[HVD_COND_SUSPENDED].truth == HVD_TRUE || hvd_pass_is_stopping(p))
        set(p, HVD_COND_SUSPENDED, HVD_FALSE,
            (const char *const[2]){HVD_REASON_JOB_FINISHED, "the job has finished"});
    if (p->job->spec.clean_pod_policy != HVD_CLEAN_NONE)
        show_removed(p);
}

void hvd_outcome_fail(struct hvd_pass *p, const char *reason, const char *message)
{
    bool is_template = strcmp(reason, HVD_REASON_TEMPLATE) == 0;

    /* An attempt that still ran at the deadline is counted nowhere. */
    if (p->end.number == 0 && hvd_attempt_is_under_way(p))
        hvd_attempt_note_end(p, &(struct hvd_attempt_end){.number = hvd_job_ended(&p->next) + 1,
                                                          .reason = reason,
                                                          .message = message});
    finish(p, HVD_JOB_FAILED, reason);
    set(p, HVD_COND_FAILED, HVD_TRUE, (const char *const[2]){reason, message});
    hvd_pass_end_event(p, is_template ? reason : "Failed", message, true);
}

/* Whether the master's container is known to have failed: its pod may still run others. */
static bool has_master_failed(const struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;

    return pod && pod->u.pod.has_failed &&
           (pod->u.pod.phase == HVD_POD_FAILED || hvd_sidecars_hold(p));
}

/* The rank that failed first, if the last line of horovodrun names it; NULL: it does not. */
static const char *failed_rank(const struct hvd_pass *p, char out[RANK_SIZE])
{
    static const char launcher[] = "horovodrun: ";
    const struct hvd_object *pod = p->pods.master;
    const bool is_failed = pod && (pod->u.pod.phase == HVD_POD_FAILED || has_master_failed(p));
    const char *line = is_failed ? pod->u.pod.last_line : NULL;

    if (!hvd_str_has_prefix(line, "horovodrun: rank "))
        return NULL;
    hvd_text_format(out, RANK_SIZE, "%s", line + sizeof(launcher) - 1);
    return out;
}

static void describe_replaced(const struct hvd_pass *p, char out[MESSAGE_SIZE])
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];

    if (p->pods.other)
        hvd_text_format(out, MESSAGE_SIZE,
                        "pod %s was let go by Job %s, as somebody changed or removed its label "
                        "batch.kubernetes.io/controller-uid, and the Job made pod %s beside it",
                        p->replaced, job->meta.name, p->pods.other->meta.name);
    else
        hvd_text_format(
            out, MESSAGE_SIZE,
            "pod %s is gone, after somebody changed or removed its label "
            "batch.kubernetes.io/controller-uid, or by itself, and Job %s made pod %s in "
            "its place",
            p->replaced, job->meta.name, p->pods.master->meta.name);
}

/* Describes how the master ended, with its last words. */
static void describe_master(const struct hvd_pass *p, char out[MESSAGE_SIZE], const char **line)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const struct hvd_object *pod = p->pods.master;
    const struct hvd_pod_view *view = pod ? &pod->u.pod : NULL;
    char text[MESSAGE_SIZE - 256];

    *line = "";
    if (p->replaced) {
        describe_replaced(p, out);
    } else if (view && has_master_failed(p)) {
        *line = view->last_line ? view->last_line : "";
        hvd_ending_of_master(view, text, sizeof(text));
        hvd_text_format(out, MESSAGE_SIZE, "pod %s %s", pod->meta.name, text);
    } else if (is_stuck(pod) && !job->u.job.is_failed) {
        hvd_text_format(out, MESSAGE_SIZE, "pod %s on node %s was deleted and does not end",
                        pod->meta.name, view->node ? view->node : "?");
    } else if (view && view->phase == HVD_POD_FAILED) {
        hvd_ending_of_master(view, text, sizeof(text));
        hvd_text_format(out, MESSAGE_SIZE, "pod %s %s", pod->meta.name, text);
    } else {
        *line = job->u.job.message ? job->u.job.message : "no reason given";
        hvd_text_format(out, MESSAGE_SIZE, "Job %s failed", job->meta.name);
    }
}

/* The verdict of spec.failurePolicy, with its consequence as a part of the message. */
struct verdict {
    enum hvd_policy_action action;
    char text[128];
};

static void describe_failure(const struct hvd_pass *p, const struct verdict *verdict,
                             char out[MESSAGE_SIZE])
{
    const struct hvd_worker_failure *loss = hvd_attempt_loss(p);
    const char *lost = loss ? loss->message : NULL;
    char master[MESSAGE_SIZE], attempt[HVD_ATTEMPT_SIZE], text[RANK_SIZE];
    const char *rank = failed_rank(p, text);
    const char *line;

    hvd_attempt_describe(p, attempt);
    if (!p->child[HVD_KIND_JOB]) {
        hvd_text_format(out, MESSAGE_SIZE, "%s (%s%s)",
                        lost       ? lost
                        : p->trace ? p->trace
                                   : "no master",
                        attempt, verdict->text);
        return;
    }
    describe_master(p, master, &line);
    if (lost && !has_master_ended(p) && !is_stuck(p->pods.master))
        hvd_text_format(out, MESSAGE_SIZE,
                        "%s (%s%s); the master did not end by itself within %d s", lost, attempt,
                        verdict->text, LOST_GRACE_S);
    else if (lost)
        hvd_text_format(out, MESSAGE_SIZE, "%s (%s%s); %s%s%s", lost, attempt, verdict->text,
                        master, *line ? ": " : "", line);
    else if (rank)
        hvd_text_format(out, MESSAGE_SIZE, "%s (%s%s, pod %s)", rank, attempt, verdict->text,
                        p->pods.master->meta.name);
    else
        hvd_text_format(out, MESSAGE_SIZE, "%s (%s%s)%s%s", master, attempt, verdict->text,
                        *line ? ": " : "", line);
}

static void end_well(struct hvd_pass *p, const char *message)
{
    finish(p, HVD_JOB_SUCCEEDED, "Succeeded");
    set(p, HVD_COND_SUCCEEDED, HVD_TRUE, (const char *const[2]){"MasterSucceeded", message});
    hvd_pass_end_event(p, "Succeeded", message, false);
}

static void succeed(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE], attempt[HVD_ATTEMPT_SIZE], name[HVD_CHILD_NAME_MAX];

    hvd_attempt_describe(p, attempt);
    hvd_children_name(p->job, HVD_KIND_JOB, name);
    hvd_text_format(message, sizeof(message), "%s %s succeeded (%s)%s",
                    p->pods.master ? "pod" : "Job",
                    p->pods.master ? p->pods.master->meta.name : name, attempt,
                    p->child[HVD_KIND_JOB] ? "" : "; it was deleted before its end was read");
    hvd_sidecars_name(p, message, sizeof(message));
    end_well(p, message);
}

/* Applies the rules to the lost worker and to the master. */
static void judge(struct hvd_pass *p, struct verdict *out)
{
    static const char *const names[] = {[HVD_POLICY_RESTART] = "Restart",
                                        [HVD_POLICY_FAIL] = "Fail",
                                        [HVD_POLICY_IGNORE] = "Ignore"};
    const struct hvd_worker_failure *lost = hvd_attempt_loss(p);
    const struct hvd_object *pod = p->pods.master;
    struct hvd_policy_case cases[2] = {{HVD_ROLE_WORKER, false, 0, false},
                                       {HVD_ROLE_MASTER, false, 0, false}};
    size_t first = lost ? 0 : 1;
    size_t end = has_master_ended(p) || is_stuck(pod) || p->replaced ? 2 : 1;
    int rule = 0;

    if (lost)
        cases[0] = (struct hvd_policy_case){HVD_ROLE_WORKER, lost->has_exit_code, lost->exit_code,
                                            lost->is_disruption};
    if (pod && !p->replaced) {
        cases[1].has_exit_code = pod->u.pod.has_failed;
        cases[1].exit_code = pod->u.pod.exit_code;
        cases[1].is_disruption = hvd_loss_is_disruption(pod);
    }
    *out = (struct verdict){HVD_POLICY_RESTART, ""};
    if (p->st || first >= end || !hvd_pass_spec(p))
        return;
    out->action = hvd_policy_decide(hvd_json_get(p->spec, "failurePolicy"), cases + first,
                                    end - first, &rule);
    if (rule > 0)
        (void)snprintf(out->text, sizeof(out->text), ", failurePolicy rule %d: %s", rule,
                       names[out->action]);
}

static void keep_log(struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.master;
    bool has_lines =
        has_master_ended(p) && pod && pod->u.pod.last_lines && pod->u.pod.last_lines[0] != '\0';

    if (!p->st)
        p->st = hvd_job_set_failure_log(&p->next, has_lines ? pod->u.pod.last_lines : NULL);
}

/* Records the loss of a worker, if there was one; true if so. A worker that is only unseen may
 * exist. */
static bool note_loss(struct hvd_pass *p)
{
    struct hvd_worker_failure found;
    char text[HVD_LOSS_TEXT_SIZE];

    if (p->st || p->is_unsure || !hvd_loss_find(p, &found, text))
        return false;
    p->st = hvd_job_set_worker_failure(&p->next, &found);
    p->is_urgent = true;
    return true;
}

/* Adds when the next attempt begins, if it does not begin at once. */
static void announce_next(struct hvd_pass *p, struct verdict *verdict)
{
    size_t len = strlen(verdict->text);
    int64_t wait_s = hvd_retry_note(p);

    if (wait_s > 0)
        (void)snprintf(verdict->text + len, sizeof(verdict->text) - len,
                       ", the next one after %d s", (int)wait_s);
}

/* Records the end of the attempt with the master's last lines. */
static void note_end(struct hvd_pass *p, const char *reason, const char *message)
{
    const struct hvd_object *pod = has_master_ended(p) ? p->pods.master : NULL;
    const struct hvd_attempt_end end = {
        .reason = reason,
        .message = message,
        .log = pod ? pod->u.pod.last_lines : NULL,
        .has_exit_code = pod && pod->u.pod.has_failed,
        .exit_code = pod ? pod->u.pod.exit_code : 0,
    };

    hvd_attempt_note_end(p, &end);
}

static void fail_attempt(struct hvd_pass *p)
{
    const bool is_removed =
        p->job->is_deleting && hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS;
    struct verdict verdict;
    char message[MESSAGE_SIZE];
    const char *reason;

    if (!hvd_attempt_loss(p))
        (void)note_loss(p);
    reason = is_removed            ? HVD_REASON_DELETED
             : hvd_attempt_loss(p) ? "WorkerFailed"
                                   : "MasterFailed";
    judge(p, &verdict);
    if (p->job->is_deleting)
        hvd_text_format(verdict.text + strlen(verdict.text),
                        sizeof(verdict.text) - strlen(verdict.text),
                        ", the last one: the HorovodJob is being deleted");
    keep_log(p);
    if (verdict.action == HVD_POLICY_IGNORE && p->job->status.interruptions < INTERRUPTIONS_MAX)
        p->next.interruptions++;
    else
        p->next.failures++;
    if (verdict.action == HVD_POLICY_FAIL || p->next.failures > p->job->spec.backoff_limit ||
        p->job->is_deleting) {
        p->next.cleaned = hvd_job_ended(&p->next);
        describe_failure(p, &verdict, message);
        note_end(p, reason, message);
        hvd_outcome_fail(p, reason, message);
        return;
    }
    announce_next(p, &verdict);
    describe_failure(p, &verdict, message);
    note_end(p, reason, message);
    hvd_pass_state(p, HVD_JOB_RESTARTING);
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){reason, message});
    hvd_pass_end_event(p, "Restarting", message, true);
}

/* Records in the next status that the attempt has begun, and its Job. */
static void note_begun(struct hvd_pass *p, const struct hvd_object *job)
{
    if (hvd_attempt_of(p, job) > p->next.attempts)
        p->next.attempts = hvd_attempt_of(p, job);
    if (!p->st && !hvd_str_equal(p->next.master_uid, job->meta.uid))
        p->st = hvd_job_set_master_uid(&p->next, job->meta.uid);
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

void hvd_outcome_noted(struct hvd_pass *p)
{
    const struct hvd_mark *mark = &p->mark;
    const struct hvd_object *job = hvd_attempt_job(p);

    if (job)
        note_begun(p, job);
    p->next.attempts = larger(p->next.attempts, mark->attempts);
    p->next.failures = larger(p->next.failures, mark->failures);
    p->next.interruptions = larger(p->next.interruptions, mark->interruptions);
    if (mark->state == HVD_JOB_SUCCEEDED) {
        end_well(p, mark->message);
        return;
    }
    if (hvd_job_ended(&p->next) > hvd_job_ended(&p->job->status)) {
        p->next.cleaned = hvd_job_ended(&p->next);
        keep_log(p);
        note_end(p, mark->reason, mark->message);
    }
    hvd_outcome_fail(p, mark->reason, mark->message);
}

bool hvd_outcome_late(struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB], *pod = p->pods.master;
    char message[MESSAGE_SIZE];

    if (hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS || !job->u.job.is_complete ||
        hvd_attempt_of(p, job) <= p->job->status.cleaned || hvd_altered_is_wrong(p, HVD_KIND_JOB) ||
        (hvd_attempt_job(p) && !hvd_pass_is_stopping(p)))
        return false;
    hvd_text_format(
        message, sizeof(message),
        "%s %s succeeded: its attempt had been given up, and it was not removed in time",
        pod ? "pod" : "Job", pod ? pod->meta.name : job->meta.name);
    end_well(p, message);
    return true;
}

/*
 * Finds the pod that the Job has replaced. The Job controller releases a pod that its selector no
 * longer matches, and at once makes the next one, beside the workers of the first. The pod may be
 * gone by now; then the status names it. False if there is none.
 */
static bool find_replaced(const struct hvd_pass *p, char out[NAME_SIZE])
{
    static const char pod[] = "pod ";
    const struct hvd_job_status *known = &p->job->status;
    const struct hvd_condition *running = &known->conditions[HVD_COND_RUNNING];
    const struct hvd_object *job = p->child[HVD_KIND_JOB], *master = p->pods.master;
    const char *text = running->truth == HVD_TRUE && running->message ? running->message : "";

    if (!master)
        return false;
    if (p->pods.other) {
        hvd_text_format(out, NAME_SIZE, "%s", master->meta.name);
        return true;
    }
    if (!hvd_str_has_prefix(text, pod) || !hvd_str_equal(known->master_uid, job->meta.uid))
        return false;
    text += sizeof(pod) - 1;
    hvd_text_format(out, NAME_SIZE, "%.*s", (int)strcspn(text, " "), text);
    return hvd_str_has_prefix(out, job->meta.name) && out[strlen(job->meta.name)] == '-' &&
           strcmp(out, master->meta.name) != 0;
}

/* Ends the attempt if its master was replaced; true if so. */
static bool fail_replaced(struct hvd_pass *p)
{
    char name[NAME_SIZE];

    if (!find_replaced(p, name))
        return false;
    p->replaced = name;
    fail_attempt(p);
    p->replaced = NULL;
    return true;
}

bool hvd_outcome_is_success(const struct hvd_pass *p)
{
    const struct hvd_object *job = hvd_attempt_job(p), *pod = p->pods.master;

    return job && (job->u.job.is_complete || (pod && pod->u.pod.phase == HVD_POD_SUCCEEDED));
}

bool hvd_outcome_master(struct hvd_pass *p)
{
    const struct hvd_object *job = hvd_attempt_job(p);
    const struct hvd_object *pod = p->pods.master;

    if (!job)
        return false;
    note_begun(p, job);
    if (hvd_outcome_is_success(p)) {
        succeed(p);
        return true;
    }
    if (is_stuck(pod) && p->now_ms >= overdue_ms(p, pod, STUCK_S)) {
        fail_attempt(p);
        return true;
    }
    if (is_stuck(pod))
        hvd_plan_wake(p->plan, overdue_ms(p, pod, STUCK_S));
    if (!has_master_ended(p))
        return fail_replaced(p);
    if (pod && hvd_sidecars_hold(p) && !job->u.job.is_failed) {
        if (!hvd_sidecars_are_over(p))
            return false;
        if (!pod->u.pod.has_failed) {
            succeed(p);
            return true;
        }
    }
    if (pod && !is_pod_finished(pod) && !pod->meta.is_deleting &&
        p->now_s < job->u.job.failed_s + POD_LAG_S) {
        hvd_plan_wake(p->plan, (job->u.job.failed_s + POD_LAG_S) * 1000);
        return false;
    }
    fail_attempt(p);
    return true;
}

bool hvd_outcome_lost(struct hvd_pass *p)
{
    const struct hvd_worker_failure *known = hvd_attempt_loss(p);

    if (p->st || !hvd_attempt_job(p) || hvd_sidecars_hold(p))
        return false;
    if (!known) {
        if (note_loss(p))
            hvd_plan_wake(p->plan, (p->now_s + LOST_GRACE_S) * 1000);
        return false;
    }
    if (p->now_s < known->at_s + LOST_GRACE_S) {
        hvd_plan_wake(p->plan, (known->at_s + LOST_GRACE_S) * 1000);
        return false;
    }
    fail_attempt(p);
    return true;
}

bool hvd_outcome_hopeless(struct hvd_pass *p)
{
    struct hvd_worker_failure found;
    char text[HVD_LOSS_TEXT_SIZE];

    if (p->st || p->child[HVD_KIND_JOB] || !hvd_loss_find_hopeless(p, &found, text))
        return false;
    p->st = hvd_job_set_worker_failure(&p->next, &found);
    fail_attempt(p);
    return true;
}

/*
 * Decides from the traces of a Job that is gone. First asks how it ended, so that an ended attempt
 * does not run again. True while it asks, and if it decides.
 */
static bool has_left_trace(struct hvd_pass *p, const char *name)
{
    const struct hvd_failure *trace = hvd_pass_failure(p, HVD_KIND_JOB, name);
    char text[MESSAGE_SIZE];

    if (hvd_trace_was_in_conflict(p))
        return false;
    if (!hvd_trace_is_answer(trace)) {
        hvd_trace_ask(p, name);
        /* Until the decision, keep whether the spec has changed since (describe_deleted). */
        p->next.observed_generation = p->job->status.observed_generation;
        return true;
    }
    if (trace->type == HVD_FAILURE_NO_TRACE || trace->type == HVD_FAILURE_BEGUN)
        return false;
    if (trace->type == HVD_FAILURE_SUCCEEDED) {
        succeed(p);
        return true;
    }
    hvd_text_format(text, sizeof(text), "Job %s failed and was deleted before its end was read: %s",
                    name, trace->message ? trace->message : "no reason given");
    p->trace = text;
    fail_attempt(p);
    p->trace = NULL;
    return true;
}

/* Whether events show that the next attempt began before. No status records it, because the
 * operator that made its Job ended, or did not see it. */
static bool has_begun_unseen(const struct hvd_pass *p, const char *name)
{
    const struct hvd_failure *trace = hvd_pass_failure(p, HVD_KIND_JOB, name);

    return trace && !hvd_trace_was_in_conflict(p) &&
           (trace->type == HVD_FAILURE_SUCCEEDED ||
            (trace->type == HVD_FAILURE_FAILED && p->job->status.attempts == 0 &&
             hvd_job_ended(&p->job->status) == 0));
}

/* Describes the deletion of a Job. An operator that may write neither status nor mark deletes a Job
 * because of the spec at that time. So if the status belongs to an older spec, it is unknown who
 * deleted it. */
static void describe_deleted(const struct hvd_pass *p, const char *name, char out[MESSAGE_SIZE])
{
    static const char by[] = " by somebody, or by this operator for a suspension or an end that no "
                             "status records";
    const struct hvd_job_status *known = &p->job->status;
    const char *told = known->conditions[HVD_COND_RUNNING].message;
    const bool is_doubtful =
        known->observed_generation != p->job->generation || (told && strstr(told, by));
    char attempt[HVD_ATTEMPT_SIZE];

    hvd_attempt_describe(p, attempt);
    hvd_text_format(out, MESSAGE_SIZE, "Job %s was deleted%s (%s)%s%s%s", name,
                    is_doubtful ? by : "", attempt, p->pods.stray ? "; its pod " : "",
                    p->pods.stray ? p->pods.stray->meta.name : "",
                    p->pods.stray ? " is removed before the next attempt" : "");
}

/*
 * A watch of Jobs that lags behind the one of HorovodJobs looks the same for a moment. So the
 * operator checks again a little later before a missing Job counts.
 */
bool hvd_outcome_vanished(struct hvd_pass *p)
{
    static const char reason[] = "MasterDeleted";
    const struct hvd_condition *running = &p->job->status.conditions[HVD_COND_RUNNING];
    int64_t since_ms = p->view->status_written_ms;
    char message[MESSAGE_SIZE], name[HVD_CHILD_NAME_MAX];
    const struct hvd_write creation = {HVD_KIND_JOB, name, HVD_REPAIR_MASTER, HVD_REPAIR_PRESENT};

    const int32_t ended = hvd_job_ended(&p->job->status);

    hvd_children_name(p->job, HVD_KIND_JOB, name);
    if ((p->job->status.attempts <= ended && !has_begun_unseen(p, name)) ||
        hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_MISSING)
        return false;
    if (p->next.attempts <= ended)
        p->next.attempts = ended + 1;
    if (!hvd_str_equal(running->reason, reason) && has_left_trace(p, name))
        return true;
    describe_deleted(p, name, message);
    hvd_pass_state(p, HVD_JOB_RESTARTING);
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){reason, message});
    if (!hvd_str_equal(running->reason, reason)) {
        p->is_urgent = true;
        return true;
    }
    if (since_ms == 0)
        since_ms = running->since_s * 1000;
    if (p->now_ms >= since_ms && p->now_ms < since_ms + VANISHED_MS) {
        hvd_plan_wake(p->plan, since_ms + VANISHED_MS);
        return true;
    }
    if (!hvd_contest_admit(p, &creation))
        return true;
    p->next.interruptions++;
    hvd_attempt_note_end(p, &(struct hvd_attempt_end){.reason = reason, .message = message});
    hvd_pass_end_event(p, "Restarting", message, true);
    return true;
}

bool hvd_outcome_abandoned(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE], attempt[HVD_ATTEMPT_SIZE];

    hvd_attempt_describe(p, attempt);
    if (!hvd_attempt_is_under_way(p))
        hvd_text_format(message, sizeof(message),
                        "the HorovodJob is being deleted: its master is not started");
    else if (hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_MISSING)
        hvd_text_format(message, sizeof(message),
                        "the HorovodJob is being deleted, and its master's Job was (%s)", attempt);
    else
        return false;
    hvd_outcome_fail(p, HVD_REASON_DELETED, message);
    return true;
}

/* Removes one pod without grace; another pod of its name is another removal. */
static void force_delete(struct hvd_pass *p, const struct hvd_object *pod)
{
    const struct hvd_write write = {pod->kind, pod->meta.name, HVD_REPAIR_EXISTENCE,
                                    hvd_hash_text(HVD_HASH_START, pod->meta.uid)};

    if (!p->st && hvd_contest_admit(p, &write))
        p->st = hvd_plan_kill(p->plan, &write, pod);
}

void hvd_outcome_force_delete(struct hvd_pass *p)
{
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *pod = p->view->objects[i];
        int64_t due_ms;

        if (!hvd_pods_is_ours(p->view, pod, &p->owners) || pod->u.pod.deleted_s == 0 ||
            pod->u.pod.is_killed)
            continue;
        due_ms = overdue_ms(p, pod, FORCE_DELETE_S);
        if (p->now_ms < due_ms)
            hvd_plan_wake(p->plan, due_ms);
        else
            force_delete(p, pod);
    }
}

/* Shows the workers of a finished job that keeps them. */
static void show_kept(struct hvd_pass *p)
{
    bool is_all = p->job->status.conditions[HVD_COND_WORKERS_READY].truth == HVD_TRUE;
    char message[MESSAGE_SIZE];

    (void)snprintf(message, sizeof(message), "%d of %d workers are ready", p->next.workers_ready,
                   p->next.workers_desired);
    set(p, HVD_COND_WORKERS_READY, is_all ? HVD_TRUE : HVD_FALSE,
        (const char *const[2]){is_all ? "AllReady" : "WaitingForWorkers", message});
}

/* Shows which objects of a finished job cannot be removed, and who denies it, until they can. */
static void show_cleaning(struct hvd_pass *p)
{
    static const char reason[] = HVD_REASON_REMOVAL_DENIED;
    const struct hvd_condition *was = &p->job->status.conditions[HVD_COND_WORKERS_READY];
    bool has_told = hvd_str_equal(was->reason, reason);
    bool is_kept = p->job->spec.clean_pod_policy == HVD_CLEAN_NONE;
    char message[MESSAGE_SIZE], denied[MESSAGE_SIZE - 64];

    if (hvd_refusal_of_change(p, denied, sizeof(denied))) {
        hvd_text_format(message, sizeof(message), "the job has finished; %s", denied);
        set(p, HVD_COND_WORKERS_READY, is_kept && was->truth == HVD_TRUE ? HVD_TRUE : HVD_FALSE,
            (const char *const[2]){reason, message});
        if (!is_kept) {
            p->next.workers_ready = (int32_t)p->pods.n_ready;
            p->next.replicas = p->pods.n_ready_of[0];
        }
        p->is_urgent = p->is_urgent || !has_told ||
                       (p->next.workers_ready == 0 && p->job->status.workers_ready > 0);
    } else if (has_told) {
        p->is_urgent = true;
        if (is_kept)
            show_kept(p);
        else
            show_removed(p);
    }
}

/* Whether an existing set adopts the pod again. */
static bool is_adopted(const struct hvd_pass *p, const struct hvd_object *pod)
{
    struct hvd_worker worker;

    return hvd_pods_identify(p->view, pod, &p->owners, &worker) && p->owners.sets[worker.group];
}

/* Whether the pod is a master with its logs, which stays with a finished job. */
static bool is_kept(const struct hvd_pass *p, const struct hvd_object *pod)
{
    return pod->meta.role == HVD_ROLE_MASTER && is_pod_finished(pod) &&
           hvd_job_is_finished(&p->job->status) && p->job->spec.clean_pod_policy != HVD_CLEAN_ALL;
}

/* Whether its set or Job has released the pod, so that only the operator can remove it. */
static bool is_stray(const struct hvd_pass *p, const struct hvd_object *pod)
{
    return hvd_pods_is_let_go(p->job, pod) && !is_adopted(p, pod) && !is_kept(p, pod);
}

/* Removes pods of that role that no controller would remove: their set or Job has released them and
 * is gone, or a finalizer holds it. */
static void remove_pods(struct hvd_pass *p, enum hvd_role role)
{
    size_t n = 0;

    for (size_t i = 0; i < p->view->n_objects && n < REMOVED_AT_ONCE; i++) {
        const struct hvd_object *pod = p->view->objects[i];

        if (!hvd_pods_is_ours(p->view, pod, &p->owners) || pod->meta.is_deleting ||
            pod->meta.role != role || (!is_stray(p, pod) && !hvd_terminating_leaves_pod(p, pod)))
            continue;
        hvd_write_delete(p, pod);
        n++;
    }
}

void hvd_outcome_remove_workers(struct hvd_pass *p)
{
    remove_pods(p, HVD_ROLE_WORKER);
}

void hvd_outcome_remove_stray(struct hvd_pass *p)
{
    const struct hvd_object *pod = p->pods.stray;
    const struct hvd_object *job = hvd_attempt_job(p);
    const size_t n_before = p->plan->n_actions;
    char message[MESSAGE_SIZE];

    if (!pod || pod->meta.is_deleting || is_kept(p, pod))
        return;
    /* Only the owner reference was edited: the Job's controller restores it. */
    if (job && !job->meta.is_deleting && !job->u.job.is_complete && !job->u.job.is_failed &&
        p->pods.master == pod)
        return;
    hvd_write_delete(p, pod);
    if (p->plan->n_actions == n_before)
        return;
    hvd_text_format(message, sizeof(message),
                    "pod %s is a master that its Job has let go: it is removed, as the job has one "
                    "master at a time",
                    pod->meta.name);
    hvd_pass_event(p, "MasterRemoved", message, true);
}

/* Removes the workers unless the job keeps them. */
static void remove_workers(struct hvd_pass *p)
{
    if (p->job->spec.clean_pod_policy == HVD_CLEAN_NONE)
        return;
    for (size_t i = 0; i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->kind == HVD_KIND_STATEFULSET && hvd_pass_is_ours(p, object) &&
            !object->meta.is_deleting)
            hvd_write_delete(p, object);
    }
    remove_pods(p, HVD_ROLE_WORKER);
    hvd_admit_release(p);
}

void hvd_outcome_release_workers(struct hvd_pass *p)
{
    if (has_master_ended(p))
        remove_workers(p);
}

void hvd_outcome_take_down(struct hvd_pass *p)
{
    remove_workers(p);
    if (has_master_ended(p))
        return;
    if (hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS)
        hvd_write_delete(p, p->child[HVD_KIND_JOB]);
    remove_pods(p, HVD_ROLE_MASTER);
}

/* Removes the job itself after its time; true if nothing else is to be done then. If the deletion
 * is denied, the rest of the clean-up must still go on. */
static bool expire(struct hvd_pass *p)
{
    const struct hvd_job_spec *spec = &p->job->spec;
    const struct hvd_condition *ends = p->job->status.conditions;
    const struct hvd_write removal = {HVD_KIND_HOROVODJOB, p->job->name, HVD_REPAIR_EXISTENCE,
                                      HVD_REPAIR_ABSENT};
    const struct hvd_failure *known = hvd_pass_failure(p, HVD_KIND_HOROVODJOB, p->job->name);
    int64_t ended_s = p->job->status.completion_s;
    int64_t end_ms;

    if (ended_s == 0) /* another writer wrote the status */
        ended_s =
            ends[ends[HVD_COND_FAILED].truth == HVD_TRUE ? HVD_COND_FAILED : HVD_COND_SUCCEEDED]
                .since_s;
    end_ms = (ended_s + spec->ttl_s) * 1000;
    if (spec->ttl_s < 0 || p->job->is_deleting)
        return false;
    if (p->now_ms < end_ms) {
        hvd_plan_wake(p->plan, end_ms);
        return false;
    }
    if (!p->st && hvd_contest_admit(p, &removal))
        p->st = hvd_plan_delete(p->plan, &removal, p->job->namespace, p->job->uid);
    return !known || known->type != HVD_FAILURE_DENIED;
}

/* Plans the removal of a finished job's objects. */
static void clean(struct hvd_pass *p)
{
    const struct hvd_job_spec *spec = &p->job->spec;

    hvd_outcome_force_delete(p);
    if (expire(p))
        return;
    hvd_edits_ignore(p);
    remove_workers(p);
    if (spec->clean_pod_policy != HVD_CLEAN_ALL && has_master_ended(p) && !p->pods.other &&
        !hvd_altered_is_wrong(p, HVD_KIND_JOB)) {
        hvd_sidecars_stop(p);
        hvd_outcome_remove_stray(p);
        return;
    }
    if (hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS)
        hvd_write_delete(p, p->child[HVD_KIND_JOB]);
    remove_pods(p, HVD_ROLE_MASTER);
}

/* Completes an end that another writer may have put into the status. A changed policy of a job that
 * kept its workers removes them. */
static void show_end(struct hvd_pass *p)
{
    const bool has_failed = p->next.conditions[HVD_COND_FAILED].truth == HVD_TRUE;
    const struct hvd_condition *workers = &p->next.conditions[HVD_COND_WORKERS_READY];

    if (p->next.conditions[HVD_COND_RUNNING].truth == HVD_TRUE)
        set(p, HVD_COND_RUNNING, HVD_FALSE,
            (const char *const[2]){has_failed ? "Failed" : "Succeeded", ""});
    if (p->job->spec.clean_pod_policy != HVD_CLEAN_NONE && workers->truth != HVD_ABSENT &&
        !hvd_str_equal(workers->reason, HVD_REASON_JOB_FINISHED) &&
        !hvd_str_equal(workers->reason, HVD_REASON_REMOVAL_DENIED))
        show_removed(p);
}

void hvd_outcome_clean(struct hvd_pass *p)
{
    clean(p);
    show_end(p);
    show_cleaning(p);
}

bool hvd_outcome_quiesce(struct hvd_pass *p)
{
    enum hvd_child_state job = hvd_pass_child(p, HVD_KIND_JOB);
    bool is_down;

    if (job == HVD_CHILD_OURS)
        hvd_write_delete(p, p->child[HVD_KIND_JOB]);
    is_down = hvd_ensure_no_workers(p);
    remove_pods(p, HVD_ROLE_WORKER);
    remove_pods(p, HVD_ROLE_MASTER);
    if (p->pods.n_workers == 0)
        hvd_ensure_hosts(p);
    return job != HVD_CHILD_OURS && job != HVD_CHILD_WAIT && is_down && p->pods.n_masters == 0 &&
           p->pods.n_workers == 0;
}
