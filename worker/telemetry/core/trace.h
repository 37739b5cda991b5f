#ifndef HVD_WORKER_TELEMETRY_CORE_TRACE_H
#define HVD_WORKER_TELEMETRY_CORE_TRACE_H

#include "base/buf.h"
#include "base/str.h"
#include "worker/telemetry/core/event.h"

/*
 * Converts events to the records of Horovod's timeline (Chrome's trace event format). Each tensor
 * is a process of the trace, which holds
 *
 *     NEGOTIATE_ALLREDUCE  from the tensor's first event to the plan, a tick per rank
 *     ALLREDUCE            from the plan to the end; in it QUEUE, then MPI_ALLREDUCE (SHM_, ...)
 *
 * Phases that the program marks are in the process of the rank itself.
 *
 * Appends every record to a buffer as one line of JSON. Lost events still leave a balanced trace,
 * because open records are closed before the tensor's next life.
 */
struct hvd_trace;

/* How deep phases may be nested, and the bytes of a name. Deeper ones are omitted, longer names
 * cut. */
#define HVD_TRACE_PHASES_MAX 8
#define HVD_TRACE_PHASE_BYTES 32

/* Beyond this number, new names share one process, so that a program that invents names for ever
 * does not fill the memory. */
#define HVD_TRACE_LANES_MAX 65536

struct hvd_trace_options {
    int64_t start_unix_us; /* the start of the trace, which is 0 in its records */
    int rank;
    int size;            /* ranks of the job; 0: not known */
    const char *host;    /* of the writer; NULL or empty: not known. Borrowed */
    const char *program; /* that the writer runs; as host */
    struct hvd_strview
        rank_hosts;    /* records of all hosts, see rank_hosts.h; may be empty; borrowed */
    bool marks_cycles; /* a CYCLE_START for every plan */
};

/* Creates a trace without tensors. HVD_ERR_NOMEM. */
hvd_status_t hvd_trace_create(const struct hvd_trace_options *options, struct hvd_trace **out);

/* Frees the trace. NULL is fine. */
void hvd_trace_destroy(struct hvd_trace *trace);

/* Appends the records that open a file, and forgets all tensors: the new file names them again.
 * HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_trace_open(struct hvd_trace *trace, struct hvd_buf *lines);

/* Appends the records of an event, none or several; ns is its time since the start. On
 * HVD_ERR_NOMEM and HVD_ERR_TOO_LARGE some are missing. */
hvd_status_t hvd_trace_add(struct hvd_trace *trace, const struct hvd_note *note, int64_t ns,
                           struct hvd_buf *lines);

/* Appends the end of every open record. So a timeline is balanced, even if it ends or is rotated
 * while tensors move. These ends are marked "unfinished". Failures as above. */
hvd_status_t hvd_trace_close(struct hvd_trace *trace, int64_t ns, struct hvd_buf *lines);

/* Appends a record that n events before this time are missing. Failures as above. */
hvd_status_t hvd_trace_add_dropped(struct hvd_trace *trace, uint64_t n, int64_t ns,
                                   struct hvd_buf *lines);

#endif
