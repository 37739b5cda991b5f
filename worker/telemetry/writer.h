#ifndef HVD_WORKER_TELEMETRY_WRITER_H
#define HVD_WORKER_TELEMETRY_WRITER_H

#include "worker/telemetry/clock.h"
#include "worker/telemetry/telemetry.h"

/* The thread that formats and writes; see writer.c. */
struct hvd_writer;

/* The arguments of a writer. It borrows them for its life, except metrics_file, which it copies. */
struct hvd_writer_options {
    struct hvd_telemetry *telemetry;
    const struct hvd_clock *clock; /* the base of all times */
    int rank;
    int size;
    const char *host;              /* of this rank; NULL: not known */
    const char *program;           /* that this rank runs; NULL: not known */
    struct hvd_strview rank_hosts; /* see trace.h */
    bool has_timeline;             /* it may be opened */
    int64_t timeline_bytes;
    const char *metrics_file; /* NULL: none */
    const struct hvd_log *log;
};

/* Creates a writer. Its thread runs and sleeps. HVD_ERR_SYSTEM, HVD_ERR_NOMEM. */
hvd_status_t hvd_writer_create(const struct hvd_writer_options *options, struct hvd_writer **out,
                               struct hvd_err *err);

/* Ends the timeline, writes the last metrics, ends the thread. A second call does nothing. */
void hvd_writer_stop(struct hvd_writer *writer);

/* Stops the writer and frees it. NULL is fine. */
void hvd_writer_destroy(struct hvd_writer *writer);

/* Starts a timeline into that file. Requires has_timeline, and a writer that was not stopped.
 * Failures as hvd_telemetry_start_timeline. Any thread. */
hvd_status_t hvd_writer_open(struct hvd_writer *writer, const char *path, bool marks_cycles,
                             struct hvd_err *err);

/* Ends the timeline, and returns when its file is complete. Any thread. */
void hvd_writer_close(struct hvd_writer *writer);

/* Returns whether the caller may put a record of n events of cached tensors; otherwise counts them
 * as dropped. Splitting such a record takes longer than recording it, so the ring's size does not
 * bound the work. Any thread. */
bool hvd_writer_admit(struct hvd_writer *w, uint64_t n);

/* Puts an event; drops it if the ring is full. Any thread. */
void hvd_writer_put(struct hvd_writer *writer, const struct hvd_event *event, const int64_t *shape,
                    const char *name);

/* Returns how many events were put and dropped. Any thread. */
void hvd_writer_count(const struct hvd_writer *writer, uint64_t *n_events, uint64_t *n_dropped);

/* Wakes a writer that sleeps without a limit. Any thread. */
void hvd_writer_wake(struct hvd_writer *writer);

#endif
