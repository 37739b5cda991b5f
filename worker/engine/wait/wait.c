/*
 * Waiting for a tensor, and polling; any thread. A waiting thread makes progress meanwhile, see
 * progress_owner.c.
 */
#include "worker/engine/wait/wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cause.h"
#include "base/clock.h"
#include "base/mem.h"
#include "worker/core/backoff.h"
#include "worker/engine/state/clock.h"
#include "worker/engine/state/end_cause.h"
#include "worker/engine/state/wake.h"
#include "worker/engine/wait/progress_owner.h"

/* hvd_engine_poll without work. The failure of a device counts as an end. Holds mu. */
static int poll_locked(struct hvd_engine *e, int64_t handle)
{
    const struct hvd_entry *entry = hvd_handles_find(&e->locked.handles, handle);

    if (!entry || !hvd_entry_is_done(entry))
        return entry ? 0 : -1;
    struct hvd_device_event *event = entry->event; /* written in front of the end */
    return !event || event->device->ops->query(event->device, event, NULL) != HVD_INPROGRESS;
}

int hvd_engine_poll(struct hvd_engine *e, int64_t handle)
{
    struct hvd_entry *entry = hvd_handles_find(&e->locked.handles, handle);

    if (!entry || hvd_entry_is_simple(entry))
        return entry ? 1 : -1;
    pthread_mutex_lock(&e->mu);
    int result = poll_locked(e, handle);
    if (result == 0) {
        atomic_store(&e->is_urgent, true);
        hvd_progress_owner_once(e); /* releases mu in between */
        result = poll_locked(e, handle);
    }
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
    hvd_device_event_release(outcome.event); /* the result is in its place */
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

/* --- Events of the device ------------------------------------------------------------------- */

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

/* Queries until the event is done or the time is over, and makes progress where no thread of the
 * engine does. */
static hvd_status_t query_for(struct hvd_engine *e, struct hvd_device_event *event,
                              int64_t timeout_ns, struct hvd_err *err)
{
    const int64_t cycle_ns = hvd_backoff_longest_ns(HVD_BACKOFF_MAX_NS);
    struct hvd_device_port *d = event->device;
    int64_t start_ns = 0;
    hvd_status_t st;

    while ((st = d->ops->query(d, event, err)) == HVD_INPROGRESS) {
        const int64_t now_ns = hvd_clock_now_ns();
        start_ns = start_ns ? start_ns : now_ns;
        const int64_t idle_ns = now_ns - start_ns;
        if (timeout_ns >= 0 && idle_ns >= timeout_ns)
            return st;
        if (e->has_background || !hvd_engine_step(e))
            nanosleep(
                &(const struct timespec){.tv_nsec = (long)hvd_backoff_sleep_ns(idle_ns, cycle_ns)},
                NULL);
    }
    return st;
}

/* Does the work of hvd_engine_await, for timeout_ns at most; -1: without a limit. */
static hvd_status_t await_for(struct hvd_engine *e, struct hvd_device_event *event,
                              int64_t timeout_ns, struct hvd_err *err)
{
    struct hvd_device_port *d = event ? event->device : NULL;
    struct hvd_err why = {0};

    if (!event)
        return HVD_OK;
    const hvd_status_t st = e->has_background && timeout_ns < 0
                                ? d->ops->wait(d, event, &why)
                                : query_for(e, event, timeout_ns, &why);
    return st == HVD_OK || st == HVD_INPROGRESS ? st : report_event(e, &why, err);
}

hvd_status_t hvd_engine_await(struct hvd_engine *e, struct hvd_device_event *event,
                              struct hvd_err *err)
{
    return await_for(e, event, -1, err);
}

hvd_status_t hvd_engine_check(struct hvd_engine *e, struct hvd_err *err)
{
    struct hvd_strview host, tensor;
    struct hvd_err why = {0};
    hvd_status_t st = HVD_OK;

    if (!atomic_load(&e->is_failing) && !atomic_load(&e->has_failed_device)) {
        /* After a stall, what is launched still ends well. A rank that has left is no failure. */
        pthread_mutex_lock(&e->mu);
        const char *cause = e->locked.cause;
        if (cause && !hvd_cause_left(hvd_strview_of(cause), &host, &tensor))
            st = HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "%s", cause);
        pthread_mutex_unlock(&e->mu);
        return st;
    }
    (void)HVD_FAIL(&why, HVD_ERR_SHUTDOWN, 0, "Horovod has been shut down.");
    return report_event(e, &why, err);
}

hvd_status_t hvd_engine_order(struct hvd_engine *e, struct hvd_device_event *event, void *stream,
                              struct hvd_err *err)
{
    struct hvd_err why = {0};

    if (!event)
        return HVD_OK;
    const hvd_status_t st = event->device->ops->order(event->device, event, stream, &why);
    if (st == HVD_ERR_INVALID)
        return HVD_FAIL(err, st, 0, "%s", why.msg);
    return st == HVD_OK ? st : report_event(e, &why, err);
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
    waiter->deadline_ns = timeout_ns < 0 ? 0 : hvd_clock_now_ns() + timeout_ns;
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

/* Ends the handle of an entry that has ended, and passes its result to the caller. Holds mu. */
static hvd_status_t take_result(struct hvd_engine *e, struct hvd_entry *entry, int64_t handle,
                                struct hvd_outcome *outcome, struct hvd_err *err)
{
    bool is_transient = false;

    if (!hvd_handles_end(entry, handle, &is_transient))
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "another thread waited for this handle");
    const hvd_status_t st = read_result(entry, outcome, err);
    hvd_entry_recycle(e, entry, is_transient);
    return st;
}

/* Waits until the result of an entry that has ended is there. No other thread waits for it
 * meanwhile. HVD_INPROGRESS after the timeout. Holds mu, but releases it during the wait. */
static hvd_status_t wait_for_event(struct hvd_engine *e, struct hvd_entry *entry,
                                   int64_t timeout_ns, struct hvd_err *err)
{
    struct hvd_waiter waiter = {.entry = entry};
    struct hvd_device_event *event = hvd_device_event_retain(entry->event);

    entry->waiter = &waiter;
    pthread_mutex_unlock(&e->mu);
    const hvd_status_t st = await_for(e, event, timeout_ns, err);
    hvd_device_event_release(event);
    pthread_mutex_lock(&e->mu);
    entry->waiter = NULL;
    return st;
}

/* How a thread waits. */
struct how {
    int64_t timeout_ns;
    bool wants_result; /* of a tensor on the device: waits for its event, too */
};

/* Does the work of hvd_engine_wait_for unless the tensor has ended simply. Holds mu. */
static hvd_status_t wait_locked(struct hvd_engine *e, int64_t handle, const struct how *how,
                                struct hvd_outcome *outcome, struct hvd_err *err)
{
    const int64_t start_ns = how->wants_result && how->timeout_ns > 0 ? hvd_clock_now_ns() : 0;
    int64_t left_ns = how->timeout_ns;
    struct hvd_err why;

    hvd_err_clear(&why);
    struct hvd_entry *entry = claim(e, handle, &why);
    if (!entry)
        return HVD_FAIL(err, why.status, 0, "%s", why.msg);
    hvd_status_t st =
        hvd_entry_is_done(entry) ? HVD_OK : wait_registered(e, entry, how->timeout_ns, err);
    if (st != HVD_OK)
        return st;
    if (!how->wants_result || entry->status != HVD_OK || !entry->event)
        return take_result(e, entry, handle, outcome, err);
    if (start_ns > 0 && (left_ns -= hvd_clock_now_ns() - start_ns) < 0)
        left_ns = 0;
    st = wait_for_event(e, entry, left_ns, &why);
    if (st == HVD_INPROGRESS)
        return st;
    struct hvd_outcome taken = {0};
    const hvd_status_t ended = take_result(e, entry, handle, &taken, err);
    hvd_device_event_release(taken.event);
    taken.event = NULL;
    if (ended == HVD_OK && st == HVD_OK && outcome)
        *outcome = taken;
    else
        hvd_output_destroy(taken.output);
    return ended != HVD_OK || st == HVD_OK ? ended : HVD_FAIL(err, st, 0, "%s", why.msg);
}

static hvd_status_t wait_how(struct hvd_engine *e, int64_t handle, const struct how *how,
                             struct hvd_outcome *outcome, struct hvd_err *err)
{
    if (hvd_handles_end_simply(&e->locked.handles, handle)) {
        if (outcome)
            *outcome = (struct hvd_outcome){0};
        return HVD_OK;
    }
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = wait_locked(e, handle, how, outcome, err);
    pthread_mutex_unlock(&e->mu);
    return st;
}

hvd_status_t hvd_engine_wait_for(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                 struct hvd_outcome *outcome, struct hvd_err *err)
{
    return wait_how(e, handle, &(struct how){.timeout_ns = timeout_ns}, outcome, err);
}

hvd_status_t hvd_engine_wait_result(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                    struct hvd_outcome *outcome, struct hvd_err *err)
{
    return wait_how(e, handle, &(struct how){timeout_ns, true}, outcome, err);
}

hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err)
{
    return hvd_engine_wait_for(e, handle, -1, outcome, err);
}

bool hvd_engine_step(struct hvd_engine *e)
{
    atomic_store(&e->is_urgent, true);
    pthread_mutex_lock(&e->mu);
    bool progressed = hvd_progress_owner_once(e);
    pthread_mutex_unlock(&e->mu);
    return progressed;
}
