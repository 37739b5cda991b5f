/*
 * The thread that writes the timeline and the metrics file. It reads the ring every ROUND_NS while
 * there is a timeline, and every METRICS_ROUND_NS otherwise, until there was no event for
 * QUIET_ROUNDS. Then it sets HVD_TELEMETRY_WAKE and reads on for as long again: a hook that did not
 * see the flag yet has put its event by then. Then it sleeps until a hook wakes it, so an idle job
 * costs nothing.
 *
 * Only the thread uses trace, file and lines while is_open; the caller of open sets them up before.
 * Lock order: life before mu.
 */
#include "worker/telemetry/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/telemetry/core/trace.h"
#include "worker/telemetry/ring.h"
#include "worker/telemetry/tracefile.h"

#define RING_CELLS ((uint64_t)1 << 17)
#define ROUND_NS 20000000
#define METRICS_ROUND_NS 500000000
#define METRICS_EVERY_NS 2000000000
#define QUIET_ROUNDS 10
#define LINES_FLUSH ((size_t)256 * 1024)
#define LINES_MAX ((size_t)16 * 1024 * 1024)
#define PATH_BYTES 1200
#define DRAIN_MAX ((uint64_t)1 << 13) /* a few milliseconds' work */
#define NICE_WRITER 15
#define PENDING_MAX ((uint64_t)1 << 18) /* events of cached tensors; a tenth of a second's work */

struct hvd_writer {
    struct hvd_writer_options options;
    char path[PATH_BYTES]; /* guarded by mu: of the timeline */
    char metrics_file[PATH_BYTES];
    struct hvd_ring *ring; /* owned; constant */
    pthread_t thread;
    pid_t tid;            /* the thread's, from its first round on; guarded by mu */
    int nice;             /* as it was when the thread began; the same */
    pthread_mutex_t life; /* one open, close or stop at a time */
    bool has_thread;      /* guarded by life */
    pthread_mutex_t mu;
    pthread_cond_t cond;   /* the thread waits for work */
    pthread_cond_t closed; /* others wait for the end of a timeline */
    /* guarded by mu */
    bool must_stop;
    bool must_close;
    bool is_open;
    bool is_kicked;
    atomic_uint_fast64_t n_events;
    /* events of cached tensors, of which a slot of the ring holds many */
    atomic_uint_fast64_t n_pending;
    atomic_uint_fast64_t n_refused;
    atomic_bool is_flooded; /* admits none before half of the pending ones are written */
    /* the thread's while is_open */
    struct hvd_trace *trace;
    struct hvd_tracefile file;
    struct hvd_buf lines;
    struct hvd_clock clock;
    uint64_t start_ticks;
    int64_t last_ns;
    uint64_t n_dropped; /* already reported in the timeline */
    /* the thread's */
    struct hvd_counts written;
    int64_t metrics_at_ns;
    int n_quiet;
};

static int64_t now_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Sets the priority of the thread. In general the writer uses only spare processor time; where
 * there is none, it gets about a 28th of the ranks' time. (SCHED_IDLE would give it next to nothing
 * there, and only privileged processes may leave that class.) While another thread waits for the
 * end of a timeline, the writer gets the ranks' priority, unless the system refuses that. */
static void set_urgent(struct hvd_writer *w, bool is_urgent)
{
    (void)setpriority(PRIO_PROCESS, (id_t)w->tid, w->nice + (is_urgent ? 0 : NICE_WRITER));
}

/* --- The timeline ----------------------------------------------------------------------------- */

static hvd_status_t flush(struct hvd_writer *w, struct hvd_err *err)
{
    hvd_status_t st = hvd_tracefile_add(&w->file, w->lines.data, w->lines.len, err);

    hvd_buf_reset(&w->lines);
    return st;
}

/* Ends the file, with all events balanced. */
static hvd_status_t close_file(struct hvd_writer *w, struct hvd_err *err)
{
    struct hvd_err ignored = {0};
    hvd_status_t st = HVD_OK;

    if (w->file.fd < 0)
        return HVD_OK;
    if (hvd_trace_close(w->trace, w->last_ns, &w->lines) == HVD_OK)
        st = flush(w, err);
    const hvd_status_t closed = hvd_tracefile_close(&w->file, st == HVD_OK ? err : &ignored);
    return st == HVD_OK ? closed : st;
}

/* Renames a file that has grown too large to PATH.1, and begins a new one. */
static hvd_status_t rotate(struct hvd_writer *w, struct hvd_err *err)
{
    char aside[PATH_BYTES + 2];
    hvd_status_t st = close_file(w, err);

    snprintf(aside, sizeof(aside), "%s.1", w->path);
    if (st == HVD_OK && rename(w->path, aside) != 0)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "renaming %s: %s", w->path, strerror(errno));
    if (st == HVD_OK)
        st = hvd_tracefile_open(&w->file, w->path, w->options.timeline_bytes, err);
    if (st == HVD_OK)
        st = hvd_trace_open(w->trace, &w->lines);
    return st == HVD_OK ? flush(w, err) : st;
}

static uint64_t count_dropped(const struct hvd_writer *w)
{
    return hvd_ring_dropped(w->ring) + atomic_load_explicit(&w->n_refused, memory_order_relaxed);
}

bool hvd_writer_admit(struct hvd_writer *w, uint64_t n)
{
    const uint64_t n_pending = atomic_load_explicit(&w->n_pending, memory_order_relaxed);

    if (n_pending > PENDING_MAX)
        atomic_store_explicit(&w->is_flooded, true, memory_order_relaxed);
    if (atomic_load_explicit(&w->is_flooded, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&w->n_refused, n, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add_explicit(&w->n_pending, n, memory_order_relaxed);
    return true;
}

/* Takes the events of a record that left the ring off the pending ones. */
static void let_go(struct hvd_writer *w, const struct hvd_note *note)
{
    const uint64_t n = hvd_event_count_slots(&note->event, note->name);

    if (n == 0)
        return;
    const uint64_t left = atomic_fetch_sub_explicit(&w->n_pending, n, memory_order_relaxed) - n;
    if (left < PENDING_MAX / 2 && atomic_load_explicit(&w->is_flooded, memory_order_relaxed))
        atomic_store_explicit(&w->is_flooded, false, memory_order_relaxed);
}

/* Writes the lines to the file, and rotates a file that is too large. A device does not rotate. */
static hvd_status_t write_lines(struct hvd_writer *w, struct hvd_err *err)
{
    const int64_t most = w->options.timeline_bytes;
    hvd_status_t st = flush(w, err);

    return st == HVD_OK && most > 0 && !w->file.is_plain && w->file.at > most ? rotate(w, err) : st;
}

/* Adds an event as a line. */
static hvd_status_t add_event(struct hvd_writer *w, const struct hvd_note *note, int64_t ns,
                              struct hvd_err *err)
{
    const int64_t part = w->options.timeline_bytes / 8; /* a file exceeds its limit by so much */
    const size_t flush_at = part > 0 && part < (int64_t)LINES_FLUSH ? (size_t)part : LINES_FLUSH;

    if (ns > w->last_ns)
        w->last_ns = ns;
    /* If memory runs out, this record is missing, but the next one may fit again. */
    if (hvd_trace_add(w->trace, note, w->last_ns, &w->lines) != HVD_OK || w->lines.len < flush_at)
        return HVD_OK;
    return write_lines(w, err);
}

/* Writes the events in the ring to the file, but at most DRAIN_MAX: it would never end if ranks are
 * as fast as the writer. *found: how many events. */
static hvd_status_t drain(struct hvd_writer *w, uint64_t *found, struct hvd_err *err)
{
    struct hvd_note note;
    hvd_status_t st = HVD_OK;

    hvd_clock_sync(&w->clock);
    const int64_t start_ns = hvd_clock_since_base(&w->clock, w->start_ticks);
    while (st == HVD_OK && *found < DRAIN_MAX && hvd_ring_take(w->ring, &note)) {
        let_go(w, &note);
        (*found)++;
        st = add_event(w, &note, hvd_clock_since_base(&w->clock, note.event.ticks) - start_ns, err);
    }
    const uint64_t n_dropped = count_dropped(w);
    if (n_dropped > w->n_dropped &&
        hvd_trace_add_dropped(w->trace, n_dropped - w->n_dropped, w->last_ns, &w->lines) == HVD_OK)
        w->n_dropped = n_dropped;
    return st == HVD_OK && w->lines.len > 0 ? write_lines(w, err) : st;
}

/* Ends the file. Does not hold mu; is_open still holds. */
static void end_timeline(struct hvd_writer *w)
{
    struct hvd_err err = {0};

    atomic_fetch_and(&w->options.telemetry->_on, ~HVD_TELEMETRY_TIMELINE);
    if (close_file(w, &err) != HVD_OK)
        hvd_log(w->options.log, HVD_LOG_ERROR, "timeline", "%s: %s", w->path, err.msg);
    hvd_trace_destroy(w->trace);
    w->trace = NULL;
    hvd_buf_fini(&w->lines);
}

/* Writes the events of one round; returns how many there were. Does not hold mu. */
static uint64_t write_events(struct hvd_writer *w, bool must_close, bool *ended)
{
    struct hvd_err err = {0};
    uint64_t found = 0;
    hvd_status_t st = drain(w, &found, &err);

    if (st != HVD_OK)
        hvd_log(w->options.log, HVD_LOG_ERROR, "timeline", "%s ends here: %s", w->path, err.msg);
    *ended = (must_close && found < DRAIN_MAX) || st != HVD_OK;
    if (*ended)
        end_timeline(w);
    atomic_fetch_add_explicit(&w->n_events, found, memory_order_relaxed);
    return found;
}

/* Drops the events that were put after the end of the last timeline. */
static void empty_ring(struct hvd_writer *w)
{
    struct hvd_note note;

    while (hvd_ring_take(w->ring, &note))
        let_go(w, &note);
    w->n_dropped = count_dropped(w);
}

/* Sets up the thread's part of a timeline. Holds mu; nothing is open. */
static hvd_status_t begin_timeline(struct hvd_writer *w, const char *path, bool marks_cycles,
                                   struct hvd_err *err)
{
    const struct hvd_trace_options options = {.start_unix_us = now_ns(CLOCK_REALTIME) / 1000,
                                              .rank = w->options.rank,
                                              .size = w->options.size,
                                              .host = w->options.host,
                                              .program = w->options.program,
                                              .rank_hosts = w->options.rank_hosts,
                                              .marks_cycles = marks_cycles};
    hvd_status_t st = hvd_trace_create(&options, &w->trace);

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "timeline %s: out of memory", path);
    empty_ring(w);
    w->clock = *w->options.clock;
    w->start_ticks = hvd_clock_ticks(&w->clock);
    w->last_ns = 0;
    hvd_buf_init(&w->lines, LINES_MAX);
    st = hvd_tracefile_open(&w->file, path, w->options.timeline_bytes, err);
    if (st == HVD_OK)
        st = hvd_trace_open(w->trace, &w->lines);
    if (st == HVD_OK)
        st = flush(w, err);
    if (st == HVD_OK)
        return HVD_OK;
    end_timeline(w);
    return st;
}

/* Ends the timeline, if there is one, in the thread. Holds life. */
static void close_and_wait(struct hvd_writer *w)
{
    atomic_fetch_and(&w->options.telemetry->_on, ~HVD_TELEMETRY_TIMELINE);
    pthread_mutex_lock(&w->mu);
    w->must_close = w->is_open;
    if (w->is_open && w->tid != 0) /* this thread waits for it from now on */
        set_urgent(w, true);
    pthread_cond_signal(&w->cond);
    while (w->is_open)
        pthread_cond_wait(&w->closed, &w->mu);
    pthread_mutex_unlock(&w->mu);
}

static bool is_open_at(struct hvd_writer *w, const char *path)
{
    pthread_mutex_lock(&w->mu);
    const bool is_same = w->is_open && strcmp(path, w->path) == 0;
    pthread_mutex_unlock(&w->mu);
    return is_same;
}

/* Opens a timeline; none is open. Holds life. */
static hvd_status_t open_anew(struct hvd_writer *w, const char *path, bool marks_cycles,
                              struct hvd_err *err)
{
    pthread_mutex_lock(&w->mu);
    snprintf(w->path, sizeof(w->path), "%s", path);
    hvd_status_t st = begin_timeline(w, path, marks_cycles, err);
    if (st == HVD_OK) {
        w->is_open = true;
        w->is_kicked = true;
        pthread_cond_signal(&w->cond);
        atomic_fetch_add(&w->options.telemetry->_timelines, 1);
        atomic_fetch_or(&w->options.telemetry->_on, HVD_TELEMETRY_TIMELINE);
    }
    pthread_mutex_unlock(&w->mu);
    return st;
}

hvd_status_t hvd_writer_open(struct hvd_writer *w, const char *path, bool marks_cycles,
                             struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    pthread_mutex_lock(&w->life);
    if (w->has_thread && !is_open_at(w, path)) {
        close_and_wait(w);
        st = open_anew(w, path, marks_cycles, err);
    }
    pthread_mutex_unlock(&w->life);
    return st;
}

void hvd_writer_close(struct hvd_writer *w)
{
    pthread_mutex_lock(&w->life);
    close_and_wait(w);
    pthread_mutex_unlock(&w->life);
}

void hvd_writer_put(struct hvd_writer *w, const struct hvd_event *event, const int64_t *shape,
                    const char *name)
{
    bool wants_reader = false;

    if (!hvd_ring_put(w->ring, event, shape, name, &wants_reader))
        atomic_fetch_sub_explicit(&w->n_pending, hvd_event_count_slots(event, name),
                                  memory_order_relaxed);
    if (wants_reader)
        hvd_writer_wake(w);
}

void hvd_writer_count(const struct hvd_writer *w, uint64_t *n_events, uint64_t *n_dropped)
{
    *n_events = atomic_load_explicit(&w->n_events, memory_order_relaxed);
    *n_dropped = w->ring ? count_dropped(w) : 0;
}

/* --- The metrics file ------------------------------------------------------------------------- */

static hvd_status_t replace_file(const char *path, const struct hvd_buf *text, struct hvd_err *err)
{
    char fresh[PATH_BYTES + 8];

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    const int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "metrics file %s: %s", fresh, strerror(errno));
    const bool is_written = write(fd, text->data, text->len) == (ssize_t)text->len;
    const int why = errno;
    if (close(fd) != 0 || !is_written || rename(fresh, path) != 0) {
        const int reason = is_written ? errno : why;
        unlink(fresh);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, reason, "metrics file %s: %s", path, strerror(reason));
    }
    return HVD_OK;
}

/* Writes the metrics if they changed; returns whether it did. is_due: also if they were just
 * written. */
static bool write_metrics(struct hvd_writer *w, bool is_due)
{
    struct hvd_counts counts;
    struct hvd_err err = {0};
    struct hvd_buf text;

    if (!w->metrics_file[0])
        return false;
    hvd_telemetry_counts(w->options.telemetry, &counts);
    const bool is_changed = memcmp(&counts, &w->written, sizeof(counts)) != 0;
    const int64_t now = now_ns(CLOCK_MONOTONIC);
    if (!is_changed || (!is_due && now < w->metrics_at_ns))
        return is_changed;
    hvd_buf_init(&text, LINES_MAX);
    hvd_status_t st = hvd_metrics_encode(&counts, w->options.rank, &text);
    st = st == HVD_OK ? replace_file(w->metrics_file, &text, &err)
                      : HVD_FAIL(&err, st, 0, "metrics: %s", hvd_status_str(st));
    hvd_buf_fini(&text);
    if (st != HVD_OK) {
        hvd_log(w->options.log, HVD_LOG_ERROR, "metrics", "no more metrics: %s", err.msg);
        w->metrics_file[0] = '\0';
    }
    w->written = counts;
    w->metrics_at_ns = now + METRICS_EVERY_NS;
    return true;
}

/* --- The thread ------------------------------------------------------------------------------- */

void hvd_writer_wake(struct hvd_writer *w)
{
    atomic_fetch_and(&w->options.telemetry->_on, ~HVD_TELEMETRY_WAKE);
    pthread_mutex_lock(&w->mu);
    w->is_kicked = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mu);
}

/* Waits for the next round; without a limit if there are no events. Holds mu. */
static void rest(struct hvd_writer *w)
{
    const int64_t round = w->is_open ? ROUND_NS : METRICS_ROUND_NS;
    const int64_t at = now_ns(CLOCK_MONOTONIC) + round;
    const struct timespec deadline = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    const int quiet_rounds = w->is_open ? QUIET_ROUNDS : 1;

    if (w->is_kicked || w->must_stop || w->must_close) {
        w->is_kicked = false;
        w->n_quiet = 0;
        return;
    }
    if (w->n_quiet >= quiet_rounds && (w->is_open || w->metrics_file[0]))
        atomic_fetch_or(&w->options.telemetry->_on, HVD_TELEMETRY_WAKE);
    if (w->n_quiet > 2 * quiet_rounds)
        pthread_cond_wait(&w->cond, &w->mu);
    else
        (void)pthread_cond_timedwait(&w->cond, &w->mu, &deadline);
    if (w->is_kicked)
        w->n_quiet = 0;
    w->is_kicked = false;
}

static void *run(void *arg)
{
    struct hvd_writer *w = arg;
    bool is_urgent = true;

    pthread_setname_np(pthread_self(), "hvd-watch");
    pthread_mutex_lock(&w->mu);
    w->tid = gettid();
    w->nice = getpriority(PRIO_PROCESS, 0);
    while (!w->must_stop) {
        const bool must_close = w->must_close;
        const bool is_open = w->is_open;
        bool ended = false;
        pthread_mutex_unlock(&w->mu);
        if (is_urgent != must_close)
            set_urgent(w, must_close);
        is_urgent = must_close;
        const uint64_t found = is_open ? write_events(w, must_close, &ended) : 0;
        const bool changed = write_metrics(w, w->n_quiet >= QUIET_ROUNDS);
        w->n_quiet = found > 0 || changed ? 0 : w->n_quiet + 1;
        pthread_mutex_lock(&w->mu);
        if (ended) {
            w->is_open = false;
            w->must_close = false;
            w->n_quiet = 0;
            pthread_cond_broadcast(&w->closed);
        }
        if (w->n_quiet == 0)
            atomic_fetch_and(&w->options.telemetry->_on, ~HVD_TELEMETRY_WAKE);
        w->is_kicked = w->is_kicked || found == DRAIN_MAX; /* there is more */
        rest(w);
    }
    pthread_mutex_unlock(&w->mu);
    set_urgent(w, true);
    (void)write_metrics(w, true);
    return NULL;
}

static hvd_status_t init_locks(struct hvd_writer *w)
{
    pthread_condattr_t attr;

    if (pthread_condattr_init(&attr) != 0)
        return HVD_ERR_SYSTEM;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    const bool good =
        pthread_mutex_init(&w->mu, NULL) == 0 && pthread_mutex_init(&w->life, NULL) == 0 &&
        pthread_cond_init(&w->cond, &attr) == 0 && pthread_cond_init(&w->closed, &attr) == 0;
    pthread_condattr_destroy(&attr);
    return good ? HVD_OK : HVD_ERR_SYSTEM;
}

hvd_status_t hvd_writer_create(const struct hvd_writer_options *options, struct hvd_writer **out,
                               struct hvd_err *err)
{
    struct hvd_writer *w = hvd_calloc(1, sizeof(*w));
    int rc = 0;

    if (!w || (options->has_timeline && hvd_ring_create(RING_CELLS, &w->ring) != HVD_OK)) {
        hvd_free(w);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the watch");
    }
    w->options = *options;
    w->file.fd = -1;
    if (options->metrics_file)
        snprintf(w->metrics_file, sizeof(w->metrics_file), "%s", options->metrics_file);
    *out = w; /* before the thread starts, which finds the writer through telemetry */
    if (init_locks(w) != HVD_OK || (rc = pthread_create(&w->thread, NULL, run, w)) != 0) {
        *out = NULL;
        hvd_ring_destroy(w->ring);
        hvd_free(w);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, rc, "the watch's thread does not start: %s",
                        strerror(rc));
    }
    w->has_thread = true;
    return HVD_OK;
}

void hvd_writer_stop(struct hvd_writer *w)
{
    pthread_mutex_lock(&w->life);
    if (w->has_thread) {
        close_and_wait(w);
        pthread_mutex_lock(&w->mu);
        w->must_stop = true;
        pthread_cond_signal(&w->cond);
        pthread_mutex_unlock(&w->mu);
        pthread_join(w->thread, NULL);
        w->has_thread = false;
        atomic_fetch_and(&w->options.telemetry->_on, ~HVD_TELEMETRY_WAKE);
    }
    pthread_mutex_unlock(&w->life);
}

void hvd_writer_destroy(struct hvd_writer *w)
{
    if (!w)
        return;
    hvd_writer_stop(w);
    pthread_cond_destroy(&w->closed);
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->life);
    pthread_mutex_destroy(&w->mu);
    hvd_ring_destroy(w->ring);
    hvd_free(w);
}
