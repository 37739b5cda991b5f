#ifndef HVD_WORKER_LAUNCH_CORE_REPORT_H
#define HVD_WORKER_LAUNCH_CORE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/tail.h"

#define HVD_REPORT_LINE_MAX 512
#define HVD_REPORT_LOG_MAX 1024
/* Of a whole report: below PIPE_BUF, and below what mpirun forwards in one piece. */
#define HVD_REPORT_MAX (512 + HVD_REPORT_LINE_MAX + HVD_REPORT_LOG_MAX)
#define HVD_REPORT_NONCE_MAX 33
/* Of what passed, so many bytes at least are kept: the tracebacks of fifty ranks. */
#define HVD_REPORT_RECENT ((size_t)1 << 16)

/* Where the last words of a rank come from. */
enum hvd_report_words {
    HVD_WORDS_UNKNOWN, /* nobody watched its output */
    HVD_WORDS_NONE,    /* it wrote nothing */
    HVD_WORDS_STDOUT,  /* it wrote nothing to stderr */
    HVD_WORDS_STDERR,
};

/* How a rank ended other than with exit code 0. */
struct hvd_report {
    int64_t rank;
    char host[HVD_HOST_NAME_MAX + 1];
    int exit_code;       /* when signal is 0 */
    int signal;          /* the signal that killed it, or 0 */
    bool was_stopped;    /* the wrapper had been told to end it: a consequence, not a cause */
    bool is_oom;         /* the kernel killed it for memory */
    int64_t limit_bytes; /* memory limit of its cgroup; INT64_MAX = unknown or none */
    enum hvd_report_words words;
    char line[HVD_REPORT_LINE_MAX + 1]; /* the one that names the cause */
    char log[HVD_REPORT_LOG_MAX + 1];   /* the last lines it wrote, clean text */
};

/*
 * Takes the rank's last words from what it wrote to stdout and stderr: its own lines say why it
 * failed. A rank that was stopped has none, unless it had an exception of its own before.
 */
void hvd_report_take_words(struct hvd_report *report, const struct hvd_tail *out,
                           const struct hvd_tail *err);

/*
 * Writes the report as the line that the wrapper sends and hvd_report_stream_feed recognises:
 * HVD_ERR_TOO_LARGE when it does not fit. The nonce is one run's secret, so that no program's
 * output can pass for a report.
 */
hvd_status_t hvd_report_format(const struct hvd_report *report, const char *nonce, char *out,
                               size_t size);

/* mpirun's standard error on its way through the launcher. */
struct hvd_report_stream {
    char nonce[HVD_REPORT_NONCE_MAX];
    bool has_cause; /* a rank failed by itself */
    struct hvd_report cause;
    bool has_excepted; /* a rank that was stopped had an exception of its own before */
    struct hvd_report excepted;
    int64_t n_ended; /* ranks that were reported, also as good */
    bool has_any;    /* a rank was reported at all, perhaps only stopped ones */
    struct hvd_report any;
    bool has_text; /* mpirun's own words named a rank */
    struct hvd_report text;
    char _recent[2 * HVD_REPORT_RECENT]; /* what passed last, of all ranks */
    size_t _n_recent;
    char _held[HVD_REPORT_MAX]; /* the beginning of what may be a report */
    size_t _n_held;
    char _line[HVD_REPORT_MAX]; /* the current line of mpirun, cut at this length */
    size_t _n_line;
};

/* Prepares a stream that looks for reports with that nonce. */
void hvd_report_stream_init(struct hvd_report_stream *stream, const char *nonce);

/* Takes bytes and appends all of them that belong to no report to pass. Fails as hvd_buf_add. */
hvd_status_t hvd_report_stream_feed(struct hvd_report_stream *stream, struct hvd_strview data,
                                    struct hvd_buf *pass);

/* Appends what was held back, and completes what is known of failures: to be called at the end of
 * the stream. Fails as hvd_buf_add. */
hvd_status_t hvd_report_stream_finish(struct hvd_report_stream *stream, struct hvd_buf *pass);

/*
 * The rank to blame: the first that failed by itself, or the one that its message blames; else the
 * first known. NULL when none is.
 */
const struct hvd_report *hvd_report_stream_failure(const struct hvd_report_stream *stream);

/* The exit code that says the same: the rank's, or 128 + signal. */
int hvd_report_exit_code(const struct hvd_report *report);

/*
 * Why mpirun ended although no rank failed: the first paragraph of its own that passed, as one
 * line. size is at least 1; "" when there is none.
 */
void hvd_report_stream_refusal(const struct hvd_report_stream *stream, char *out, size_t size);

/*
 * One line without newline: "rank 1 on host h exited with code 1: KeyError: 'x'", "rank 1 on host h
 * was killed by signal 9 (Killed): out of memory (limit 64Mi)". The host is named as the list names
 * it, where the list has it.
 */
void hvd_report_describe(const struct hvd_report *report, const struct hvd_hosts *hosts, char *out,
                         size_t size);

#endif
