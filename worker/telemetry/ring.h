#ifndef HVD_WORKER_TELEMETRY_RING_H
#define HVD_WORKER_TELEMETRY_RING_H

#include "worker/telemetry/core/event.h"

/*
 * A queue of events to the thread that formats them. Any number of threads put without a lock; one
 * thread takes. If the ring is full, the event is dropped and counted: recording never waits.
 */
struct hvd_ring;

/* Creates a ring of n_cells (a power of 2) of 64 bytes. An event takes one cell, more with a long
 * name or shape. HVD_ERR_NOMEM. */
hvd_status_t hvd_ring_create(uint64_t n_cells, struct hvd_ring **out);

/* Frees the ring, with the events in it. NULL is fine. */
void hvd_ring_destroy(struct hvd_ring *ring);

/* Puts an event; shape has event->ndim sizes, name event->name_len bytes. Returns false if the ring
 * was full. Sets *wants_reader (never clears it) when another quarter of the ring is full. Any
 * thread. */
bool hvd_ring_put(struct hvd_ring *ring, const struct hvd_event *event, const int64_t *shape,
                  const char *name, bool *wants_reader);

/* Takes the oldest event; false if the ring is empty. Only the reader's thread. */
bool hvd_ring_take(struct hvd_ring *ring, struct hvd_note *note);

/* Returns the number of events dropped since the creation. Any thread. */
uint64_t hvd_ring_dropped(const struct hvd_ring *ring);

#endif
