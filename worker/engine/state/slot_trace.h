#ifndef HVD_WORKER_ENGINE_STATE_SLOT_TRACE_H
#define HVD_WORKER_ENGINE_STATE_SLOT_TRACE_H

#include "worker/engine/state/state.h"

/*
 * What the timeline and the recorder hear of cached tensors. Caller is the progress owner.
 */

/* A tensor is in a slot from now on. */
void hvd_slot_trace_put(struct hvd_engine *e, struct hvd_set *set,
                        const struct hvd_cache_slot *slot);

/* Cached tensors were requested here. */
void hvd_slot_trace_requested(struct hvd_engine *e, struct hvd_set *set, const uint64_t *words,
                              uint32_t n_words);

/* The coordinator has heard that a rank of the job requests cached tensors. */
void hvd_slot_trace_ready(struct hvd_engine *e, struct hvd_set *set, int rank,
                          const struct hvd_reader *bits);

/* A cached tensor has ended. */
void hvd_slot_trace_ended(struct hvd_engine *e, const struct hvd_entry *entry, hvd_status_t status);

/* Whether there is a timeline to tell; it knows the slots then. */
bool hvd_slot_trace_is_drawn(struct hvd_engine *e, struct hvd_set *set);

/* What telemetry is on: HVD_TELEMETRY_ bits. */
static inline unsigned hvd_slot_trace_on(const struct hvd_engine *e)
{
    return e->options.telemetry ? hvd_telemetry_on(e->options.telemetry) : 0;
}

#endif
