/*
 * The step function: all work that one rank does for its tensors, a part at a time, and never
 * blocking. One thread at a time runs it (see progress_owner.c). It takes mu only to fetch
 * submissions and to publish results.
 *
 *     queue ─> bits, requests ─> coordinator ─> plan ─> exec_plan ─> todo ─> moving ─> done
 */
#include "worker/engine/wait/progress.h"

#include "worker/engine/execute/device_set.h"
#include "worker/engine/execute/fused_op.h"
#include "worker/engine/negotiate/beats.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/job_end.h"
#include "worker/engine/negotiate/membership.h"
#include "worker/engine/negotiate/request_send.h"
#include "worker/engine/negotiate/set.h"
#include "worker/engine/negotiate/stalls.h"
#include "worker/engine/state/clock.h"
#include "worker/engine/wait/wait.h"

#define DEVICE_CHECK_NS 250000000

static hvd_status_t step_set(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                             struct hvd_err *err)
{
    hvd_status_t st = hvd_control_publish_plan(e, set, progressed, err);

    if (st == HVD_OK && (set->own.todo || set->own.n_moving > 0))
        st = hvd_fused_op_progress(e, set, progressed, err);
    return st;
}

/* Looks a few times a second for work of the device that has failed, also without stall checks. */
static hvd_status_t check_devices(struct hvd_engine *e, int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (!hvd_engine_device(e))
        return HVD_OK;
    if (now_ns == 0)
        now_ns = hvd_engine_coarse_now_ns();
    if (now_ns < e->own.next_device_check_ns)
        return HVD_OK;
    e->own.next_device_check_ns = now_ns + DEVICE_CHECK_NS;
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++)
        if (e->sets[i])
            st = hvd_device_set_check(e->sets[i]->own.on_device, err);
    return st;
}

static hvd_status_t step(struct hvd_engine *e, bool *progressed, struct hvd_err *err)
{
    /* stall times are in seconds and every step reads it, so a coarse clock is best */
    const int64_t now_ns = e->options.stall_warning_ns > 0 ? hvd_engine_coarse_now_ns() : 0;
    hvd_status_t st = HVD_OK;

    e->own.now_ns = now_ns;
    if (atomic_load_explicit(&e->has_lost_refusal, memory_order_relaxed) &&
        atomic_exchange(&e->has_lost_refusal, false))
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0,
                      "out of memory for a join, or for announcing that a tensor was refused");
    if (st == HVD_OK && atomic_load_explicit(&e->has_failed_device, memory_order_acquire))
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s", e->locked.device_failure);
    if (st == HVD_OK)
        st = hvd_request_send_queued(e, now_ns, progressed, err);

    if (st == HVD_OK)
        st = hvd_membership_send_leave(e, progressed, err);
    if (st == HVD_OK && e->own.early)
        st = hvd_control_recv_early(e, now_ns, progressed, err);
    if (st == HVD_OK && e->topology.size > 1)
        st = hvd_control_recv(e, now_ns, progressed, err);
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++)
        if (e->sets[i] && !hvd_set_retire(e, e->sets[i]))
            st = step_set(e, e->sets[i], progressed, err);
    if (st == HVD_OK)
        st = check_devices(e, now_ns, err);
    if (st != HVD_OK || !hvd_stalls_is_due(e, now_ns))
        return st;
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK && !e->own.is_aborted; i++)
        if (e->sets[i] && (st = hvd_beats_check(e, e->sets[i], err)) == HVD_OK &&
            !e->own.is_aborted)
            st = hvd_stalls_check(e, e->sets[i], now_ns, err);
    return st;
}

/* Whether all agreed tensors have finished and all sets have ended. */
static bool is_quiet(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++) {
        const struct hvd_set *set = e->sets[i];
        if (set && (set->own.n_moving > 0 || set->own.todo || !set->locked.is_ended))
            return false;
    }
    return true;
}

bool hvd_progress_step(struct hvd_engine *e)
{
    struct hvd_err err;
    bool progressed = false;
    hvd_status_t st = HVD_OK;

    hvd_err_clear(&err);
    if (!e->own.is_aborted && !e->own.is_done)
        st = step(e, &progressed, &err);
    if (st == HVD_OK && e->own.is_down && !e->own.is_done && !e->own.is_aborted && is_quiet(e))
        st = hvd_membership_send_done(e, &err);
    if (st != HVD_OK) {
        hvd_job_end_fail(e, &err);
        progressed = true;
    }
    if ((e->own.is_aborted || e->own.is_done) && !atomic_load(&e->is_over)) {
        pthread_mutex_lock(&e->mu);
        atomic_store(&e->is_over, true);
        for (struct hvd_waiter *w = e->locked.waiters; w; w = w->next)
            if (!w->entry)
                pthread_cond_signal(&w->cond);
        pthread_mutex_unlock(&e->mu);
    }
    return hvd_wait_call_back(e) || progressed;
}
