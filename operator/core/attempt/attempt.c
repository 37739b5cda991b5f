/*
 * The attempt under way: which Job belongs to it, whether it has begun, and how it ended. Pure.
 */
#include "operator/core/attempt/attempt.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"

int32_t hvd_attempt_of(const struct hvd_pass *p, const struct hvd_object *job)
{
    const int32_t current = hvd_job_ended(&p->job->status) + 1;

    return job->u.job.attempt && job->u.job.attempt < current ? job->u.job.attempt : current;
}

const struct hvd_object *hvd_attempt_job(const struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];

    return job && hvd_pass_is_ours(p, job) &&
                   hvd_attempt_of(p, job) > hvd_job_ended(&p->job->status)
               ? job
               : NULL;
}

/* A Job of an attempt that is recorded as cleared away belongs to no attempt: another writer
 * changed its annotation, or the counts. */
bool hvd_attempt_is_uncleared(const struct hvd_pass *p)
{
    const struct hvd_object *job = p->child[HVD_KIND_JOB];
    const int32_t ended = hvd_job_ended(&p->job->status);

    return ended > p->job->status.cleaned ||
           (hvd_pass_child(p, HVD_KIND_JOB) == HVD_CHILD_OURS && hvd_attempt_of(p, job) <= ended);
}

bool hvd_attempt_is_under_way(const struct hvd_pass *p)
{
    return hvd_attempt_job(p) || p->job->status.attempts > hvd_job_ended(&p->job->status);
}

const struct hvd_worker_failure *hvd_attempt_loss(const struct hvd_pass *p)
{
    const struct hvd_worker_failure *known = &p->next.worker_failure;

    return known->message && known->attempt == hvd_job_ended(&p->job->status) + 1 ? known : NULL;
}

void hvd_attempt_describe(const struct hvd_pass *p, char out[HVD_ATTEMPT_SIZE])
{
    const struct hvd_job_status *status = &p->job->status;
    int64_t number = (int64_t)status->failures + 1;
    int64_t of = (int64_t)p->job->spec.backoff_limit + 1;
    int n;

    if (of < number) /* the limit was lowered meanwhile */
        of = number;
    n = snprintf(out, HVD_ATTEMPT_SIZE, "attempt %lld of %lld", (long long)number, (long long)of);
    if (status->interruptions > 0)
        (void)snprintf(out + n, HVD_ATTEMPT_SIZE - (size_t)n, " after %d interruption%s",
                       status->interruptions, status->interruptions == 1 ? "" : "s");
}

void hvd_attempt_note_end(struct hvd_pass *p, const struct hvd_attempt_end *end)
{
    char *message = p->st ? NULL : hvd_strdup(end->message);

    if (p->st)
        return;
    if (!message) {
        p->st = HVD_ERR_NOMEM;
        return;
    }
    hvd_free(p->end_message);
    p->end_message = message;
    p->end = *end;
    p->end.message = message;
    p->end.number = end->number ? end->number : hvd_job_ended(&p->next);
    p->end.at_s = p->now_s;
}
