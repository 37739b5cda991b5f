/*
 * A master's Job that another writer suspended, or set to parallelism 0: the Job controller removes
 * the pod and makes no other. A Job that had no pod yet is released, and nothing is lost. If its
 * master had started, the Job counts as deleted: its workers hold the rest of the ranks. So the
 * attempt has ended, without counting, and the next one starts anew. Pure.
 */
#include "operator/core/ensure/held.h"

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/attempt/attempt.h"
#include "operator/core/attempt/retry.h"
#include "operator/core/children/patch.h"
#include "operator/core/pass/trouble.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/write.h"

#define MESSAGE_SIZE 1024

static const char reason[] = "MasterSuspended";

/* Whether the master of the Job is known to have run. */
static bool has_started(const struct hvd_pass *p, const struct hvd_object *job)
{
    const struct hvd_condition *running = &p->job->status.conditions[HVD_COND_RUNNING];
    const struct hvd_object *pod = p->pods.master;

    return (pod && pod->u.pod.started_s != 0) || running->truth == HVD_TRUE ||
           (running->truth == HVD_FALSE && running->since_s > job->meta.created_s &&
            !hvd_str_equal(running->reason, reason));
}

/* Whether the master ended by itself; then its end is its outcome. */
static bool has_ended(const struct hvd_pass *p, const struct hvd_object *job)
{
    const struct hvd_object *pod = p->pods.master;

    return job->u.job.is_complete || job->u.job.is_failed ||
           (pod && (pod->u.pod.phase == HVD_POD_SUCCEEDED ||
                    (pod->u.pod.phase == HVD_POD_FAILED && !pod->meta.is_deleting)));
}

bool hvd_held_ends_attempt(struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    char message[MESSAGE_SIZE], attempt[HVD_ATTEMPT_SIZE], wait[64] = "";
    int64_t wait_s;

    if (p->st || hvd_pass_child(p, HVD_KIND_JOB) != HVD_CHILD_OURS || !job->u.job.is_held ||
        hvd_attempt_is_uncleared(p) || has_ended(p, job) || !has_started(p, job))
        return false;
    hvd_attempt_describe(p, attempt);
    wait_s = hvd_retry_note(p);
    if (wait_s > 0)
        hvd_text_format(wait, sizeof(wait), ", the next one after %d s", (int)wait_s);
    hvd_text_format(message, sizeof(message),
                    "Job %s was suspended by another writer (%s%s): set spec.suspend of the "
                    "HorovodJob to pause it",
                    job->meta.name, attempt, wait);
    if (p->next.attempts <= hvd_job_ended(&p->job->status))
        p->next.attempts = hvd_job_ended(&p->job->status) + 1;
    p->next.interruptions++;
    hvd_attempt_note_end(p, &(struct hvd_attempt_end){.reason = reason, .message = message});
    hvd_pass_state(p, HVD_JOB_RESTARTING);
    hvd_pass_condition(
        p, &(struct hvd_condition_update){HVD_COND_RUNNING, HVD_FALSE, reason, message});
    hvd_pass_end_event(p, "Restarting", message, true);
    return true;
}

void hvd_held_release(struct hvd_pass *p, const struct hvd_object *job)
{
    char message[MESSAGE_SIZE];
    struct hvd_jb jb = {0};
    struct hvd_patch patch = {.repair = HVD_REPAIR_SUSPEND};
    const struct hvd_write write = {job->kind, job->meta.name, patch.repair, patch.value};
    cJSON *root, *spec;

    if (p->st || !job->u.job.is_held || has_ended(p, job))
        return;
    hvd_text_format(message, sizeof(message),
                    "Job %s was suspended by another writer before its master ran, and is resumed: "
                    "set spec.suspend of the HorovodJob to pause it",
                    job->meta.name);
    if (!hvd_contest_is_repeated(p, &write)) /* else the condition Contested reports it */
        hvd_trouble_report(p, reason, message);
    root = hvd_jb_root(&jb);
    hvd_patch_expect(&jb, hvd_jb_object(&jb, root, "metadata"), &job->meta);
    spec = hvd_jb_object(&jb, root, "spec");
    hvd_jb_bool(&jb, spec, "suspend", false);
    hvd_jb_int(&jb, spec, "parallelism", 1);
    patch.body = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    hvd_write_patch(p, job, &patch);
}
