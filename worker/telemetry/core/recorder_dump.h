#ifndef HVD_WORKER_TELEMETRY_CORE_RECORDER_DUMP_H
#define HVD_WORKER_TELEMETRY_CORE_RECORDER_DUMP_H

#include "base/buf.h"
#include "worker/telemetry/core/event.h"

/* The head of a dump of the flight recorder. */
struct hvd_recorder_dump_head {
    int rank;
    int size;
    const char *why;
    const char *when; /* the time of the dump, readable */
    uint64_t n_events;
    uint64_t n_recorded; /* in all; the oldest are overwritten */
};

/* Appends the head of a dump. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_recorder_dump_add_head(const struct hvd_recorder_dump_head *head,
                                        struct hvd_buf *out);

/* Appends an event as a line; age_ns is its age at the dump. Failures as above. */
hvd_status_t hvd_recorder_dump_add(const struct hvd_note *note, int64_t age_ns,
                                   struct hvd_buf *out);

#endif
