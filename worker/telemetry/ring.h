#ifndef HVD_WORKER_TELEMETRY_RING_H
#define HVD_WORKER_TELEMETRY_RING_H

#include "worker/telemetry/core/event.h"

/*
 * Events on their way to the thread that formats them. Any number of threads put without a lock;
 * one takes. An event that finds the ring full is dropped and counted: recording never waits.
 */
struct hvd_ring;

/* A ring of n_cells (a power of 2) of 64 bytes; an event takes one, more with a long name or shape.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_ring_create(uint64_t n_cells, struct hvd_ring **out);

/* Frees the ring, with the events in it. NULL is fine. */
void hvd_ring_destroy(struct hvd_ring *ring);

/* Puts an event; shape has event->ndim sizes, name event->name_len bytes. False when the ring was
 * full. *wants_reader (never cleared): a further quarter of the ring was filled. Any thread. */
bool hvd_ring_put(struct hvd_ring *ring, const struct hvd_event *event, const int64_t *shape,
                  const char *name, bool *wants_reader);

/* Takes the oldest event; false when there is none. The reader's thread alone. */
bool hvd_ring_take(struct hvd_ring *ring, struct hvd_note *note);

/* Events dropped since the creation. Any thread. */
uint64_t hvd_ring_dropped(const struct hvd_ring *ring);

#endif
