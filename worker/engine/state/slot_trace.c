/*
 * Trace events of cached tensors. The timeline gets many at once, by their slots. A message, plan
 * or collective needs one event and one reading of the clock, whatever the number of tensors. The
 * flight recorder is for the last events before a failure, and gets one for each tensor. Runs in
 * the progress owner.
 */
#include "worker/engine/state/slot_trace.h"

#define WORDS 64 /* maximum number of words in one report */

static bool is_own(const struct hvd_request *request)
{
    return hvd_strview_equal(request->name, HVD_CHANGE_NAME);
}

bool hvd_slot_trace_is_drawn(struct hvd_engine *e, struct hvd_set *set)
{
    const uint32_t end = hvd_cache_end(set->locked.cache);

    if (!(hvd_slot_trace_on(e) & HVD_TELEMETRY_TIMELINE))
        return false;
    const unsigned n_traced = hvd_telemetry_timelines(e->options.telemetry);
    if (set->own.n_traced == n_traced)
        return true;
    set->own.n_traced = n_traced;
    for (uint32_t i = 0; i < end; i++) {
        const struct hvd_cache_slot *slot = hvd_cache_at(set->locked.cache, i);
        if (slot)
            hvd_slot_trace_put(e, set, slot);
    }
    return true;
}

void hvd_slot_trace_put(struct hvd_engine *e, struct hvd_set *set,
                        const struct hvd_cache_slot *slot)
{
    if ((hvd_slot_trace_on(e) & HVD_TELEMETRY_TIMELINE) &&
        set->own.n_traced == hvd_telemetry_timelines(e->options.telemetry) &&
        !is_own(&slot->request))
        hvd_telemetry_record_slot(e->options.telemetry, set->id, slot->index, &slot->request);
}

void hvd_slot_trace_requested(struct hvd_engine *e, struct hvd_set *set, const uint64_t *words,
                              uint32_t n_words)
{
    if (hvd_slot_trace_is_drawn(e, set))
        hvd_telemetry_record_slots(
            e->options.telemetry,
            &(struct hvd_trace_slots){
                .kind = HVD_EVENT_REQUESTED, .set = set->id, .n_words = n_words, .words = words});
}

/* Returns the slots of a word that still have the meaning which the message's epoch gave them.
 * Its sender may not have had the latest plans. */
static uint64_t meant(const struct hvd_set *set, const struct hvd_reader *bits, uint32_t w)
{
    uint64_t word = hvd_message_word(bits, w);

    for (uint64_t left = bits->epoch < set->own.changed ? word : 0; left != 0; left &= left - 1) {
        const uint32_t bit = (uint32_t)__builtin_ctzll(left);
        const struct hvd_cache_slot *slot = hvd_cache_at(set->locked.cache, w * 64 + bit);
        if (!slot || slot->since > bits->epoch)
            word &= ~((uint64_t)1 << bit);
    }
    return word;
}

/* Reports each slot to the recorder. */
static void trace_each_ready(const struct hvd_engine *e, const struct hvd_set *set, int rank,
                             uint32_t w, uint64_t word)
{
    for (; word != 0; word &= word - 1) {
        const struct hvd_cache_slot *slot =
            hvd_cache_at(set->locked.cache, w * 64 + (uint32_t)__builtin_ctzll(word));
        if (slot && !is_own(&slot->request))
            hvd_telemetry_ready(e->options.telemetry, rank, &slot->request, true);
    }
}

void hvd_slot_trace_ready(struct hvd_engine *e, struct hvd_set *set, int rank,
                          const struct hvd_reader *bits)
{
    const unsigned on = hvd_slot_trace_on(e);
    const bool is_drawn = on && hvd_slot_trace_is_drawn(e, set);
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

void hvd_slot_trace_ended(struct hvd_engine *e, const struct hvd_entry *entry, hvd_status_t status)
{
    const uint64_t word = (uint64_t)1 << (entry->index % 64);

    if (entry->index != HVD_CACHE_NO_SLOT && !entry->is_own &&
        hvd_slot_trace_is_drawn(e, entry->set))
        hvd_telemetry_record_slots(e->options.telemetry,
                                   &(struct hvd_trace_slots){.kind = HVD_EVENT_DONE,
                                                             .detail = (int32_t)status,
                                                             .set = entry->set->id,
                                                             .first = entry->index / 64,
                                                             .n_words = 1,
                                                             .words = &word});
}
