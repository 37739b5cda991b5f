/*
 * activeDeadlineSeconds: when the time is over, and what then ends. While a read fails, the
 * deadline is the only decision, from the objects in view. A master that has ended by then
 * determines how the job ends, and no worker is blamed for what is unseen. Pure.
 */
#include "operator/core/outcome/deadline.h"

#include <stdio.h>

#include "operator/core/outcome/altered.h"
#include "operator/core/outcome/mark.h"
#include "operator/core/outcome/outcome.h"

#define MESSAGE_SIZE 128

/* Whether the time is over; else wakes at its end. */
static bool is_over(struct hvd_pass *p)
{
    const int64_t deadline_s = p->job->spec.active_deadline_s;
    const int64_t end_ms = (p->next.start_s + deadline_s) * 1000;

    if (deadline_s < 0)
        return false;
    if (p->now_ms < end_ms)
        hvd_plan_wake(p->plan, end_ms);
    return p->now_ms >= end_ms;
}

bool hvd_deadline_ends_job(struct hvd_pass *p)
{
    char message[MESSAGE_SIZE];

    if (!is_over(p))
        return false;
    (void)snprintf(message, sizeof(message),
                   "the job was active for longer than activeDeadlineSeconds (%lld)",
                   (long long)p->job->spec.active_deadline_s);
    hvd_outcome_fail(p, HVD_REASON_DEADLINE, message);
    return true;
}

void hvd_deadline_ends_waiting(struct hvd_pass *p, bool has_spec)
{
    if (hvd_job_is_finished(&p->next) || p->job->spec.is_suspended || hvd_pass_is_stopping(p) ||
        p->next.start_s <= 0 || !is_over(p))
        return;
    if (hvd_mark_is_end(p))
        hvd_outcome_noted(p);
    else if (!hvd_altered_ends_job(p) && !hvd_outcome_late(p) &&
             !((has_spec || hvd_outcome_is_success(p)) && hvd_outcome_master(p)))
        (void)hvd_deadline_ends_job(p);
}
