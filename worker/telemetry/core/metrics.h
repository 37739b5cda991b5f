#ifndef HVD_WORKER_TELEMETRY_CORE_METRICS_H
#define HVD_WORKER_TELEMETRY_CORE_METRICS_H

#include "base/buf.h"
#include "worker/core/types.h"

#define HVD_TELEMETRY_OPS 8 /* by enum hvd_op; 4 is unused */

/* The counters of one rank since its start. */
struct hvd_counts {
    uint64_t submitted;
    uint64_t completed;                  /* tensors that succeeded */
    uint64_t failed;                     /* tensors that failed */
    uint64_t tensors[HVD_TELEMETRY_OPS]; /* completed, by operation */
    uint64_t bytes[HVD_TELEMETRY_OPS];   /* of this rank's inputs, completed, by operation */
    uint64_t plans;
    uint64_t plan_hits;   /* of cached tensors whose layout was cached */
    uint64_t plan_misses; /* the same with a new layout */
    uint64_t flights;     /* collectives in which agreed tensors moved */
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t message_bytes_sent;
    uint64_t message_bytes_received;
    uint64_t sleeps;       /* how often a progress owner had no work for so long that it slept */
    uint64_t idle_wakeups; /* of the background thread without work */
    uint64_t stall_warnings;
    uint64_t ranks_lost;
    uint64_t job_failures;
    uint64_t timeline_events;
    uint64_t timeline_dropped;
};

/* Appends the counts in the text format of Prometheus, labelled with the rank. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_metrics_encode(const struct hvd_counts *counts, int rank, struct hvd_buf *out);

#endif
