/*
 * Waiting for a tensor, and polling; any thread. A waiting thread makes progress meanwhile, see
 * progress_owner.c.
 */
#include "worker/engine/wait/wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/state/clock.h"
#include "worker/engine/state/end_cause.h"
#include "worker/engine/state/wake.h"
#include "worker/engine/wait/progress_owner.h"

int hvd_engine_poll(struct hvd_engine *e, int64_t handle)
{
    struct hvd_entry *entry = hvd_handles_find(&e->locked.handles, handle);

    if (!entry || hvd_entry_is_done(entry))
        return entry ? 1 : -1;
    pthread_mutex_lock(&e->mu);
    atomic_store(&e->is_urgent, true);
    hvd_progress_owner_once(e);
    entry = hvd_handles_find(&e->locked.handles, handle); /* mu was released in between */
    int result = entry ? hvd_entry_is_done(entry) : -1;
    pthread_mutex_unlock(&e->mu);
    return result;
}

/* Passes the result of the tensor to the caller. */
static hvd_status_t read_result(struct hvd_entry *entry, struct hvd_outcome *outcome,
                                struct hvd_err *err)
{
    const hvd_status_t st = entry->status;
    struct hvd_err reported = {0};

    if (st == HVD_ERR_SHUTDOWN && entry->message && !entry->is_own) {
        (void)HVD_FAIL(&reported, st, 0, "%s (tensor %.200s)", entry->message, entry->name);
        hvd_end_cause_note(reported.msg);
        return HVD_FAIL(err, st, 0, "%s", reported.msg);
    }
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "%s", entry->message ? entry->message : hvd_status_str(st));
    if (outcome) {
        *outcome = (struct hvd_outcome){
            .output = entry->output, .event = entry->event, .number = entry->number};
        entry->output = NULL;
        entry->event = NULL;
    }
    return HVD_OK;
}

/* --- Completions ------------------------------------------------------------------------------ */

/* Calls the callback of an entry that has ended. Holds mu, but releases it during the call. */
static void call_back(struct hvd_engine *e, struct hvd_entry *entry)
{
    const struct hvd_completion completion = entry->completion;
    struct hvd_outcome outcome = {0};
    struct hvd_err why = {0};
    bool is_transient = false;

    const hvd_status_t st = read_result(entry, &outcome, &why);
    (void)hvd_handles_end(entry, entry->handle, &is_transient);
    hvd_entry_recycle(e, entry, is_transient); /* so that the program may submit the name again */
    pthread_mutex_unlock(&e->mu);
    completion.call(&completion, st, why.msg, outcome.output);
    pthread_mutex_lock(&e->mu);
}

bool hvd_wait_call_back(struct hvd_engine *e)
{
    struct hvd_entry *entry;

    if (atomic_load_explicit(&e->n_completed, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&e->mu);
    while ((entry = hvd_entry_take_completed(e)))
        call_back(e, entry);
    pthread_mutex_unlock(&e->mu);
    return true;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* Returns the entry if this thread may wait for it; else NULL. Holds mu. */
static struct hvd_entry *claim(struct hvd_engine *e, int64_t handle, struct hvd_err *err)
{
    struct hvd_entry *entry = hvd_handles_find(&e->locked.handles, handle);

    if (!entry || entry->waiter) {
        hvd_err_set(err, HVD_ERR_NOT_FOUND, 0,
                    entry ? "another thread waits for this handle"
                          : "no such handle: it was waited for already, or never given out");
        return NULL;
    }
    if (!hvd_wake_may_own(e) && !hvd_entry_is_done(entry)) {
        hvd_wake_refuse(entry->request.name, err);
        return NULL;
    }
    return entry;
}

/* Waits with sleep, for a waiter that has managed without so far. Holds mu. */
static hvd_status_t wait_long(struct hvd_engine *e, struct hvd_waiter *waiter, int64_t timeout_ns,
                              struct hvd_err *err)
{
    if (hvd_engine_cond_init(&waiter->cond) != HVD_OK) {
        hvd_progress_owner_release(e);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "no condition variable");
    }
    waiter->deadline_ns = timeout_ns < 0 ? 0 : hvd_engine_now_ns() + timeout_ns;
    waiter->can_sleep = true;
    hvd_progress_owner_wait(e, waiter);
    pthread_cond_destroy(&waiter->cond);
    return HVD_OK;
}

/* Waits until the entry is done, for which it registers, or until the timeout: HVD_INPROGRESS.
 * Most waits end without sleep and need no condition variable or clock. Holds mu, before and
 * afterwards. */
static hvd_status_t wait_registered(struct hvd_engine *e, struct hvd_entry *entry,
                                    int64_t timeout_ns, struct hvd_err *err)
{
    struct hvd_waiter waiter; /* for the other fields see can_sleep */
    hvd_status_t st = HVD_OK;

    waiter.entry = entry;
    waiter.can_sleep = false;
    entry->waiter = &waiter;
    if (hvd_progress_owner_first(e, &waiter, timeout_ns == 0) || timeout_ns == 0)
        hvd_progress_owner_release(e);
    else
        st = wait_long(e, &waiter, timeout_ns, err);
    if (st == HVD_OK && hvd_entry_is_done(entry))
        return HVD_OK;
    entry->waiter = NULL;
    return st == HVD_OK ? HVD_INPROGRESS : st;
}

/* Does the work of hvd_engine_wait_for unless the tensor has ended simply. Holds mu. */
static hvd_status_t wait_locked(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                struct hvd_outcome *outcome, struct hvd_err *err)
{
    struct hvd_err why;
    bool is_transient = false;

    hvd_err_clear(&why);
    struct hvd_entry *entry = claim(e, handle, &why);
    if (!entry)
        return HVD_FAIL(err, why.status, 0, "%s", why.msg);
    hvd_status_t st =
        hvd_entry_is_done(entry) ? HVD_OK : wait_registered(e, entry, timeout_ns, err);
    if (st != HVD_OK)
        return st;
    if (!hvd_handles_end(entry, handle, &is_transient))
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "another thread waited for this handle");
    st = read_result(entry, outcome, err);
    hvd_entry_recycle(e, entry, is_transient);
    return st;
}

hvd_status_t hvd_engine_wait_for(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                 struct hvd_outcome *outcome, struct hvd_err *err)
{
    if (hvd_handles_end_simply(&e->locked.handles, handle)) {
        if (outcome)
            *outcome = (struct hvd_outcome){0};
        return HVD_OK;
    }
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = wait_locked(e, handle, timeout_ns, outcome, err);
    pthread_mutex_unlock(&e->mu);
    return st;
}

hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err)
{
    return hvd_engine_wait_for(e, handle, -1, outcome, err);
}

/* Ends the job because the device has failed, unless it has ended. Returns when nothing moves any
 * more, so the program may free its tensors. */
static void end_for_device(struct hvd_engine *e, const char *why)
{
    pthread_mutex_lock(&e->mu);
    if (!atomic_load(&e->has_failed_device))
        snprintf(e->locked.device_failure, sizeof(e->locked.device_failure), "%s", why);
    atomic_store_explicit(&e->has_failed_device, true, memory_order_release);
    hvd_wake_owner(e);
    pthread_mutex_unlock(&e->mu);
    while (!atomic_load(&e->is_over) && hvd_wake_may_own(e)) {
        (void)hvd_engine_step(e);
        sched_yield();
    }
}

/* Converts the failure of an event, which ends the job. The job's own cause comes first. */
static hvd_status_t report_event(struct hvd_engine *e, const struct hvd_err *why,
                                 struct hvd_err *err)
{
    struct hvd_err reported = {0};

    end_for_device(e, why->msg);
    pthread_mutex_lock(&e->mu);
    (void)HVD_FAIL(&reported, HVD_ERR_SHUTDOWN, 0, "%s",
                   e->locked.cause ? e->locked.cause : why->msg);
    pthread_mutex_unlock(&e->mu);
    hvd_end_cause_note(reported.msg);
    return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "%s", reported.msg);
}

hvd_status_t hvd_engine_await(struct hvd_engine *e, struct hvd_device_event *event,
                              struct hvd_err *err)
{
    struct hvd_device_port *d = event ? event->device : NULL;
    struct hvd_err why = {0};
    hvd_status_t st;

    if (!event)
        return HVD_OK;
    if (e->has_background)
        st = d->ops->wait(d, event, &why);
    else
        while ((st = d->ops->query(d, event, &why)) == HVD_INPROGRESS)
            (void)hvd_engine_step(e);
    return st == HVD_OK ? HVD_OK : report_event(e, &why, err);
}

bool hvd_engine_step(struct hvd_engine *e)
{
    atomic_store(&e->is_urgent, true);
    pthread_mutex_lock(&e->mu);
    bool progressed = hvd_progress_owner_once(e);
    pthread_mutex_unlock(&e->mu);
    return progressed;
}
