/*
 * Decides which thread makes progress, and how long it polls before it sleeps. At most one thread
 * is the progress owner. The role changes hands under mu, so the progress owner's part of the
 * engine needs no lock of its own. A waiting thread has priority over the background thread, which
 * gives way to it.
 *
 * A progress owner without work polls again: at once for a short while, then with yields, and then
 * with sleeps. MPI cannot wake it, so with MPI the sleeps grow with the wait (core/backoff.h). Over
 * shared memory it sleeps until a peer wakes it. Any thread with new work wakes it from that sleep.
 *
 * A rank on its own processor cannot run while it polls: it yields or sleeps at once.
 *
 * After a tensor with a callback, the progress owner polls with yields until submissions pause,
 * and requests what has gathered (negotiate/request_send.c). On a shared processor the yields let
 * the submitting thread go on.
 *
 * With nothing outstanding here, the background thread sleeps until it is signalled, 10 ms after
 * the last submission. On a rank that receives for others it then sleeps in the transport, as the
 * progress owner. That sleep has no limit if peers wake it. Otherwise it is from idle_poll_ns up to
 * a second, which may delay another rank's shutdown or a stall warning.
 *
 * With stall warnings, every idle rank checks for probes a few times in the warning time
 * (core/heartbeat.h).
 */
#include "worker/engine/wait/progress_owner.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "worker/core/backoff.h"
#include "worker/engine/execute/device_set.h"
#include "worker/engine/negotiate/beats.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/request_send.h"
#include "worker/engine/state/wake.h"
#include "worker/engine/wait/progress.h"

#define SPIN_STEPS 256
#define FIRST_STEPS 65536 /* maximum without reading the clock */
#define BRIEF_STEPS 1024  /* maximum for a thread that cannot stay */
#define BRIEF_BYTES 16384 /* maximum bytes of tensors for a brief wait */
#define YIELD_STEPS 2048
#define SLEEP_WOKEN_NS 100000000 /* where peers wake: to check for stalls and lost ranks */
#define LINGER_NS 10000000       /* after a submission, polls so long for more */
#define LOOK_MAX_NS                                                                                \
    1000000000 /* longest time between two checks of an idle rank that no peer wakes for it */
#define LOOK_FLYING_NS 250000000 /* likewise, while the device may wait for a lost rank */
#define FLYING_NS                                                                                  \
    2000000000 /* for so long after work of the device, because waking a thread is costly */
#define YIELD_MOVING_NS                                                                            \
    100000000 /* while data moves, the owner sleeps only after so long without progress */

/* How long a progress owner has found no work. */
struct backoff {
    unsigned n_idle;
    int64_t idle_since_ns;
};

/* Returns whether the wait timed out. */
static bool wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t at)
{
    const struct timespec deadline = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};

    return pthread_cond_timedwait(cond, mu, &deadline) == ETIMEDOUT;
}

static bool wait_for(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t ns)
{
    return wait_until(cond, mu, hvd_clock_now_ns() + ns);
}

static bool is_waiter_done(const struct hvd_engine *e, const struct hvd_waiter *w)
{
    return w->entry ? hvd_entry_is_done(w->entry)
                    : atomic_load_explicit(&e->is_over, memory_order_acquire);
}

/* Whether the waiter's time limit has passed. */
static bool is_late(const struct hvd_waiter *w)
{
    return w->deadline_ns > 0 && hvd_clock_now_ns() >= w->deadline_ns;
}

/* Whether fused operations are active. On a joined rank they have no tensors of its own, but
 * other ranks wait for them. Only for the progress owner, or when there is none. */
static bool has_fused_ops(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i] && (e->sets[i]->own.todo || e->sets[i]->own.n_moving > 0))
            return true;
    return false;
}

/* Whether a stall has ended the job and not all ranks have left. Then ranks that receive for
 * others keep checking. Holds mu. */
static bool is_leave_watched(const struct hvd_engine *e)
{
    return e->locked.stalled_ns > 0 && !atomic_load(&e->is_over);
}

/* Whether an operation is on the device and may not be done. Only for the progress owner, or when
 * there is none. */
static bool has_flying(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i] && hvd_device_set_is_flying(e->sets[i]->own.on_device))
            return true;
    return false;
}

/* Wakes the background thread if there is work, or if it must receive for other ranks. Waking is
 * costly; the thread sleeps so deeply that it needs this only after another thread was the progress
 * owner for long. Holds mu. */
static void wake_background(struct hvd_engine *e)
{
    const bool is_long = e->locked.deep_ns < 0 || e->locked.deep_ns > LOOK_FLYING_NS;

    if (e->locked.is_deep &&
        ((is_long && has_flying(e)) || atomic_load(&e->n_outstanding) > 0 || has_fused_ops(e) ||
         ((!e->locked.is_ended || is_leave_watched(e)) && hvd_control_serves_others(e))))
        pthread_cond_signal(&e->locked.background_cond);
}

/* Passes the progress owner's role to a waiting thread, else to the background thread. Holds mu. */
static void release_progress_owner(struct hvd_engine *e, const struct hvd_waiter *self)
{
    e->locked.has_progress_owner = false;
    if (e->locked.must_stop) {
        pthread_cond_broadcast(&e->locked.background_cond);
        return;
    }
    for (struct hvd_waiter *w = e->locked.waiters; w; w = w->next) {
        if (w != self && !is_waiter_done(e, w)) {
            pthread_cond_signal(&w->cond);
            return;
        }
    }
    wake_background(e);
}

/* Returns how long queued tensors may still be held back; 0: they are due, or there are none.
 * Holds mu. */
static int64_t hold_ns(const struct hvd_engine *e)
{
    if (atomic_load(&e->n_queued) == 0 || atomic_load(&e->n_waiters) > 0 ||
        atomic_load(&e->is_urgent) || atomic_load(&e->is_gathering) ||
        atomic_load(&e->is_leaving) || e->options.cycle_ns == 0 || hvd_engine_is_full(e))
        return 0;
    int64_t ns = e->locked.first_queued_ns + e->options.cycle_ns - hvd_clock_now_ns();
    return ns > 0 ? ns : 0;
}

/* Whether there is work besides tensors that are held back. There is no progress owner. Holds
 * mu. */
static bool has_work(const struct hvd_engine *e)
{
    const size_t n_queued = atomic_load(&e->n_queued);

    return atomic_load(&e->n_outstanding) > n_queued || (n_queued > 0 && hold_ns(e) == 0) ||
           has_fused_ops(e) || atomic_load(&e->has_lost_refusal);
}

/* Whether the transport wakes the progress owner for everything that it waits for. A device
 * wakes no thread. The progress owner's. */
static bool is_woken(const struct hvd_engine *e)
{
    const struct hvd_transport_ops *ops = e->transport->ops;

    return ops->listen && e->own.n_on_device == 0 && (!ops->wakes || ops->wakes(e->transport));
}

/* Sleeps until a peer or a thread wakes this one. Holds mu, but releases it during the sleep. It
 * calls listen before that, so any thread with later work finds is_asleep set and wakes it. */
static void sleep_in_transport(struct hvd_engine *e, int64_t ns)
{
    struct hvd_transport *t = e->transport;
    const uint32_t ticket = t->ops->listen(t);

    e->locked.is_asleep = true;
    pthread_mutex_unlock(&e->mu);
    t->ops->sleep(t, ticket, ns);
    pthread_mutex_lock(&e->mu);
    e->locked.is_asleep = false;
}

/* Sleeps unless there is new work; a thread with new work signals cond. Does not hold mu. */
static void sleep_a_little(struct hvd_engine *e, pthread_cond_t *cond, bool is_background,
                           int64_t ns)
{
    pthread_mutex_lock(&e->mu);
    const int64_t held_ns = hold_ns(e);
    if (held_ns > 0 && held_ns < ns)
        ns = held_ns;
    if ((atomic_load(&e->n_queued) == 0 || held_ns > 0) &&
        !(is_background &&
          (e->locked.waiters || atomic_load(&e->is_leaving) || e->locked.must_stop))) {
        hvd_telemetry_slept(e->options.telemetry);
        if (is_woken(e)) {
            sleep_in_transport(e, held_ns > 0 ? held_ns : SLEEP_WOKEN_NS);
        } else if (e->transport->ops->listen) { /* only some peers wake it */
            sleep_in_transport(e, ns);
        } else {
            e->locked.sleeper = cond;
            wait_for(cond, &e->mu, ns);
            e->locked.sleeper = NULL;
        }
    }
    pthread_mutex_unlock(&e->mu);
}

/* Whether data is moving. The progress owner's. */
static bool is_moving(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i] && e->sets[i]->own.n_moving > 0)
            return true;
    return false;
}

/* Whether a rank that this one waits for cannot run while this thread polls. The progress
 * owner's. */
static bool blocks_peer(const struct hvd_engine *e)
{
    const struct hvd_transport_ops *ops = e->transport->ops;

    return ops->blocks_peer && ops->blocks_peer(e->transport);
}

/* Waits between two steps of the progress owner. */
static void back_off(struct hvd_engine *e, struct backoff *p, pthread_cond_t *cond,
                     bool is_background)
{
    static const unsigned spin_steps[] = {SPIN_STEPS, SPIN_STEPS / 8};
    const unsigned spin = e->is_crowded ? 0 : spin_steps[is_background];

    if (atomic_load(&e->is_gathering)) { /* a pause comes soon */
        sched_yield();
        return;
    }
    if (p->n_idle++ == 0)
        p->idle_since_ns = hvd_clock_now_ns();
    if (p->n_idle <= spin && !blocks_peer(e))
        return;
    /* The background thread sleeps instead: a yield may pass the processor to a busy program for
     * milliseconds. */
    if ((!is_background && p->n_idle <= YIELD_STEPS) ||
        (!is_woken(e) && is_moving(e) && hvd_clock_now_ns() - p->idle_since_ns < YIELD_MOVING_NS)) {
        sched_yield();
        return;
    }
    const int64_t ns =
        hvd_backoff_sleep_ns(hvd_clock_now_ns() - p->idle_since_ns, e->options.cycle_ns);
    if (ns > 0)
        sleep_a_little(e, cond, is_background, ns);
    else
        sched_yield();
}

static void step_backing_off(struct hvd_engine *e, struct backoff *p, pthread_cond_t *cond,
                             bool is_background)
{
    if (hvd_progress_step(e))
        *p = (struct backoff){0};
    else
        back_off(e, p, cond, is_background);
}

/* Whether the outstanding tensors are so small that they take some microseconds: this tensor
 * alone, or those submitted since there was a progress owner. A joined rank works for others, on
 * tensors of any size. Holds mu. */
static bool is_little(const struct hvd_engine *e, const struct hvd_entry *entry)
{
    const size_t n_outstanding = atomic_load_explicit(&e->n_outstanding, memory_order_relaxed);

    if (entry->request.device != HVD_CPU || entry->request.op == HVD_JOIN)
        return false;
    if (n_outstanding == atomic_load_explicit(&e->n_queued, memory_order_relaxed))
        return e->locked.queued_bytes <= BRIEF_BYTES;
    return n_outstanding == 1 &&
           entry->count * (int64_t)hvd_dtype_size((int)entry->request.dtype) <= BRIEF_BYTES;
}

bool hvd_progress_owner_first(struct hvd_engine *e, const struct hvd_waiter *waiter, bool is_brief)
{
    const unsigned n_idle_max = e->is_crowded ? 0 : SPIN_STEPS;
    unsigned n_steps = is_brief ? BRIEF_STEPS : FIRST_STEPS;
    unsigned n_idle = 0;

    if (e->locked.has_progress_owner || !hvd_wake_may_own(e) ||
        (is_brief && !is_little(e, waiter->entry)))
        return false;
    e->locked.has_progress_owner = true;
    hvd_add(&e->n_waiters, 1);
    hvd_request_send_take(e); /* while mu is held */
    pthread_mutex_unlock(&e->mu);
    do
        n_idle = hvd_progress_step(e) ? 0 : n_idle + 1;
    while (!is_waiter_done(e, waiter) && n_idle <= n_idle_max && --n_steps > 0 &&
           !(n_idle > 0 && blocks_peer(e)));
    pthread_mutex_lock(&e->mu);
    hvd_add(&e->n_waiters, (size_t)-1);
    e->locked.has_progress_owner = false;
    return is_waiter_done(e, waiter);
}

void hvd_progress_owner_release(struct hvd_engine *e)
{
    if (!e->locked.has_progress_owner)
        release_progress_owner(e, NULL);
}

void hvd_progress_owner_wait(struct hvd_engine *e, struct hvd_waiter *waiter)
{
    waiter->next = e->locked.waiters;
    e->locked.waiters = waiter;
    atomic_fetch_add(&e->n_waiters, 1);
    while (!is_waiter_done(e, waiter) && !is_late(waiter)) {
        if (e->locked.has_progress_owner || !hvd_wake_may_own(e)) {
            hvd_wake_sleeper(e);
            if (waiter->deadline_ns > 0)
                wait_until(&waiter->cond, &e->mu, waiter->deadline_ns);
            else
                pthread_cond_wait(&waiter->cond, &e->mu);
            continue;
        }
        struct backoff backoff = {0};
        unsigned n_steps = 0; /* other tensors may end and begin forever */
        e->locked.has_progress_owner = true;
        pthread_mutex_unlock(&e->mu);
        while (!is_waiter_done(e, waiter) &&
               !((backoff.n_idle > SPIN_STEPS || ++n_steps % SPIN_STEPS == 0) && is_late(waiter)))
            step_backing_off(e, &backoff, &waiter->cond, false);
        pthread_mutex_lock(&e->mu);
        release_progress_owner(e, waiter);
    }
    struct hvd_waiter **at = &e->locked.waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    /* After the last waiter, the background thread takes over the outstanding work. A waiter
     * that gave up may have been signalled to take the role, so it passes the signal on. */
    const bool is_last = atomic_fetch_sub(&e->n_waiters, 1) == 1;
    if (e->locked.has_progress_owner)
        return;
    if (is_last)
        wake_background(e);
    else if (waiter->deadline_ns > 0)
        release_progress_owner(e, waiter);
}

bool hvd_progress_owner_once(struct hvd_engine *e)
{
    if (e->locked.has_progress_owner || !hvd_wake_may_own(e))
        return false;
    e->locked.has_progress_owner = true;
    pthread_mutex_unlock(&e->mu);
    bool progressed = hvd_progress_step(e);
    pthread_mutex_lock(&e->mu);
    release_progress_owner(e, NULL);
    return progressed;
}

/* hvd_progress_owner_once after a time in which no thread may have been the progress owner. Holds
 * mu. */
static bool look_around(struct hvd_engine *e)
{
    if (e->locked.has_progress_owner || !hvd_wake_may_own(e))
        return false;
    if (e->transport->ops->listen) {
        e->locked.has_progress_owner = true;
        sleep_in_transport(e, 0); /* so that it looks for lost ranks now */
        e->locked.has_progress_owner = false;
    }
    return hvd_progress_owner_once(e);
}

/* Makes progress until there is no more work here, or another thread waits. Holds mu between
 * steps. */
static void drive_outstanding(struct hvd_engine *e)
{
    struct backoff backoff = {0};

    e->locked.has_progress_owner = true;
    do {
        pthread_mutex_unlock(&e->mu);
        step_backing_off(e, &backoff, &e->locked.background_cond, true);
        pthread_mutex_lock(&e->mu);
    } while (has_work(e) && atomic_load(&e->n_waiters) == 0);
    release_progress_owner(e, NULL);
}

/* The state of the background thread between its sleeps. */
struct rest {
    unsigned long n_submitted; /* at the last check */
    int64_t linger_until_ns;
    int64_t look_ns;         /* length of the sleep before the last check; 0: none yet */
    int64_t flying_until_ns; /* the device may have work until then */
    bool is_due;             /* it is time to check for probes */
};

/* Whether this rank has no work and no thread needs the background thread. Holds mu. */
static bool is_idle(const struct hvd_engine *e)
{
    return atomic_load(&e->n_outstanding) == 0 && !e->locked.waiters &&
           !atomic_load(&e->is_leaving) && !e->locked.must_stop;
}

/* Counts a wakeup without work. Holds mu. */
static void count_wakeup(struct hvd_engine *e)
{
    if (!is_idle(e))
        return;
    hvd_telemetry_add(&e->own.counters.idle_wakeups, 1);
    hvd_telemetry_idled(e->options.telemetry);
}

/* Whether tensors of other ranks wait here and may stall. The progress owner's. */
static bool has_waiting(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++) {
        const struct hvd_set *set = e->sets[i];
        if (set && set->own.negotiator && hvd_negotiator_waiting(set->own.negotiator) > 0)
            return true;
        if (set && set->own.aggregator && hvd_aggregator_waiting(set->own.aggregator) > 0)
            return true;
    }
    return false;
}

/* Returns how long an idle rank may sleep before it checks for probes or, after a stall, for
 * ranks that do not leave; -1: no limit. Holds mu. */
static int64_t probe_ns(const struct hvd_engine *e, bool is_flying)
{
    const int64_t warning_ns = e->options.stall_warning_ns;

    if (e->topology.size == 1 || atomic_load(&e->is_over))
        return -1;
    if (warning_ns == 0)
        return is_flying ? LOOK_FLYING_NS : -1;
    const bool is_active = !e->locked.has_progress_owner && hvd_beats_are_active(e);
    int64_t ns = is_active ? warning_ns / 8 + 1 : warning_ns / 4 + 1;
    if (is_flying && ns > LOOK_FLYING_NS)
        ns = LOOK_FLYING_NS;
    return e->locked.stalled_ns > 0 && ns > LOOK_MAX_NS ? LOOK_MAX_NS : ns;
}

/* Returns how long the progress owner may sleep while other ranks may send messages; -1: no
 * limit. */
static int64_t listen_ns(const struct hvd_engine *e, struct rest *rest)
{
    const int64_t due_ns = e->options.stall_warning_ns / 8;

    if (is_woken(e))
        return has_waiting(e) || hvd_beats_are_active(e) || e->locked.stalled_ns > 0
                   ? SLEEP_WOKEN_NS
                   : -1;
    rest->look_ns = rest->look_ns ? rest->look_ns * 2 : e->options.idle_poll_ns;
    if (rest->look_ns > LOOK_MAX_NS)
        rest->look_ns = LOOK_MAX_NS;
    return due_ns > 0 && due_ns < rest->look_ns ? due_ns : rest->look_ns;
}

/* Sleeps as the progress owner until other ranks may have sent messages. There must be no other
 * progress owner. Holds mu, but releases it during the sleep. */
static void listen_to_others(struct hvd_engine *e, struct rest *rest)
{
    int64_t ns = listen_ns(e, rest);

    if ((ns < 0 || ns > LOOK_FLYING_NS) && has_flying(e))
        ns = LOOK_FLYING_NS;
    e->locked.has_progress_owner = true;
    if (e->transport->ops->listen) {
        sleep_in_transport(e, ns);
    } else {
        e->locked.sleeper = &e->locked.background_cond;
        wait_for(&e->locked.background_cond, &e->mu, ns);
        e->locked.sleeper = NULL;
    }
    count_wakeup(e);
    release_progress_owner(e, NULL);
}

/* Sleeps until there may be work. listens: or messages of other ranks. Holds mu. */
static void sleep_well(struct hvd_engine *e, struct rest *rest, bool listens)
{
    const unsigned long n_submitted = atomic_load(&e->n_submitted);
    const int64_t now_ns = hvd_clock_now_ns();
    const int64_t held_ns = e->locked.waiters ? 0 : hold_ns(e);

    if (n_submitted != rest->n_submitted) {
        rest->n_submitted = n_submitted;
        rest->look_ns = 0;
        rest->linger_until_ns = now_ns + LINGER_NS;
    }
    if (held_ns > 0) {
        wait_for(&e->locked.background_cond, &e->mu, held_ns);
        return;
    }
    /* A program in its loop submits again soon, and polling is cheaper than a wakeup each time. */
    if (e->options.cycle_ns > 0 && now_ns < rest->linger_until_ns) {
        const int64_t ns = hvd_backoff_longest_ns(e->options.cycle_ns);
        wait_for(&e->locked.background_cond, &e->mu,
                 ns > HVD_BACKOFF_MIN_NS ? ns : HVD_BACKOFF_MIN_NS);
        return;
    }
    if (listens && !e->locked.has_progress_owner && is_idle(e)) {
        listen_to_others(e, rest);
        return;
    }
    if (!e->locked.has_progress_owner && has_flying(e))
        rest->flying_until_ns = now_ns + FLYING_NS;
    const int64_t sleep_ns = probe_ns(e, now_ns < rest->flying_until_ns);
    e->locked.is_deep = true;
    e->locked.deep_ns = sleep_ns;
    if (sleep_ns < 0)
        pthread_cond_wait(&e->locked.background_cond, &e->mu);
    else
        rest->is_due = wait_for(&e->locked.background_cond, &e->mu, sleep_ns);
    e->locked.is_deep = false;
    count_wakeup(e);
}

void *hvd_progress_owner_background(void *arg)
{
    struct hvd_engine *e = arg;
    struct rest rest = {0};

    pthread_setname_np(pthread_self(), "horovod");
    pthread_mutex_lock(&e->mu);
    while (!e->locked.must_stop) {
        const bool is_free = !e->locked.has_progress_owner && !e->locked.waiters;
        if (is_free && has_work(e)) {
            drive_outstanding(e);
            continue;
        }
        const bool looks =
            (!e->locked.is_ended || is_leave_watched(e)) && hvd_control_serves_others(e);
        if (is_free && (looks || rest.is_due) && atomic_load(&e->n_queued) == 0 &&
            look_around(e)) /* it released mu for a while: check again */
            rest.look_ns = 0;
        rest.is_due = false;
        if (e->locked.must_stop ||
            (!e->locked.has_progress_owner && !e->locked.waiters && has_work(e)))
            continue;
        sleep_well(e, &rest, looks);
    }
    pthread_mutex_unlock(&e->mu);
    return NULL;
}
