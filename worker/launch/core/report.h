#ifndef HVD_WORKER_LAUNCH_CORE_REPORT_H
#define HVD_WORKER_LAUNCH_CORE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rank_state.h"
#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/banner.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/tail.h"

#define HVD_REPORT_LINE_MAX 512
#define HVD_REPORT_LOG_MAX 1024
/* The maximum size of a report: below PIPE_BUF, and below the size that mpirun forwards in one
 * piece. */
#define HVD_REPORT_MAX (512 + HVD_REPORT_LINE_MAX + HVD_REPORT_LOG_MAX)
#define HVD_REPORT_NONCE_MAX 33
/* The recent output that is kept at least: the tracebacks of fifty ranks. */
#define HVD_REPORT_RECENT ((size_t)1 << 16)

/* The source of a rank's last words. */
enum hvd_report_words {
    HVD_WORDS_UNKNOWN, /* the output was not watched */
    HVD_WORDS_NONE,    /* it wrote nothing */
    HVD_WORDS_STDOUT,  /* its last output, which is no cause: of stdout, or a notice */
    HVD_WORDS_STDERR,
};

/* The kind of a failure. */
enum hvd_report_kind {
    HVD_REPORT_RANK,      /* the process of a rank, from its wrapper */
    HVD_REPORT_LEFT_RANK, /* a rank called horovod_shutdown while others waited */
    HVD_REPORT_LOST_RANK, /* others report the loss of a rank that has not reported itself */
    HVD_REPORT_AWAITED,   /* a stalled tensor waited for a rank, and that ended the job */
    HVD_REPORT_ABSENT,    /* a rank comes to no horovod_init any more while others wait */
    HVD_REPORT_MISSING,   /* a rank has not come to horovod_init while others wait */
    HVD_REPORT_UNHEARD,   /* one of several ranks whose reports are lost */
    HVD_REPORT_CUT_OFF,   /* Open MPI ended a rank: its connection to another one broke */
    HVD_REPORT_ABORTED,   /* the job was aborted, then each rank ended with 0 */
    HVD_REPORT_LOST_SRUN, /* mpirun has lost the srun of its daemons on more than one host */
    HVD_REPORT_LOST_HOST, /* mpirun has lost its daemon there, or received no answer from it */
};

/* The kinds of reports from a wrapper. */
enum hvd_report_notice {
    HVD_NOTICE_END,         /* the process has ended */
    HVD_NOTICE_WAITS,       /* the rank has been within horovod_init for a while, of a job of all
                               processes; repeated */
    HVD_NOTICE_WAITS_SOME,  /* as above, of a job of some processes */
    HVD_NOTICE_FINAL,       /* the rank is within MPI_Finalize, and joins no further job */
    HVD_NOTICE_WAITS_FINAL, /* ... and has been for a while; repeated */
    HVD_NOTICE_STOPPED, /* the rank stands still before horovod_init, in MPI_Init or after its jobs;
                           repeated */
    HVD_NOTICE_GOES_ON, /* the rank neither waits nor is stopped any more */
};

/* The end of a rank, or a notice about it. A good end has exit code 0, after horovod_shutdown or
 * without horovod_init. */
struct hvd_report {
    enum hvd_report_kind kind;
    int64_t rank; /* LOST_HOST, UNHEARD: the first of the ranks */
    char host[HVD_HOST_NAME_MAX + 1];
    int64_t n_ranks; /* UNHEARD: their number */
    int exit_code;   /* when signal is 0 */
    int signal;      /* the signal that killed it, or 0 */
    enum hvd_rank_phase phase;
    enum hvd_report_notice notice;
    int64_t waited_ms;   /* of a rank that waits within horovod_init ... */
    int64_t warning_ms;  /* ... after which others are named; 0: never */
    int64_t shutdown_ms; /* ... after which it gives up; 0: never */
    int64_t follows;     /* 1 + the rank whose failure ended its job; 0: unknown */
    bool was_stopped;    /* the wrapper was asked to end it: a consequence, not a cause */
    bool has_raised;     /* an uncaught exception ended it, as Python reported */
    bool has_aborted;    /* it has left MPI without MPI_Finalize, as after an aborted job */
    bool is_oom;         /* the kernel killed it for memory */
    int64_t limit_bytes; /* memory limit of its cgroup; INT64_MAX = unknown or none */
    enum hvd_report_words words;
    char line[HVD_REPORT_LINE_MAX + 1]; /* names the cause */
    char log[HVD_REPORT_LOG_MAX + 1];   /* its last lines, clean text */
};

/*
 * Takes the rank's last words from its output on stdout and stderr, because a rank's own lines name
 * its cause. A stopped rank has none, unless it had an exception before.
 */
void hvd_report_take_words(struct hvd_report *report, const struct hvd_tail *out,
                           const struct hvd_tail *err);

/* Takes the words from the message of Python, one line, about the exception that ended the rank. It
 * is the cause, whatever the program wrote after it. Empty words change nothing. */
void hvd_report_take_exception(struct hvd_report *report, const char *words);

/* Takes the words from the library's message about the end of the job, if it names a rank. The
 * program's own end is then a consequence, unless a signal other than its own caused it. A stopped
 * rank then has no words. */
void hvd_report_take_cause(struct hvd_report *report, const char *words);

/*
 * Writes the report as the line that the wrapper sends and hvd_report_stream_feed recognises.
 * HVD_ERR_TOO_LARGE when it does not fit. The nonce is the secret of one run, so that no program's
 * output can pass for a report.
 */
hvd_status_t hvd_report_format(const struct hvd_report *report, const char *nonce, char *out,
                               size_t size);

struct hvd_missing;

/* mpirun's standard error on its way through the launcher. */
struct hvd_report_stream {
    char nonce[HVD_REPORT_NONCE_MAX];
    bool has_cause; /* a rank failed by itself */
    struct hvd_report cause;
    bool has_left; /* the first failure blames a rank that left the job while others waited */
    struct hvd_report left;
    bool has_excepted; /* a stopped rank had an exception of its own before */
    struct hvd_report excepted;
    int64_t n_ended;               /* ranks with a report, good ones included */
    int64_t n_stopped;             /* of them, those that mpirun stopped */
    const struct hvd_hosts *hosts; /* borrowed; NULL: unknown */
    bool *reported;                /* by host: one of its ranks has reported its end; owned */
    bool has_lost;                 /* a host or a rank is lost */
    struct hvd_report lost;
    bool has_absent; /* a rank joins no further job */
    struct hvd_report absent;
    bool has_joined;             /* a rank has come to horovod_init */
    bool blames_absent;          /* at the end: that rank is the failure */
    int mpirun_code;             /* its exit code, set before the end; 0: unknown */
    int64_t waiting;             /* 1 + the first rank that has waited since; 0: none */
    bool is_stuck;               /* that rank still waits */
    struct hvd_missing *missing; /* the ranks that others wait for; owned; may be NULL */
    int64_t now_ms;              /* set before each feed: any clock that goes forward */
    bool has_remark;             /* a line about missing ranks has to be shown */
    bool has_text;               /* mpirun's own message named a rank */
    struct hvd_report text;
    int64_t _exited_rank; /* 1 + the rank that mpirun names as the reason of its end; 0: none */
    bool has_aborted;     /* that rank did not finalise MPI */
    struct hvd_report aborted;
    bool has_abandoned; /* a rank ended well without MPI_Finalize: mpirun has to end */
    struct hvd_report abandoned;
    size_t _hung_up; /* 1 + the host whose ssh reported its end; 0: none */
    bool has_srun;   /* one srun starts the daemons on other hosts, so they end together */
    bool has_broken; /* Open MPI 5 ended ranks whose connection to another one broke */
    bool has_cut_off;
    struct hvd_report cut_off; /* the first rank that may be one of them */
    bool is_cut_off_first;     /* no rank had failed before */
    bool shows_banners;        /* show mpirun's own, although the launcher names the cause */
    bool hides_banners;        /* although no rank failed: the launcher names another cause */
    struct hvd_banner_filter _banners;
    char _recent[2 * HVD_REPORT_RECENT]; /* the recent output of all ranks */
    size_t _n_recent;
    char _held[HVD_REPORT_MAX]; /* the beginning of a possible report */
    size_t _n_held;
    char _line[HVD_REPORT_MAX]; /* the current line of mpirun, truncated */
    size_t _n_line;
    size_t _n_own;      /* mpirun's own texts that a zero byte may follow */
    bool _is_of_daemon; /* within mpirun's message about a daemon that has ended */
};

/* Prepares a stream that recognises reports with that nonce. The hosts of the ranks are borrowed.
 * With NULL, or without memory, only mpirun's own messages reveal a lost host. */
void hvd_report_stream_init(struct hvd_report_stream *stream, const char *nonce,
                            const struct hvd_hosts *hosts);

/* Sets the process of mpirun, whose own stack is held back as its banners are. */
void hvd_report_stream_set_mpirun(struct hvd_report_stream *stream, int64_t pid);

/* Frees what the stream owns. */
void hvd_report_stream_fini(struct hvd_report_stream *stream);

/* Takes bytes and appends all that belong to no report to pass. Fails as hvd_buf_add. */
hvd_status_t hvd_report_stream_feed(struct hvd_report_stream *stream, struct hvd_strview data,
                                    struct hvd_buf *pass);

/* Returns each line about ranks that others wait for once; NULL: none. The line stays valid until
 * the next feed. */
const char *hvd_report_stream_remark(struct hvd_report_stream *stream);

/* Whether it holds bytes back that hvd_report_stream_idle would pass. */
bool hvd_report_stream_is_holding(const struct hvd_report_stream *stream);

/* Called after a silence: appends the possible beginning of a banner to pass. Fails as
 * hvd_buf_add. */
hvd_status_t hvd_report_stream_idle(struct hvd_report_stream *stream, struct hvd_buf *pass);

/* Ends the stream: appends the held bytes, with mpirun's banners if no failure was found, and
 * determines the failure. Fails as hvd_buf_add. */
hvd_status_t hvd_report_stream_finish(struct hvd_report_stream *stream, struct hvd_buf *pass);

/*
 * The failure: the first rank that failed by itself, or the one that its message blames; else the
 * lost host. Never a rank that was stopped without a failure of its own. Where another rank failed,
 * never one that Open MPI 5 ended for a broken connection. NULL when no failure is known.
 */
const struct hvd_report *hvd_report_stream_failure(const struct hvd_report_stream *stream);

/* Whether mpirun has to end soon: a wrapper has reported a failure, or mpirun has begun to stop
 * ranks unasked. */
bool hvd_report_stream_is_ending(const struct hvd_report_stream *stream, bool was_asked);

/* Whether a rank has reported a failure. A job that ends without one was aborted, and its ranks
 * have ended with 0, or were stopped. */
bool hvd_report_stream_has_failure(const struct hvd_report_stream *stream);

/* Whether the rank had an exception of its own, now its last words, before it was stopped. The
 * library's message that another rank, or a stall, ended the job is none. */
bool hvd_report_has_exception(const struct hvd_report *report);

/* Whether the rank ended well: with 0, and either outside its job or because it was stopped. */
bool hvd_report_is_good(const struct hvd_report *report);

/* Whether the job has to be stopped because ranks wait within horovod_init. They wait for a rank
 * that has ended or is within MPI_Finalize, which is then the failure, or for longer than
 * allowed. */
bool hvd_report_stream_is_stuck(const struct hvd_report_stream *stream);

/* The exit code for the report: the rank's, or 128 + signal; 1 where it has none. */
int hvd_report_exit_code(const struct hvd_report *report);

/*
 * The reason why mpirun ended although no rank failed: the first paragraph of its own in the recent
 * output, as one line. size is at least 1; "" when there is none.
 */
void hvd_report_stream_refusal(const struct hvd_report_stream *stream, char *out, size_t size);

#endif
