/*
 * A fused operation from the plan to its result. Fused operations of a set start in the agreed
 * order and finish in any order. The mover decides how one moves (mover.h). Runs in the progress
 * owner.
 */
#include "worker/engine/execute/fused_op.h"

#include "base/mem.h"
#include "worker/engine/execute/exec_plan.h"
#include "worker/engine/execute/mover.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/sharing.h"
#include "worker/engine/execute/staging.h"
#include "worker/engine/execute/tune.h"

const char *hvd_fused_op_name(const struct hvd_fused_op *f)
{
    return f->members[0].entry ? f->members[0].entry->name : "of other ranks";
}

/* Finishes the tensors of a successful allreduce, and counts them together. Only while the
 * recorder is off. Holds mu. */
static void finish_together(struct hvd_engine *e, const struct hvd_fused_op *f)
{
    int64_t count = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_entry *entry = f->members[i].entry;
        hvd_fused_op_fetch(f, i);
        if (!entry)
            continue;
        count += f->members[i].count;
        n++;
        hvd_entry_publish(e, entry);
    }
    hvd_telemetry_done_many(e->options.telemetry, (int)f->request.op, n,
                            (uint64_t)count * hvd_dtype_size((int)f->request.dtype));
    hvd_add(&e->n_outstanding, 0 - (size_t)n);
}

/* Publishes the status of all tensors of a fused operation. Holds mu. */
static void finish_entries(struct hvd_engine *e, const struct hvd_fused_op *f, hvd_status_t status,
                           const char *message)
{
    const unsigned on = e->options.telemetry ? hvd_telemetry_on(e->options.telemetry) : 0;

    if (status == HVD_OK && f->request.op == HVD_ALLREDUCE &&
        (!on || (!(on & HVD_TELEMETRY_RECORDER) && hvd_fused_op_is_cached(f)))) {
        if (on)
            hvd_op_trace_ended(e, f);
        finish_together(e, f);
        return;
    }
    for (uint32_t i = 0; i < f->n_members; i++)
        if (f->members[i].entry)
            hvd_entry_finish(e, f->members[i].entry, status, message);
}

/* Publishes the status of all tensors of a fused operation, and releases the operation. */
static inline void finish(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          hvd_status_t status, const char *message)
{
    if (status == HVD_OK && f->members[0].entry && f->members[0].entry->is_own) {
        status = f->members[0].entry->status;
        message = f->members[0].entry->agreement->text(status);
    }
    if (f->copies && status == HVD_OK)
        hvd_sharing_write_back(f);
    hvd_sharing_release(set, f);
    hvd_free(f->zeros);
    f->zeros = NULL;
    hvd_free(f->splits);
    f->splits = NULL;
    if (f->staging && status == HVD_OK)
        hvd_staging_pass_event(f);
    if (f->mover->finish)
        f->mover->finish(set, f);
    if (e->options.autotune && status == HVD_OK)
        hvd_tune_landed(e, set, f);
    pthread_mutex_lock(&e->mu);
    finish_entries(e, f, status, message);
    pthread_mutex_unlock(&e->mu);
    hvd_exec_plan_release(set, f->exec_plan);
}

/* Completes a fused operation that has landed, after the action of an agreement about process
 * sets. On failure it stays unfinished. */
static hvd_status_t complete(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err)
{
    struct hvd_entry *entry = f->members[0].entry;
    hvd_status_t st = entry && entry->is_own ? entry->agreement->follow(e, entry, err) : HVD_OK;

    if (st == HVD_OK) {
        finish(e, set, f, HVD_OK, NULL);
        return HVD_OK;
    }
    entry->is_own = false; /* finish must not take the status from the agreement */
    return st;
}

/* Appends the fused operation to those that wait to start. */
static void line_up(struct hvd_set *set, struct hvd_fused_op *f)
{
    f->next = NULL;
    if (set->own.todo)
        set->own.todo_last->next = f;
    else
        set->own.todo = f;
    set->own.todo_last = f;
}

/* Puts the fused operation before all others of the set that wait to start. */
static void push_in(struct hvd_set *set, struct hvd_fused_op *f)
{
    f->next = set->own.todo;
    if (!set->own.todo)
        set->own.todo_last = f;
    set->own.todo = f;
}

/* Completes a prepared fused operation that has nothing to move, or lines it up. */
static hvd_status_t depart(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    hvd_status_t st = HVD_INPROGRESS;

    if (set->self.size == 1)
        st = f->mover->alone(e, set, f, err);
    else if (!f->work.moves_data)
        st = HVD_OK;
    if (st == HVD_OK)
        return complete(e, set, f, err);
    if (st != HVD_INPROGRESS)
        return st;
    line_up(set, f);
    return HVD_OK;
}

hvd_status_t hvd_fused_op_begin(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err)
{
    struct hvd_err why;

    f->since_ns = e->own.now_ns;
    if (f->is_prepared && f->exec_plan->is_whole) {
        hvd_mover_describe_again(f);
        return depart(e, set, f, err);
    }
    hvd_err_clear(&why);
    f->mover = f->request.device == HVD_CPU ? hvd_mover_of_host(f) : &hvd_staging_mover;
    hvd_status_t st = f->mover->prepare(e, set, f, &why);
    if (st == HVD_ERR_TOO_LARGE) { /* it fails alike on all ranks, so the job continues */
        finish(e, set, f, st, why.msg);
        return HVD_OK;
    }
    return st == HVD_OK ? depart(e, set, f, err) : HVD_FAIL(err, st, 0, "%s", why.msg);
}

static hvd_status_t start_todo(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                               struct hvd_err *err)
{
    while (set->own.n_moving < HVD_MOVING_MAX && set->own.todo && !set->own.is_held) {
        struct hvd_fused_op *f = set->own.todo;
        hvd_status_t st = f->mover->claim(e, set, f, err);
        if (st == HVD_INPROGRESS)
            return HVD_OK;
        if (st == HVD_OK)
            st = f->mover->start(e, set, f, err);
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
        set->own.todo = f->next;
        set->own.moving[set->own.n_moving++] = f;
        set->own.is_held = f->has_more;
        *progressed = true;
    }
    return HVD_OK;
}

/* Continues a fused operation that has moved and is off the list. A failure ends the job. */
static inline hvd_status_t land(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err)
{
    enum hvd_advance next = HVD_ADVANCE_DONE;
    hvd_status_t st = HVD_OK;

    if (f->has_more)
        set->own.is_held = false;
    if (f->mover->advance)
        st = f->mover->advance(e, set, f, &next, err);
    if (next == HVD_ADVANCE_MOVES) {
        set->own.moving[set->own.n_moving++] = f; /* its place has just become free */
        return st == HVD_OK ? st : HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
    }
    if (st == HVD_OK && next == HVD_ADVANCE_NEXT) {
        push_in(set, f);
        return HVD_OK;
    }
    if (st == HVD_OK)
        st = complete(e, set, f, err);
    if (st != HVD_OK) /* it is on no list, so the end of the job would not finish it */
        finish(e, set, f, HVD_ERR_SHUTDOWN, err->msg);
    return st;
}

hvd_status_t hvd_fused_op_progress(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                   struct hvd_err *err)
{
    hvd_status_t st = start_todo(e, set, progressed, err);

    for (int i = 0; i < set->own.n_moving && st == HVD_OK;) {
        struct hvd_fused_op *f = set->own.moving[i];
        st = f->mover->test(e, set, f, err);
        if (st == HVD_INPROGRESS) {
            st = HVD_OK;
            i++;
            continue;
        }
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
        *progressed = true;
        set->own.n_landed++;
        set->own.moving[i] = set->own.moving[--set->own.n_moving];
        st = land(e, set, f, err);
    }
    return st;
}
