#ifndef HVD_WORKER_TELEMETRY_RECORDER_H
#define HVD_WORKER_TELEMETRY_RECORDER_H

#include "worker/telemetry/core/event.h"

/* The number of events that the recorder keeps, and the bytes of a name. */
#define HVD_RECORDER_EVENTS 1024
#define HVD_RECORDER_NAME 88

/* The last events of a rank; new ones overwrite the oldest. Any thread may record, and any thread
 * may read at the same time. */
struct hvd_recorder;

/* Creates an empty recorder. HVD_ERR_NOMEM. */
hvd_status_t hvd_recorder_create(struct hvd_recorder **out);

/* Frees the recorder. NULL is fine. */
void hvd_recorder_destroy(struct hvd_recorder *recorder);

/* Records the event; of a long name the beginning and the end. */
void hvd_recorder_put(struct hvd_recorder *recorder, const struct hvd_event *event,
                      const char *name);

/* Returns how many events were ever recorded. */
uint64_t hvd_recorder_count(const struct hvd_recorder *recorder);

/* Stores the event with that number (from 0), without its shape, in *note. Returns false if it is
 * overwritten, or being written now. */
bool hvd_recorder_get(const struct hvd_recorder *recorder, uint64_t number, struct hvd_note *note);

#endif
