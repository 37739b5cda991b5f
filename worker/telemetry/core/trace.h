#ifndef HVD_WORKER_TELEMETRY_CORE_TRACE_H
#define HVD_WORKER_TELEMETRY_CORE_TRACE_H

#include "base/buf.h"
#include "base/str.h"
#include "worker/telemetry/core/event.h"

/*
 * Turns events into the records of Horovod's timeline (Chrome's trace event format): each tensor is
 * a process of the trace, in it
 *
 *     NEGOTIATE_ALLREDUCE  from the first that is known of it to the plan, a tick per rank
 *     ALLREDUCE            from the plan to the end; in it QUEUE, then MPI_ALLREDUCE (SHM_, ...)
 *
 * Phases of the program that it marks are in the process of the rank itself.
 *
 * Every record is appended to a buffer as one line of JSON. Events that were lost leave a trace
 * that is still balanced: what is open is closed before the tensor's next life.
 */
struct hvd_trace;

/* How many phases may lie in each other, and bytes of a name; more are left out, and cut. */
#define HVD_TRACE_PHASES_MAX 8
#define HVD_TRACE_PHASE_BYTES 32

/* From how many names on new ones share one process, so that a program that makes up names without
 * end does not fill the memory. */
#define HVD_TRACE_LANES_MAX 65536

struct hvd_trace_options {
    int64_t start_unix_us; /* when the trace begins, which is 0 in its records */
    int rank;
    int size;            /* ranks of the job; 0: not known */
    const char *host;    /* of the writer; NULL or empty: not known. Borrowed for its life */
    const char *program; /* what it runs; the same */
    struct hvd_strview
        rank_hosts;    /* records of all hosts, see rank_hosts.h; may be empty; borrowed */
    bool marks_cycles; /* a CYCLE_START for every plan */
};

/* A trace without tensors. HVD_ERR_NOMEM. */
hvd_status_t hvd_trace_create(const struct hvd_trace_options *options, struct hvd_trace **out);

/* NULL is fine. */
void hvd_trace_destroy(struct hvd_trace *trace);

/* Appends the records that open a file, and forgets all tensors: they are named anew in it.
 * HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_trace_open(struct hvd_trace *trace, struct hvd_buf *lines);

/* Appends the records of an event, none or several; ns is its time since the start. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE: some are missing. */
hvd_status_t hvd_trace_add(struct hvd_trace *trace, const struct hvd_note *note, int64_t ns,
                           struct hvd_buf *lines);

/* Appends the end of everything that is open: a timeline may be ended, or set aside, while tensors
 * are on their way, and is balanced all the same. Ends that nothing ended say "unfinished".
 * Failures as above. */
hvd_status_t hvd_trace_close(struct hvd_trace *trace, int64_t ns, struct hvd_buf *lines);

/* Appends a record that says that n events before this time are missing. Failures as above. */
hvd_status_t hvd_trace_add_dropped(struct hvd_trace *trace, uint64_t n, int64_t ns,
                                   struct hvd_buf *lines);

#endif
