/*
 * Records the events of the hooks, and decides which rank may have a timeline. Recording is
 * lock-free and runs in any thread; the writer starts and ends timelines.
 */
#include "worker/telemetry/telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/telemetry/core/path.h"
#include "worker/telemetry/core/program.h"
#include "worker/telemetry/core/rank_hosts.h"
#include "worker/telemetry/core/recorder_dump.h"
#include "worker/telemetry/recorder.h"
#include "worker/telemetry/writer.h"

#define PATH_BYTES 1100
#define NAME_BYTES 256
#define CMDLINE_BYTES 8192
#define RANK_HOSTS_MAX                                                                             \
    ((int64_t)8 * 1024 * 1024) /* tens of thousands of hosts; others are left out                  \
                                */
#define DUMP_MAX ((size_t)1024 * 1024)

struct hvd_telemetry_state {
    struct hvd_clock clock;
    int rank;
    int size;
    bool has_timeline; /* it may start */
    bool writes_all;
    char dump_path[PATH_BYTES]; /* empty: none */
    char metrics_file[PATH_BYTES];
    char host[NAME_BYTES];         /* of this rank; empty: not known */
    char program[NAME_BYTES];      /* that this rank runs; empty: not known */
    struct hvd_buf rank_hosts;     /* records of all hosts, on rank 0 */
    struct hvd_recorder *recorder; /* owned; NULL: none */
    struct hvd_writer *writer;     /* owned; NULL: none */
    const struct hvd_log *log;
};

static bool is_set(const char *text)
{
    return text && *text;
}

void hvd_telemetry_record(struct hvd_telemetry *w, unsigned on, const struct hvd_trace_event *seen)
{
    struct hvd_telemetry_state *state = w->_state;
    const struct hvd_request *req = seen->request;
    struct hvd_event event = {
        .ticks = hvd_clock_ticks(&state->clock),
        .id = seen->id,
        .detail = seen->detail,
        .kind = (uint8_t)seen->kind,
        .name_len = (uint16_t)(seen->name.len < HVD_NAME_MAX ? seen->name.len : HVD_NAME_MAX),
    };

    if (req) {
        event.op = (uint8_t)req->op;
        event.dtype = (uint8_t)req->dtype;
        event.reduce = (uint8_t)req->reduce;
        event.ndim = seen->kind == HVD_EVENT_SUBMITTED ? (uint8_t)req->ndim : 0;
    }
    if (on & HVD_TELEMETRY_TIMELINE)
        hvd_writer_put(state->writer, &event, req ? req->shape : NULL, seen->name.data);
    if (on & HVD_TELEMETRY_WAKE)
        hvd_writer_wake(state->writer);
    if (!(on & HVD_TELEMETRY_RECORDER))
        return;
    /* In the recorder every event carries its tensor's name. */
    const struct hvd_strview name = req ? req->name : seen->name;
    event.name_len = (uint16_t)(name.len < HVD_NAME_MAX ? name.len : HVD_NAME_MAX);
    hvd_recorder_put(state->recorder, &event, name.data);
}

/* Records one event of n_words words of slots; `name` holds the words. */
static void record_words(struct hvd_telemetry *w, const struct hvd_trace_slots *seen,
                         uint32_t first, uint32_t n_words, uint64_t ticks)
{
    const size_t text_len = seen->text ? strlen(seen->text) : 0;
    const size_t bytes = n_words * sizeof(*seen->words);
    char name[HVD_EVENT_WORDS_MAX * sizeof(*seen->words) + HVD_TELEMETRY_TEXT_MAX];
    const struct hvd_event event = {
        .ticks = ticks,
        .id = hvd_event_slot_id(seen->set, seen->first + first),
        .detail = seen->detail,
        .kind = (uint8_t)seen->kind,
        .n_words = (uint8_t)n_words,
        .name_len = (uint16_t)(bytes + (text_len < HVD_TELEMETRY_TEXT_MAX ? text_len : 0)),
    };

    memcpy(name, seen->words + first, bytes);
    memcpy(name + bytes, seen->text ? seen->text : "", event.name_len - bytes);
    hvd_writer_put(w->_state->writer, &event, NULL, name);
}

void hvd_telemetry_record_slots(struct hvd_telemetry *w, const struct hvd_trace_slots *seen)
{
    const struct hvd_telemetry_state *state = w->_state;
    const uint64_t ticks = hvd_clock_ticks(&state->clock);
    uint64_t n_tensors = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < seen->n_words; i++)
        n_tensors += (uint64_t)__builtin_popcountll(seen->words[i]);
    if (!hvd_writer_admit(state->writer, n_tensors))
        return;
    while (at < seen->n_words) {
        uint32_t n = 0; /* words up to the last one that is not 0 */
        for (uint32_t i = 0; i < HVD_EVENT_WORDS_MAX && at + i < seen->n_words; i++)
            if (seen->words[at + i] != 0)
                n = i + 1;
        if (n > 0)
            record_words(w, seen, at, n, ticks);
        at += HVD_EVENT_WORDS_MAX;
    }
    if (hvd_telemetry_on(w) & HVD_TELEMETRY_WAKE)
        hvd_writer_wake(state->writer);
}

void hvd_telemetry_record_slot(struct hvd_telemetry *w, uint32_t set, uint32_t index,
                               const struct hvd_request *request)
{
    const struct hvd_event event = {.ticks = hvd_clock_ticks(&w->_state->clock),
                                    .id = hvd_event_slot_id(set, index),
                                    .kind = HVD_EVENT_SLOT,
                                    .op = (uint8_t)request->op,
                                    .dtype = (uint8_t)request->dtype,
                                    .reduce = (uint8_t)request->reduce,
                                    .ndim = (uint8_t)request->ndim,
                                    .name_len = (uint16_t)request->name.len};

    hvd_writer_put(w->_state->writer, &event, request->shape, request->name.data);
}

/* --- The flight recorder ---------------------------------------------------------------------- */

static hvd_status_t encode_dump(const struct hvd_telemetry_state *state, const char *why,
                                struct hvd_buf *out)
{
    const uint64_t n = hvd_recorder_count(state->recorder);
    const uint64_t first = n > HVD_RECORDER_EVENTS ? n - HVD_RECORDER_EVENTS : 0;
    struct hvd_clock clock = state->clock;
    const time_t seconds = time(NULL);
    char when[32] = "";
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    const struct hvd_recorder_dump_head head = {.rank = state->rank,
                                                .size = state->size,
                                                .why = why,
                                                .when = when,
                                                .n_events = n - first,
                                                .n_recorded = n};
    hvd_status_t st = hvd_recorder_dump_add_head(&head, out);
    hvd_clock_sync(&clock);
    const int64_t now = hvd_clock_since_base(&clock, hvd_clock_ticks(&clock));
    for (uint64_t i = first; st == HVD_OK && i < n; i++) {
        struct hvd_note note;
        if (hvd_recorder_get(state->recorder, i, &note))
            st = hvd_recorder_dump_add(&note, now - hvd_clock_since_base(&clock, note.event.ticks),
                                       out);
    }
    return st;
}

static hvd_status_t write_all(int fd, const struct hvd_buf *text)
{
    for (size_t at = 0; at < text->len;) {
        const ssize_t n = write(fd, text->data + at, text->len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return HVD_ERR_SYSTEM;
        at += (size_t)n;
    }
    return HVD_OK;
}

static hvd_status_t write_dump(const char *path, const struct hvd_buf *text, struct hvd_err *err)
{
    if (strcmp(path, "-") == 0)
        return write_all(STDERR_FILENO, text);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    hvd_status_t st = fd < 0 ? HVD_ERR_SYSTEM : write_all(fd, text);
    if (st != HVD_OK)
        hvd_err_set(err, st, errno, "flight recorder %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return st;
}

hvd_status_t hvd_telemetry_dump(struct hvd_telemetry *w, const char *why, struct hvd_err *err)
{
    const struct hvd_telemetry_state *state = w->_state;
    struct hvd_buf text;

    if (!state->recorder)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "there is no flight recorder: set HOROVOD_FLIGHT_RECORDER to a path, or to "
                        "- for standard error, before horovod_init");
    hvd_buf_init(&text, DUMP_MAX);
    hvd_status_t st = encode_dump(state, why, &text);
    if (st == HVD_OK || st == HVD_ERR_TOO_LARGE)
        st = write_dump(state->dump_path, &text, err);
    else
        st = HVD_FAIL(err, st, 0, "flight recorder: %s", hvd_status_str(st));
    hvd_buf_fini(&text);
    return st;
}

void hvd_telemetry_failed(struct hvd_telemetry *w, const char *why)
{
    struct hvd_err err = {0};

    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.job_failures, 1);
    const unsigned on = hvd_telemetry_on(w);
    if (on)
        hvd_telemetry_record(
            w, on,
            &(struct hvd_trace_event){.kind = HVD_EVENT_FAILED, .name = hvd_strview_of(why)});
    if (w->_state->recorder && hvd_telemetry_dump(w, why, &err) != HVD_OK)
        hvd_log(w->_state->log, HVD_LOG_ERROR, "watch", "%s", err.msg);
}

/* --- Counters --------------------------------------------------------------------------------- */

void hvd_telemetry_counts(const struct hvd_telemetry *w, struct hvd_counts *counts)
{
    const uint64_t *from = (const uint64_t *)&w->_counts;
    uint64_t *to = (uint64_t *)counts;

    _Static_assert(sizeof(*counts) % sizeof(*to) == 0, "counts are nothing but counters");
    for (size_t i = 0; i < sizeof(*counts) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    counts->submitted = atomic_load_explicit(&w->_submitted, memory_order_relaxed);
    if (w->_state->writer)
        hvd_writer_count(w->_state->writer, &counts->timeline_events, &counts->timeline_dropped);
}

/* --- Life ------------------------------------------------------------------------------------- */

void hvd_telemetry_end(struct hvd_telemetry *w)
{
    if (w->_state->writer)
        hvd_writer_stop(w->_state->writer);
}

void hvd_telemetry_destroy(struct hvd_telemetry *w)
{
    if (!w)
        return;
    if (w->_state) {
        hvd_writer_destroy(w->_state->writer);
        hvd_recorder_destroy(w->_state->recorder);
        hvd_buf_fini(&w->_state->rank_hosts);
    }
    hvd_free(w->_state);
    hvd_free(w);
}

/* Returns why a path cannot have files of other ranks beside it, or NULL if it can: it is no
 * regular file. */
static const char *find_odd(const char *path)
{
    struct stat about;

    if (stat(path, &about) != 0 || S_ISREG(about.st_mode))
        return NULL;
    return S_ISDIR(about.st_mode) ? "a folder" : "a device or a pipe";
}

static hvd_status_t set_path(const struct hvd_telemetry_state *state, const char *pattern,
                             char out[PATH_BYTES], struct hvd_err *err)
{
    if (!hvd_path_of_rank(pattern, state->rank, out, PATH_BYTES))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "path %.64s... is too long", pattern);
    const char *odd = find_odd(pattern) ? pattern : find_odd(out) ? out : NULL;
    if (odd)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%.300s is %s: write the path of a file", odd,
                        find_odd(odd));
    return HVD_OK;
}

hvd_status_t hvd_telemetry_start_timeline(struct hvd_telemetry *w, const char *path,
                                          bool marks_cycles, struct hvd_err *err)
{
    struct hvd_telemetry_state *state = w->_state;
    const bool is_per_rank = state->writes_all || hvd_path_names_rank(path);
    char own[PATH_BYTES];

    if (!state->has_timeline)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "the timeline is not enabled: set HOROVOD_TIMELINE to a path, or to "
                        "DYNAMIC, before horovod_init");
    if (state->rank != 0 && !is_per_rank)
        return HVD_OK;
    if (strlen(path) >= sizeof(own))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "path %.64s... is too long", path);
    snprintf(own, sizeof(own), "%s", path);
    hvd_status_t st = is_per_rank ? set_path(state, path, own, err) : HVD_OK;
    return st == HVD_OK ? hvd_writer_open(state->writer, own, marks_cycles, err) : st;
}

hvd_status_t hvd_telemetry_stop_timeline(struct hvd_telemetry *w, struct hvd_err *err)
{
    if (!w->_state->has_timeline)
        return HVD_FAIL(err, HVD_ERR_STATE, 0, "the timeline is not enabled");
    hvd_writer_close(w->_state->writer);
    return HVD_OK;
}

/* Reads the arguments of this process, as far as they fit. */
static struct hvd_strview read_cmdline(char text[CMDLINE_BYTES])
{
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 0;

    while (fd >= 0 && len < CMDLINE_BYTES) {
        n = read(fd, text + len, CMDLINE_BYTES - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    return (struct hvd_strview){.data = text, .len = len};
}

/* Collects the description of the job for the head of a timeline; omits unknown parts. Only rank 0
 * writes the hosts of all ranks, because it always has a timeline. */
static hvd_status_t describe_job(struct hvd_telemetry_state *state,
                                 const struct hvd_telemetry_options *o, struct hvd_err *err)
{
    const struct hvd_rank_hosts rank_hosts = {
        .rank = o->rank, .size = o->size, .host = o->host, .ctx = o->ctx};
    const char *host = o->host ? o->host(o->ctx, o->rank) : NULL;
    char cmdline[CMDLINE_BYTES];
    char exe[PATH_BYTES];
    const ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[len > 0 ? len : 0] = '\0';
    hvd_program_name(exe, read_cmdline(cmdline), state->program, sizeof(state->program));
    snprintf(state->host, sizeof(state->host), "%s", host ? host : "");
    hvd_buf_init(&state->rank_hosts, o->timeline_bytes > 0 && o->timeline_bytes / 8 < RANK_HOSTS_MAX
                                         ? (size_t)(o->timeline_bytes / 8)
                                         : (size_t)RANK_HOSTS_MAX);
    if (o->rank == 0 && o->host &&
        hvd_rank_hosts_write(&rank_hosts, &state->rank_hosts) == HVD_ERR_NOMEM)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the hosts of the timeline");
    return HVD_OK;
}

static hvd_status_t fill(struct hvd_telemetry *w, const struct hvd_telemetry_options *o,
                         struct hvd_err *err)
{
    struct hvd_telemetry_state *state = w->_state;
    struct hvd_writer_options writer = {.telemetry = w,
                                        .clock = &state->clock,
                                        .rank = o->rank,
                                        .size = o->size,
                                        .host = state->host,
                                        .program = state->program,
                                        .timeline_bytes = o->timeline_bytes,
                                        .metrics_file = state->metrics_file,
                                        .has_timeline = state->has_timeline,
                                        .log = o->log};
    hvd_status_t st = state->has_timeline ? describe_job(state, o, err) : HVD_OK;

    if (st < 0)
        return st;
    writer.rank_hosts = (struct hvd_strview){state->rank_hosts.data, state->rank_hosts.len};
    if (is_set(o->metrics_file))
        st = set_path(state, o->metrics_file, state->metrics_file, err);
    if (st < 0)
        return HVD_WRAP(err, st, "HOROVOD_METRICS_FILE");
    if (st == HVD_OK && is_set(o->flight_recorder)) {
        if (strcmp(o->flight_recorder, "-") == 0)
            snprintf(state->dump_path, sizeof(state->dump_path), "-");
        else
            st = set_path(state, o->flight_recorder, state->dump_path, err);
        if (st == HVD_OK && hvd_recorder_create(&state->recorder) != HVD_OK)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the flight recorder");
        if (st == HVD_OK)
            atomic_fetch_or(&w->_on, HVD_TELEMETRY_RECORDER);
    }
    if (st == HVD_OK && (state->has_timeline || state->metrics_file[0]))
        st = hvd_writer_create(&writer, &state->writer, err);
    return st;
}

/* Starts the timeline that the environment asks for. The job runs also if that fails. */
static void start_first(struct hvd_telemetry *w, const struct hvd_telemetry_options *o)
{
    struct hvd_err err = {0};

    if (!is_set(o->timeline) || strcmp(o->timeline, "DYNAMIC") == 0)
        return;
    if (hvd_telemetry_start_timeline(w, o->timeline, o->marks_cycles, &err) != HVD_OK)
        hvd_log(o->log, HVD_LOG_ERROR, "timeline", "no timeline: %s", err.msg);
}

hvd_status_t hvd_telemetry_create(const struct hvd_telemetry_options *options,
                                  struct hvd_telemetry **out, struct hvd_err *err)
{
    struct hvd_telemetry *w = hvd_calloc(1, sizeof(*w));
    struct hvd_telemetry_state *state = hvd_calloc(1, sizeof(*state));
    hvd_status_t st;

    if (!w || !state) {
        hvd_free(w);
        hvd_free(state);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the watch");
    }
    w->_state = state;
    state->rank = options->rank;
    state->size = options->size;
    state->has_timeline = is_set(options->timeline);
    state->writes_all = options->all_ranks;
    state->log = options->log;
    hvd_clock_init(&state->clock);
    st = fill(w, options, err);
    if (st != HVD_OK) {
        hvd_telemetry_destroy(w);
        return st;
    }
    start_first(w, options);
    *out = w;
    return HVD_OK;
}
