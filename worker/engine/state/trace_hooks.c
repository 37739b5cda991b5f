/*
 * What telemetry hears of cached tensors. The timeline hears of many at once, by their slots: one
 * event and one reading of the clock for a message, a plan or a collective, whatever the number of
 * tensors. The flight recorder, which is for the last events before a failure, hears of each. The
 * progress owner's.
 */
#include "worker/engine/state/engine_internal.h"

#define WORDS 64 /* handed over at once */

static unsigned what_is_on(const struct hvd_engine *e)
{
    return e->options.telemetry ? hvd_telemetry_on(e->options.telemetry) : 0;
}

static bool is_own(const struct hvd_request *request)
{
    return hvd_strview_equal(request->name, HVD_CHANGE_NAME);
}

/* Whether there is a timeline to tell; it knows the slots then. */
static bool has_timeline(struct hvd_engine *e, struct hvd_set *set)
{
    const uint32_t end = hvd_cache_end(set->cache);

    if (!(what_is_on(e) & HVD_TELEMETRY_TIMELINE))
        return false;
    const unsigned n_traced = hvd_telemetry_timelines(e->options.telemetry);
    if (set->n_traced == n_traced)
        return true;
    set->n_traced = n_traced;
    for (uint32_t i = 0; i < end; i++) {
        const struct hvd_cache_slot *slot = hvd_cache_at(set->cache, i);
        if (slot)
            hvd_trace_hooks_slot(e, set, slot);
    }
    return true;
}

void hvd_trace_hooks_slot(struct hvd_engine *e, struct hvd_set *set,
                          const struct hvd_cache_slot *slot)
{
    if ((what_is_on(e) & HVD_TELEMETRY_TIMELINE) &&
        set->n_traced == hvd_telemetry_timelines(e->options.telemetry) && !is_own(&slot->request))
        hvd_telemetry_record_slot(e->options.telemetry, set->id, slot->index, &slot->request);
}

void hvd_trace_hooks_requested(struct hvd_engine *e, struct hvd_set *set, const uint64_t *words,
                               uint32_t n_words)
{
    if (has_timeline(e, set))
        hvd_telemetry_record_slots(
            e->options.telemetry,
            &(struct hvd_trace_slots){
                .kind = HVD_EVENT_REQUESTED, .set = set->id, .n_words = n_words, .words = words});
}

/* The slots of a word that the message means: who sent it may not have known the last plans. */
static uint64_t meant(const struct hvd_set *set, const struct hvd_reader *bits, uint32_t w)
{
    uint64_t word = hvd_message_word(bits, w);

    for (uint64_t left = bits->epoch < set->changed ? word : 0; left != 0; left &= left - 1) {
        const uint32_t bit = (uint32_t)__builtin_ctzll(left);
        const struct hvd_cache_slot *slot = hvd_cache_at(set->cache, w * 64 + bit);
        if (!slot || slot->since > bits->epoch)
            word &= ~((uint64_t)1 << bit);
    }
    return word;
}

/* For the recorder. */
static void trace_each_ready(const struct hvd_engine *e, const struct hvd_set *set, int rank,
                             uint32_t w, uint64_t word)
{
    for (; word != 0; word &= word - 1) {
        const struct hvd_cache_slot *slot =
            hvd_cache_at(set->cache, w * 64 + (uint32_t)__builtin_ctzll(word));
        if (slot && !is_own(&slot->request))
            hvd_telemetry_ready(e->options.telemetry, rank, &slot->request, true);
    }
}

void hvd_trace_hooks_ready_bits(struct hvd_engine *e, struct hvd_set *set, int rank,
                                const struct hvd_reader *bits)
{
    const unsigned on = what_is_on(e);
    const bool is_drawn = on && has_timeline(e, set);
    uint64_t words[WORDS];

    for (uint32_t w = 0; on && w < bits->n_words; w++) {
        words[w % WORDS] = meant(set, bits, w);
        if (on & HVD_TELEMETRY_RECORDER)
            trace_each_ready(e, set, rank, w, words[w % WORDS]);
        if (!is_drawn || (w % WORDS != WORDS - 1 && w + 1 != bits->n_words))
            continue;
        hvd_telemetry_record_slots(e->options.telemetry,
                                   &(struct hvd_trace_slots){.kind = HVD_EVENT_READY,
                                                             .detail = rank,
                                                             .set = set->id,
                                                             .first = w - w % WORDS,
                                                             .n_words = w % WORDS + 1,
                                                             .words = words});
    }
}

/* Tells the timeline of the cached tensors of a fused operation that this rank has. */
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

void hvd_trace_hooks_agreed(struct hvd_engine *e, struct hvd_set *set,
                            const struct hvd_exec_plan *exec_plan)
{
    const unsigned on = what_is_on(e);
    const bool is_drawn = on && has_timeline(e, set);

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

void hvd_trace_hooks_started(struct hvd_engine *e, struct hvd_set *set,
                             const struct hvd_fused_op *f)
{
    const unsigned on = what_is_on(e);
    const bool is_cached = hvd_fused_op_is_cached(f);
    const char *transport = e->transport->ops->name;

    if (!on || f->is_second)
        return;
    if (is_cached && has_timeline(e, set))
        report_members(
            e, f,
            (struct hvd_trace_slots){.kind = HVD_EVENT_STARTED, .set = set->id, .text = transport});
    if (is_cached && !(on & HVD_TELEMETRY_RECORDER))
        return;
    for (uint32_t i = 0; i < f->n_members; i++)
        if (f->members[i].entry)
            hvd_telemetry_started(hvd_entry_telemetry(e, f->members[i].entry),
                                  (uint64_t)f->members[i].entry->handle,
                                  &f->members[i].entry->request, transport, is_cached);
}

void hvd_trace_hooks_ended(struct hvd_engine *e, const struct hvd_fused_op *f)
{
    struct hvd_set *set = NULL;

    for (uint32_t i = 0; i < f->n_members && !set; i++)
        set = f->members[i].entry ? f->members[i].entry->set : NULL;
    if (set && has_timeline(e, set))
        report_members(e, f, (struct hvd_trace_slots){.kind = HVD_EVENT_DONE, .set = set->id});
}

void hvd_trace_hooks_slot_ended(struct hvd_engine *e, const struct hvd_entry *entry,
                                hvd_status_t status)
{
    const uint64_t word = (uint64_t)1 << (entry->index % 64);

    if (entry->index != HVD_CACHE_NO_SLOT && !entry->changes_sets && has_timeline(e, entry->set))
        hvd_telemetry_record_slots(e->options.telemetry,
                                   &(struct hvd_trace_slots){.kind = HVD_EVENT_DONE,
                                                             .detail = (int32_t)status,
                                                             .set = entry->set->id,
                                                             .first = entry->index / 64,
                                                             .n_words = 1,
                                                             .words = &word});
}
