/*
 * Ends and pauses: how a master ended, what follows from it, and what is removed then. A deletion
 * is planned only when the status as persisted already tells its reason, so an operator that dies
 * in between never has to guess. Pure.
 */
#include <stdio.h>
#include <string.h>

#include "operator/core/pass.h"
#include "operator/core/plan.h"

#define MESSAGE_SIZE 1024
#define POD_LAG_S 5 /* how long the pod's own story may come after its Job's */

static bool is_pod_finished(const struct hvd_object *pod)
{
    return pod && (pod->u.pod.phase == HVD_POD_SUCCEEDED || pod->u.pod.phase == HVD_POD_FAILED);
}

static void set(struct hvd_pass *p, enum hvd_condition_type type, enum hvd_truth truth,
                const char *const reason_message[2])
{
    const struct hvd_condition_update update = {type, truth, reason_message[0], reason_message[1]};

    hvd_pass_condition(p, &update);
}

/* What all ends have in common; the outcome's own condition is set by the caller. */
static void finish(struct hvd_pass *p, enum hvd_job_state state, const char *reason)
{
    hvd_pass_state(p, state);
    p->next.completion_s = p->now_s;
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){reason, ""});
    if (p->job->spec.clean_pod_policy == HVD_CLEAN_NONE)
        return;
    p->next.workers_ready = 0;
    set(p, HVD_COND_WORKERS_READY, HVD_FALSE,
        (const char *const[2]){"JobFinished", "the workers are removed: the job has finished"});
}

void hvd_outcome_fail(struct hvd_pass *p, const char *reason, const char *message)
{
    bool is_template = strcmp(reason, "InvalidTemplate") == 0;

    finish(p, HVD_JOB_FAILED, reason);
    set(p, HVD_COND_FAILED, HVD_TRUE, (const char *const[2]){reason, message});
    hvd_pass_event(p, is_template ? reason : "Failed", message, true);
}

static void describe_failure(const struct hvd_pass *p, char out[MESSAGE_SIZE])
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const struct hvd_object *pod = p->pods.master;
    int attempt = p->job->status.failures + 1;
    int attempts = p->job->spec.backoff_limit + 1;

    if (pod && pod->u.pod.phase == HVD_POD_FAILED && pod->u.pod.has_failed) {
        const struct hvd_pod_view *view = &pod->u.pod;
        bool is_oom = view->container_reason && strcmp(view->container_reason, "OOMKilled") == 0;
        const char *line = view->last_line ? view->last_line : "";

        hvd_pass_text(out, MESSAGE_SIZE,
                      "pod %s container %s exited with code %d%s (attempt %d of %d)%s%s",
                      pod->meta.name, view->container ? view->container : "?", view->exit_code,
                      is_oom ? ", out of memory" : "", attempt, attempts, *line ? ": " : "", line);
    } else if (pod && pod->u.pod.phase == HVD_POD_FAILED) {
        hvd_pass_text(out, MESSAGE_SIZE, "pod %s failed (attempt %d of %d): %s%s%s", pod->meta.name,
                      attempt, attempts, pod->u.pod.reason ? pod->u.pod.reason : "no reason given",
                      pod->u.pod.message ? ": " : "", pod->u.pod.message ? pod->u.pod.message : "");
    } else {
        hvd_pass_text(out, MESSAGE_SIZE, "Job %s failed (attempt %d of %d): %s", job->meta.name,
                      attempt, attempts,
                      job->u.job.message ? job->u.job.message : "no reason given");
    }
}

static void succeed(struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    char message[MESSAGE_SIZE];

    hvd_pass_text(message, sizeof(message), "%s %s succeeded (attempt %d of %d)",
                  p->pods.master ? "pod" : "Job",
                  p->pods.master ? p->pods.master->meta.name : job->meta.name,
                  p->job->status.failures + 1, p->job->spec.backoff_limit + 1);
    finish(p, HVD_JOB_SUCCEEDED, "Succeeded");
    set(p, HVD_COND_SUCCEEDED, HVD_TRUE, (const char *const[2]){"MasterSucceeded", message});
    hvd_pass_event(p, "Succeeded", message, false);
}

static void fail_attempt(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE];

    describe_failure(p, message);
    p->next.failures = p->job->status.failures + 1;
    if (p->next.failures > p->job->spec.backoff_limit) {
        p->next.cleaned = p->next.failures;
        hvd_outcome_fail(p, "MasterFailed", message);
        return;
    }
    hvd_pass_state(p, HVD_JOB_RESTARTING);
    set(p, HVD_COND_RUNNING, HVD_FALSE, (const char *const[2]){"MasterFailed", message});
    hvd_pass_event(p, "Restarting", message, true);
}

/* Which attempt the Job is; one that lost its annotation is the current one. */
static int32_t attempt_of(const struct hvd_pass *p, const struct hvd_object *job)
{
    return job->u.job.attempt ? job->u.job.attempt : p->job->status.failures + 1;
}

bool hvd_outcome_master(struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const struct hvd_object *pod = p->pods.master;

    if (!job || hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_ALIEN ||
        attempt_of(p, job) <= p->job->status.failures)
        return false;
    if (attempt_of(p, job) > p->next.attempts)
        p->next.attempts = attempt_of(p, job);
    if (job->u.job.is_complete || (pod && pod->u.pod.phase == HVD_POD_SUCCEEDED)) {
        succeed(p);
        return true;
    }
    if (!job->u.job.is_failed && !is_pod_finished(pod))
        return false;
    if (pod && !is_pod_finished(pod) && !pod->meta.is_deleting &&
        p->now_s < job->u.job.failed_s + POD_LAG_S) {
        hvd_plan_wake(p->plan, (job->u.job.failed_s + POD_LAG_S) * 1000);
        return false;
    }
    fail_attempt(p);
    return true;
}

/* Whether the master may still run: it outlives the outcome only when a deadline or a mistake in
 * another template ended the job. */
static bool is_master_live(const struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];

    return !job->u.job.is_complete && !job->u.job.is_failed && !is_pod_finished(p->pods.master);
}

void hvd_outcome_clean(struct hvd_pass *p)
{
    const struct hvd_job_spec *spec = &p->job->spec;
    int64_t end_ms = (p->job->status.completion_s + spec->ttl_s) * 1000;

    if (spec->ttl_s >= 0 && p->now_ms >= end_ms) {
        if (!p->st)
            p->st = hvd_plan_delete(p->plan, HVD_KIND_HOROVODJOB, p->job->namespace, p->job->name,
                                    p->job->uid);
        return;
    }
    if (spec->ttl_s >= 0)
        hvd_plan_wake(p->plan, end_ms);
    for (size_t i = 0; spec->clean_pod_policy != HVD_CLEAN_NONE && i < p->view->n_objects; i++) {
        const struct hvd_object *object = p->view->objects[i];

        if (object->kind == HVD_KIND_STATEFULSET && hvd_pass_is_ours(p, object) &&
            !object->meta.is_deleting)
            hvd_pass_delete(p, object);
    }
    if (spec->clean_pod_policy != HVD_CLEAN_NONE)
        hvd_admit_release(p);
    if (hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS &&
        (spec->clean_pod_policy == HVD_CLEAN_ALL || is_master_live(p)))
        hvd_pass_delete(p, p->child[HVD_KIND_JOB]);
}

bool hvd_outcome_quiesce(struct hvd_pass *p)
{
    enum hvd_child_state job = hvd_pass_child(p, HVD_KIND_JOB);
    bool is_down;

    if (job == HVD_CHILD_OURS)
        hvd_pass_delete(p, p->child[HVD_KIND_JOB]);
    is_down = hvd_ensure_no_workers(p);
    if (p->pods.n_workers == 0)
        hvd_ensure_hosts(p);
    return job != HVD_CHILD_OURS && job != HVD_CHILD_WAIT && is_down && p->pods.n_masters == 0 &&
           p->pods.n_workers == 0;
}
