/*
 * The wait of a job between a failed attempt and the next one, during which it has no pods. A
 * broken program or node is seldom better a second later, and each start costs a whole set of
 * workers. The first restart comes at once; each further failure doubles the wait. An attempt whose
 * master ran for ten minutes made progress: the series of failures begins anew with it. Pure.
 */
#include "operator/core/attempt/retry.h"

#define FIRST_S 10
#define LONGEST_S 360
#define ENOUGH_S 600 /* an attempt that ran this long does not count as a failed start */

static int64_t wait_s(int32_t n_failures)
{
    int64_t wait = FIRST_S;

    if (n_failures <= 1)
        return 0;
    for (int32_t i = 2; i < n_failures && wait < LONGEST_S; i++)
        wait *= 2;
    return wait < LONGEST_S ? wait : LONGEST_S;
}

int64_t hvd_retry_note(struct hvd_pass *p)
{
    const struct hvd_condition *running = &p->job->status.conditions[HVD_COND_RUNNING];
    bool has_worked = running->truth == HVD_TRUE && p->now_s - running->since_s >= ENOUGH_S;
    int64_t wait;

    if (has_worked)
        p->next.failures_in_row = 0;
    if (p->next.failures_in_row < INT32_MAX)
        p->next.failures_in_row++;
    wait = wait_s(p->next.failures_in_row);
    p->next.retry_s = wait > 0 ? p->now_s + wait : 0;
    return wait;
}

bool hvd_retry_is_waiting(struct hvd_pass *p)
{
    int64_t until_s = p->job->status.retry_s;

    /* A clock that was set back must not lengthen the wait. */
    if (p->now_s >= until_s || until_s - p->now_s > LONGEST_S)
        return false;
    hvd_plan_wake(p->plan, until_s * 1000);
    return true;
}

void hvd_retry_forget(struct hvd_pass *p)
{
    p->next.failures_in_row = 0;
    p->next.retry_s = 0;
}
