/*
 * Trace events of execution plans and fused operations. Cached tensors are reported by their slots,
 * many at once: see slot_trace.c. Runs in the progress owner.
 */
#include "worker/engine/execute/op_trace.h"

#include <stdio.h>

#include "worker/engine/state/slot_trace.h"

#define WORDS 64 /* maximum number of words in one report */

/* Reports those cached tensors of a fused operation that this rank has to the timeline. */
static void report_members(const struct hvd_engine *e, const struct hvd_fused_op *f,
                           struct hvd_trace_slots seen)
{
    uint64_t words[WORDS];

    seen.words = words;
    for (uint32_t i = 0; i < f->n_members; i++) {
        const uint32_t word = f->members[i].slot / 64;
        if (!f->members[i].entry)
            continue;
        if (seen.n_words > 0 && (word < seen.first || word >= seen.first + WORDS)) {
            hvd_telemetry_record_slots(e->options.telemetry, &seen);
            seen.n_words = 0;
        }
        if (seen.n_words == 0)
            seen.first = word;
        while (seen.n_words <= word - seen.first)
            words[seen.n_words++] = 0;
        words[word - seen.first] |= (uint64_t)1 << (f->members[i].slot % 64);
    }
    if (seen.n_words > 0)
        hvd_telemetry_record_slots(e->options.telemetry, &seen);
}

void hvd_op_trace_agreed(struct hvd_engine *e, struct hvd_set *set,
                         const struct hvd_exec_plan *exec_plan)
{
    const unsigned on = hvd_slot_trace_on(e);
    const bool is_drawn = on && hvd_slot_trace_is_drawn(e, set);

    for (uint32_t i = 0; on && i < exec_plan->n_fused_ops; i++) {
        const struct hvd_fused_op *f = &exec_plan->fused_ops[i];
        if (is_drawn)
            report_members(e, f,
                           (struct hvd_trace_slots){.kind = HVD_EVENT_AGREED, .set = set->id});
        for (uint32_t m = 0; (on & HVD_TELEMETRY_RECORDER) && m < f->n_members; m++)
            if (f->members[m].entry)
                hvd_telemetry_agreed(hvd_entry_telemetry(e, f->members[m].entry),
                                     (uint64_t)f->members[m].entry->handle,
                                     &f->members[m].entry->request, true);
    }
}

void hvd_op_trace_started(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f)
{
    if (!f->is_second)
        hvd_op_trace_moves(e, set, f, e->transport->ops->name, f->request.op);
}

void hvd_op_trace_moves(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f,
                        const char *by, enum hvd_op op)
{
    const unsigned on = hvd_slot_trace_on(e);
    const bool is_cached = hvd_fused_op_is_cached(f);
    char name[HVD_TELEMETRY_TEXT_MAX];

    if (!on)
        return;
    /* a step that is another operation has its whole name */
    snprintf(name, sizeof(name), op == f->request.op ? "%s" : "%s_%s", by, hvd_op_name((int)op));
    if (is_cached && hvd_slot_trace_is_drawn(e, set))
        report_members(
            e, f,
            (struct hvd_trace_slots){.kind = HVD_EVENT_STARTED, .set = set->id, .text = name});
    if (is_cached && !(on & HVD_TELEMETRY_RECORDER))
        return;
    for (uint32_t i = 0; i < f->n_members; i++)
        if (f->members[i].entry)
            hvd_telemetry_started(hvd_entry_telemetry(e, f->members[i].entry),
                                  (uint64_t)f->members[i].entry->handle,
                                  &f->members[i].entry->request, name, is_cached);
}

void hvd_op_trace_ended(struct hvd_engine *e, const struct hvd_fused_op *f)
{
    struct hvd_set *set = NULL;

    for (uint32_t i = 0; i < f->n_members && !set; i++)
        set = f->members[i].entry ? f->members[i].entry->set : NULL;
    if (set && hvd_slot_trace_is_drawn(e, set))
        report_members(e, f, (struct hvd_trace_slots){.kind = HVD_EVENT_DONE, .set = set->id});
}
