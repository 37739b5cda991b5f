#ifndef HVD_WORKER_TELEMETRY_WRITER_H
#define HVD_WORKER_TELEMETRY_WRITER_H

#include "worker/telemetry/clock.h"
#include "worker/telemetry/telemetry.h"

/* The thread that formats and writes; see writer.c. */
struct hvd_writer;

/* What it works on; all but the strings' bytes borrowed for its life. */
struct hvd_writer_options {
    struct hvd_telemetry *telemetry;
    const struct hvd_clock *clock; /* the base of all times */
    int rank;
    int size;
    const char *host;              /* of this rank; NULL: not known */
    const char *program;           /* what it runs; NULL: not known */
    struct hvd_strview rank_hosts; /* see trace.h */
    bool has_timeline;             /* it may be opened */
    int64_t timeline_bytes;
    const char *metrics_file; /* NULL: none */
    const struct hvd_log *log;
};

/* A writer whose thread runs and sleeps. HVD_ERR_SYSTEM, HVD_ERR_NOMEM. */
hvd_status_t hvd_writer_create(const struct hvd_writer_options *options, struct hvd_writer **out,
                               struct hvd_err *err);

/* Ends the timeline, writes the last metrics, ends the thread; again: does nothing. */
void hvd_writer_stop(struct hvd_writer *writer);

/* Stops it and frees it. NULL is fine. */
void hvd_writer_destroy(struct hvd_writer *writer);

/* Starts a timeline into that file; the writer was not stopped and has_timeline. Failures as
 * hvd_telemetry_start_timeline. Any thread. */
hvd_status_t hvd_writer_open(struct hvd_writer *writer, const char *path, bool marks_cycles,
                             struct hvd_err *err);

/* Ends the timeline, and returns when its file is complete. Any thread. */
void hvd_writer_close(struct hvd_writer *writer);

/* Whether a record of n events of cached tensors may be put; else they count as dropped: taking
 * them apart takes longer than recording them, so that the ring's size does not bound the work. Any
 * thread. */
bool hvd_writer_admit(struct hvd_writer *w, uint64_t n);

/* Puts an event; drops it when there is no room. Any thread. */
void hvd_writer_put(struct hvd_writer *writer, const struct hvd_event *event, const int64_t *shape,
                    const char *name);

/* Events put and dropped. Any thread. */
void hvd_writer_count(const struct hvd_writer *writer, uint64_t *n_events, uint64_t *n_dropped);

/* The writer sleeps without end, and something happens: it shall look. Any thread. */
void hvd_writer_wake(struct hvd_writer *writer);

#endif
