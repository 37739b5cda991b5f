/*
 * Applies a plan: first the cached tensors, which it contains as bits, then its steps in order. All
 * tensors between two notices form one execution plan. Runs in the progress owner.
 */
#include "worker/engine/negotiate/plan_apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/exec_plan.h"
#include "worker/engine/negotiate/job_end.h"
#include "worker/engine/negotiate/set.h"
#include "worker/engine/state/slot_trace.h"
#include "worker/engine/submit/join.h"
#include "worker/engine/submit/refusal.h"

/* The submission of this rank under the name of a step. */
struct found {
    struct hvd_entry *entry; /* off the table; NULL: no request of this rank, or a refusal */
    bool is_refused; /* it refused; read under mu, because the program may refuse the name again
                        later */
    bool is_join_pending;
};

static hvd_status_t take_named(struct hvd_engine *e, struct hvd_set *set, struct hvd_strview name,
                               struct found *found, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    pthread_mutex_lock(&e->mu);
    struct hvd_entry *entry = hvd_table_take(set->locked.table, name);
    *found = (struct found){.entry = entry,
                            .is_refused = entry && entry->refusal,
                            .is_join_pending = set->locked.is_join_pending};
    if (found->is_refused) {
        found->entry = NULL; /* released, or queued again */
        st = hvd_refusal_answered(e, set, entry, err);
    }
    pthread_mutex_unlock(&e->mu);
    return st;
}

static hvd_status_t copy_rows(const struct hvd_step *step, struct hvd_agreed *a)
{
    if (step->n_rows == 0)
        return HVD_OK;
    a->rows = hvd_malloc(step->n_rows, sizeof(*a->rows));
    if (!a->rows)
        return HVD_ERR_NOMEM;
    for (uint32_t i = 0; i < step->n_rows; i++)
        a->rows[i] = hvd_message_step_row(step, i);
    return HVD_OK;
}

/* Puts the tensor into its slot. */
static hvd_status_t put_in_slot(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                                const struct hvd_step *step, struct hvd_err *err)
{
    struct hvd_request req = entry->request;

    req.group = step->group;
    req.group_size = step->group_size;
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = hvd_cache_put(set->locked.cache, &req, step, err);
    if (st == HVD_OK && hvd_set_make_room(set) != HVD_OK) {
        hvd_cache_remove(set->locked.cache, step->slot);
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the bits of a set");
    }
    struct hvd_cache_slot *slot = hvd_cache_at(set->locked.cache, step->slot);
    if (st == HVD_OK) {
        slot->since = set->own.epoch;
        set->own.changed = set->own.epoch;
        hvd_entry_settle(entry, slot);
    }
    pthread_mutex_unlock(&e->mu);
    if (st == HVD_OK)
        hvd_slot_trace_put(e, set, slot);
    return st;
}

/* Describes a tensor to which this joined rank contributes zeros. */
static hvd_status_t agree_joined(const struct hvd_step *step, struct hvd_agreed *a,
                                 struct hvd_err *err)
{
    a->own = hvd_malloc(1, sizeof(*a->own));
    if (!a->own)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
    *a->own = (struct hvd_request){.op = (enum hvd_op)step->kind,
                                   .dtype = step->dtype,
                                   .reduce = step->reduce,
                                   .device = step->device,
                                   .prescale = step->prescale,
                                   .postscale = step->postscale,
                                   .ndim = 1,
                                   .shape = {step->count},
                                   .name = {.data = ""}};
    a->request = a->own;
    return HVD_OK;
}

/* Adds the tensor of a step to those that run next. */
static hvd_status_t agree(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                          const struct hvd_step *step, struct hvd_err *err)
{
    struct hvd_agreed *a = hvd_exec_plan_agree(set);
    hvd_status_t st = a ? copy_rows(step, a) : HVD_ERR_NOMEM;

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a plan");
    a->entry = entry;
    a->group = step->group; /* the plan's number, which all ranks share, and not this rank's */
    if (!entry)             /* this rank has joined */
        return agree_joined(step, a, err);
    a->request = &entry->request;
    hvd_telemetry_agreed(hvd_entry_telemetry(e, entry), (uint64_t)entry->handle, &entry->request,
                         false);
    if (step->n_rows != (step->kind == HVD_ALLGATHER ? (uint32_t)set->self.size : 0))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the plan has %u rows for tensor %s", step->n_rows,
                        entry->name);
    return step->slot == HVD_CACHE_NO_SLOT ? HVD_OK : put_in_slot(e, set, entry, step, err);
}

static void end_join(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                     const struct hvd_step *step)
{
    pthread_mutex_lock(&e->mu);
    set->locked.is_join_pending = false;
    entry->number = step->count;
    hvd_join_ended(e, entry);
    pthread_mutex_unlock(&e->mu);
}

/* Queues an entry, which is or was requested by a bit, to be requested by name. Holds mu. */
static void requeue(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                    uint32_t index)
{
    const uint64_t bit = (uint64_t)1 << (index % 64);
    uint64_t *word = &set->locked.queued_bits[index / 64];

    entry->slot = NULL;
    entry->index = HVD_CACHE_NO_SLOT;
    if (entry->is_listed)
        return;
    hvd_telemetry_named(hvd_entry_telemetry(e, entry), (uint64_t)entry->handle, &entry->request);
    hvd_entry_list_add(&set->locked.queue, entry);
    if (!(*word & bit)) {
        hvd_add(&e->n_queued, 1);
        atomic_store(&e->is_urgent, true);
    }
    *word &= ~bit;
    entry->is_listed = true;
}

/* Frees the slot. An entry that waits in it is requested by name. */
static hvd_status_t evict(struct hvd_engine *e, struct hvd_set *set, uint32_t index,
                          struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    hvd_exec_plan_invalidate(set);
    set->own.changed = set->own.epoch;
    pthread_mutex_lock(&e->mu);
    struct hvd_cache_slot *slot = hvd_cache_at(set->locked.cache, index);
    struct hvd_entry *entry = slot ? hvd_cache_owner(set->locked.cache, index) : NULL;
    if (entry)
        st = hvd_table_add(set->locked.table, entry->request.name, entry, err);
    if (entry && st == HVD_OK) {
        requeue(e, set, entry, index);
        hvd_cache_own(set->locked.cache, index, NULL);
    }
    if (slot && st == HVD_OK) {
        hvd_entry_unsettle(e, slot);
        hvd_cache_remove(set->locked.cache, index);
    }
    pthread_mutex_unlock(&e->mu);
    return st;
}

/* Applies a step about one tensor. */
static hvd_status_t apply_tensor(struct hvd_engine *e, struct hvd_set *set,
                                 const struct hvd_step *step, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];
    struct found found;
    hvd_status_t st = take_named(e, set, step->name, &found, err);
    struct hvd_entry *entry = found.entry;

    if (found.is_refused)
        return st;
    if (!entry && found.is_join_pending) {
        const bool computes = step->kind == HVD_ALLREDUCE && step->count > 0;
        return computes ? agree(e, set, NULL, step, err) : HVD_OK;
    }
    if (!entry && step->kind == HVD_STEP_DROP)
        return HVD_OK;
    if (!entry)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "the plan has tensor %.*s, which this rank did not submit",
                        (int)step->name.len, step->name.data);
    if (step->kind == HVD_STEP_ERROR || step->kind == HVD_STEP_DROP) {
        snprintf(text, sizeof(text), "%.*s", (int)step->text.len, step->text.data);
        hvd_entry_finish_unlocked(e, entry, HVD_ERR_MISMATCH, text);
        return HVD_OK;
    }
    if (step->kind == HVD_JOIN) {
        end_join(e, set, entry, step);
        return HVD_OK;
    }
    if (step->kind != (int)entry->request.op)
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "the plan has an %s for tensor %s, which is an %s",
                      hvd_op_name(step->kind), entry->name, hvd_op_name((int)entry->request.op));
    else
        st = agree(e, set, entry, step, err);
    if (st != HVD_OK &&
        (set->own.n_agreed == 0 || set->own.agreed[set->own.n_agreed - 1].entry != entry))
        hvd_entry_finish_unlocked(e, entry, HVD_ERR_SHUTDOWN, err ? err->msg : "");
    return st;
}

/* Applies a step that concerns no tensor. */
static hvd_status_t apply_notice(struct hvd_engine *e, struct hvd_set *set,
                                 const struct hvd_step *step, struct hvd_err *err)
{
    char text[HVD_TEXT_MAX + 1];

    snprintf(text, sizeof(text), "%.*s", (int)step->text.len, step->text.data);
    if (step->kind == HVD_STEP_SHUTDOWN && set->id == 0)
        return hvd_job_end_pending(e, text, err);
    if (step->kind == HVD_STEP_SHUTDOWN)
        hvd_job_end_set(e, set, text);
    else if (step->kind == HVD_STEP_ABORT)
        hvd_job_end_abort(e, text);
    else
        e->own.is_down = true;
    return HVD_OK;
}

static hvd_status_t apply_step(struct hvd_engine *e, struct hvd_set *set,
                               const struct hvd_step *step, int64_t fusion, struct hvd_err *err)
{
    if (step->kind == HVD_STEP_EVICT)
        return evict(e, set, step->slot, err);
    if (step->kind < HVD_STEP_SHUTDOWN || step->kind > HVD_STEP_DOWN)
        return apply_tensor(e, set, step, err);
    hvd_status_t st = hvd_exec_plan_begin(e, set, fusion, err);
    return st == HVD_OK ? apply_notice(e, set, step, err) : st;
}

/* Ends the tensors that were agreed in a plan which could not be applied completely. */
static void drop_agreed(struct hvd_engine *e, struct hvd_set *set, const char *reason)
{
    for (uint32_t i = 0; i < set->own.n_agreed; i++)
        if (set->own.agreed[i].entry)
            hvd_entry_finish_unlocked(e, set->own.agreed[i].entry, HVD_ERR_SHUTDOWN, reason);
    hvd_exec_plan_forget(set);
}

/* Applies new values of the cycle time and the fusion threshold. Only the coordinator of all
 * ranks changes them. */
static void adopt(struct hvd_engine *e, const struct hvd_reader *plan)
{
    const int64_t cycle_ns = (int64_t)plan->cycle_us * 1000;

    if (plan->epoch == 0 ||
        (cycle_ns == e->options.cycle_ns && plan->fusion == e->options.fusion_bytes))
        return;
    pthread_mutex_lock(&e->mu);
    e->options.cycle_ns = cycle_ns;
    e->options.fusion_bytes = plan->fusion;
    pthread_mutex_unlock(&e->mu);
    hvd_log(e->options.log, HVD_LOG_INFO, "engine",
            "from plan %" PRIu64 " on the fusion threshold is %" PRId64
            " bytes and the cycle time %.3f ms",
            plan->epoch, plan->fusion, (double)plan->cycle_us / 1000);
}

hvd_status_t hvd_plan_apply(struct hvd_engine *e, struct hvd_set *set, struct hvd_reader reader,
                            struct hvd_err *err)
{
    struct hvd_step step;
    hvd_status_t st = HVD_OK;

    hvd_telemetry_plan(e->options.telemetry);
    /* Epoch 0 is the coordinator's final message, outside the sequence. */
    if (reader.epoch != 0 && reader.epoch != set->own.epoch + 1)
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "plan %llu follows plan %llu",
                      (unsigned long long)reader.epoch, (unsigned long long)set->own.epoch);
    if (st == HVD_OK)
        set->own.epoch = reader.epoch;
    if (st == HVD_OK && set->id == 0)
        adopt(e, &reader);
    if (st == HVD_OK && reader.n_words > 0)
        st = hvd_exec_plan_begin_bits(e, set, &reader, err);
    while (st == HVD_OK && reader.left > 0 && !e->own.is_aborted) {
        st = hvd_message_read_step(&reader, &step, err);
        if (st == HVD_OK)
            st = apply_step(e, set, &step, reader.fusion, err);
    }
    if (st == HVD_OK && !e->own.is_aborted)
        st = hvd_exec_plan_begin(e, set, reader.fusion, err);
    if (st == HVD_OK)
        return HVD_OK;
    drop_agreed(e, set, err ? err->msg : hvd_status_str(st));
    return HVD_WRAP(err, st, "plan");
}
