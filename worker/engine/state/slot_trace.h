#ifndef HVD_WORKER_ENGINE_STATE_SLOT_TRACE_H
#define HVD_WORKER_ENGINE_STATE_SLOT_TRACE_H

#include "worker/engine/state/state.h"

/*
 * Trace events of cached tensors, for timeline and recorder. Only the progress owner calls these
 * functions.
 */

/* Reports that a tensor got a slot. */
void hvd_slot_trace_put(struct hvd_engine *e, struct hvd_set *set,
                        const struct hvd_cache_slot *slot);

/* Reports that cached tensors were requested here. */
void hvd_slot_trace_requested(struct hvd_engine *e, struct hvd_set *set, const uint64_t *words,
                              uint32_t n_words);

/* Reports on the coordinator that a rank of the job has requested cached tensors. */
void hvd_slot_trace_ready(struct hvd_engine *e, struct hvd_set *set, int rank,
                          const struct hvd_reader *bits);

/* Reports that a cached tensor has ended. */
void hvd_slot_trace_ended(struct hvd_engine *e, const struct hvd_entry *entry, hvd_status_t status);

/* Whether there is a timeline; reports the slots to a new one first. */
bool hvd_slot_trace_is_drawn(struct hvd_engine *e, struct hvd_set *set);

/* Returns the enabled parts of telemetry, as HVD_TELEMETRY_ bits. */
static inline unsigned hvd_slot_trace_on(const struct hvd_engine *e)
{
    return e->options.telemetry ? hvd_telemetry_on(e->options.telemetry) : 0;
}

#endif
