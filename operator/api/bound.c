/*
 * Bounds the fields of a status that was read. The status is the operator's only memory between
 * passes, so the operator trusts it within bounds. No value makes a job wait longer than the
 * operator itself would have made it wait, and no number overflows. Pure.
 */
#include "operator/api/horovodjob.h"

#define SKEW_S 60        /* by so much the clocks of operators and API servers may differ */
#define RETRY_MAX_S 3600 /* every wait between attempts is shorter */

static int32_t at_most(int32_t value, int32_t max)
{
    return value < max ? value : max;
}

static void bound_counts(struct hvd_job_status *status)
{
    int32_t ended = hvd_job_ended(status);

    status->attempts = at_most(status->attempts, ended + 1);
    status->cleaned = at_most(status->cleaned, ended);
    status->failures_in_row = at_most(status->failures_in_row, ended);
    if (status->worker_failure.attempt > ended + 1)
        status->worker_failure.attempt = 0;
}

/* Limits a time of the job's life (0: none) to the span from its creation to now. */
static int64_t bound_time(int64_t time_s, int64_t created_s, int64_t now_s)
{
    if (time_s == 0)
        return 0;
    if (time_s > now_s + SKEW_S)
        return now_s;
    return created_s <= now_s && time_s < created_s - SKEW_S ? created_s : time_s;
}

static void bound_times(struct hvd_job_status *status, int64_t created_s, int64_t now_s)
{
    status->start_s = bound_time(status->start_s, created_s, now_s);
    status->completion_s = bound_time(status->completion_s, created_s, now_s);
    status->worker_failure.at_s = bound_time(status->worker_failure.at_s, created_s, now_s);
    if (status->retry_s > now_s + RETRY_MAX_S)
        status->retry_s = 0;
    for (size_t i = 0; i < HVD_N_CONDITIONS; i++) {
        struct hvd_condition *condition = &status->conditions[i];

        /* The definition requires lastTransitionTime. */
        if (condition->truth != HVD_ABSENT && condition->since_s == 0)
            condition->since_s = now_s;
        condition->since_s = bound_time(condition->since_s, created_s, now_s);
    }
}

/* The conditions decide the state; if both are true, Failed wins. */
static void bound_end(struct hvd_job_status *status)
{
    const bool has_failed = status->conditions[HVD_COND_FAILED].truth == HVD_TRUE;
    const bool is_end = status->state == HVD_JOB_SUCCEEDED || status->state == HVD_JOB_FAILED;
    struct hvd_condition *succeeded = &status->conditions[HVD_COND_SUCCEEDED];

    if (has_failed && succeeded->truth == HVD_TRUE)
        succeeded->truth = HVD_FALSE;
    if (hvd_job_is_finished(status)) {
        status->state = has_failed ? HVD_JOB_FAILED : HVD_JOB_SUCCEEDED;
        if (status->completion_s == 0)
            status->completion_s =
                status->conditions[has_failed ? HVD_COND_FAILED : HVD_COND_SUCCEEDED].since_s;
        return;
    }
    status->completion_s = 0;
    if (is_end)
        status->state = hvd_job_ended(status) > 0 ? HVD_JOB_RESTARTING : HVD_JOB_PENDING;
}

void hvd_job_status_bound(struct hvd_job_status *status, int64_t created_s, int64_t now_s)
{
    bound_counts(status);
    bound_times(status, created_s, now_s);
    bound_end(status);
}
