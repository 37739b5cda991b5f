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
/* Of a whole report: below PIPE_BUF, and below what mpirun forwards in one piece. */
#define HVD_REPORT_MAX (512 + HVD_REPORT_LINE_MAX + HVD_REPORT_LOG_MAX)
#define HVD_REPORT_NONCE_MAX 33
/* Of what passed, so many bytes at least are kept: the tracebacks of fifty ranks. */
#define HVD_REPORT_RECENT ((size_t)1 << 16)

/* Where the last words of a rank come from. */
enum hvd_report_words {
    HVD_WORDS_UNKNOWN, /* nobody watched its output */
    HVD_WORDS_NONE,    /* it wrote nothing */
    HVD_WORDS_STDOUT,  /* it wrote nothing to stderr, though a crash handler may have */
    HVD_WORDS_STDERR,
};

/* What ended badly. */
enum hvd_report_kind {
    HVD_REPORT_RANK,      /* the process of a rank, as the wrapper saw it */
    HVD_REPORT_LEFT_RANK, /* a rank that called horovod_shutdown while others waited */
    HVD_REPORT_LOST_RANK, /* a rank that others have lost, and nobody has reported */
    HVD_REPORT_AWAITED,   /* a rank that a stalled tensor waited for, which ended the job */
    HVD_REPORT_ABSENT,    /* a rank that comes to no horovod_init any more, where others wait */
    HVD_REPORT_MISSING,   /* a rank that has not come to horovod_init, where others wait */
    HVD_REPORT_UNHEARD,   /* one of several ranks whose reports are lost */
    HVD_REPORT_CUT_OFF,   /* a rank that Open MPI ended: its connection to another one broke */
    HVD_REPORT_ABORTED,   /* a job that was aborted, after which each rank ended with 0 */
    HVD_REPORT_LOST_SRUN, /* mpirun has lost the srun of its daemons on more than one host */
    HVD_REPORT_LOST_HOST, /* mpirun has lost its daemon there, or never heard of it again */
};

/* What the wrapper has to report. */
enum hvd_report_notice {
    HVD_NOTICE_END,   /* the process has ended */
    HVD_NOTICE_WAITS, /* it is within horovod_init for a while, of a job of all processes: again and
                       * again, for as long as that is so */
    HVD_NOTICE_WAITS_SOME,  /* of a job of some */
    HVD_NOTICE_FINAL,       /* it is within MPI_Finalize, and joins no job any more */
    HVD_NOTICE_WAITS_FINAL, /* ... and has been for a while: again and again */
    HVD_NOTICE_STOPPED, /* it stands still before horovod_init, in MPI_Init or after its jobs: again
                           and again */
    HVD_NOTICE_GOES_ON, /* it neither waits nor is stopped any more */
};

/* How a rank ended other than well: with exit code 0 after horovod_shutdown, or without
 * horovod_init. */
struct hvd_report {
    enum hvd_report_kind kind;
    int64_t rank; /* LOST_HOST: the first one there; UNHEARD: the first one */
    char host[HVD_HOST_NAME_MAX + 1];
    int64_t n_ranks; /* UNHEARD: how many there are */
    int exit_code;   /* when signal is 0 */
    int signal;      /* the signal that killed it, or 0 */
    enum hvd_rank_phase phase;
    enum hvd_report_notice notice;
    int64_t waited_ms;   /* within horovod_init, of a rank that waits ... */
    int64_t warning_ms;  /* ... after which others are to be named; 0: never */
    int64_t shutdown_ms; /* ... after which it gives up; 0: never */
    int64_t follows;     /* 1 + the rank because of which its job has ended; 0: none is known */
    bool was_stopped;    /* the wrapper had been told to end it: a consequence, not a cause */
    bool has_raised;     /* an exception that nothing caught ended it: Python has said so */
    bool has_aborted;    /* it has left MPI as it was, as after a job that was aborted */
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

/* The same from what Python said of the exception that ended the rank, one line: that is the cause,
 * whatever was written behind it. Empty words change nothing. */
void hvd_report_take_exception(struct hvd_report *report, const char *words);

/* The same from what the library had told the program of the end of its job, where that names a
 * rank: how the program ended then is a consequence, unless a signal other than its own did it. */
void hvd_report_take_cause(struct hvd_report *report, const char *words);

/*
 * Writes the report as the line that the wrapper sends and hvd_report_stream_feed recognises:
 * HVD_ERR_TOO_LARGE when it does not fit. The nonce is one run's secret, so that no program's
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
    bool has_excepted; /* a rank that was stopped had an exception of its own before */
    struct hvd_report excepted;
    int64_t n_ended;               /* ranks that were reported, also as good */
    int64_t n_stopped;             /* of them those that mpirun stopped */
    const struct hvd_hosts *hosts; /* borrowed; NULL: not known */
    bool *reported;                /* by host: a rank there has reported its end; owned */
    bool has_lost;                 /* a host or a rank of which nothing is heard */
    struct hvd_report lost;
    bool has_absent; /* a rank joins no job any more */
    struct hvd_report absent;
    bool has_joined;             /* a rank has come to horovod_init */
    bool blames_absent;          /* at the end: the job has failed because of that rank */
    int mpirun_code;             /* its exit code, set before the end; 0: it is not known */
    int64_t waiting;             /* 1 + the rank that was the first to wait since; 0: none */
    bool is_stuck;               /* it goes on to wait */
    struct hvd_missing *missing; /* who has not come, where others wait; owned; may be NULL */
    int64_t now_ms;              /* set before each feed: any clock that goes forward */
    bool has_remark;             /* a line about who is missing is to be shown */
    bool has_text;               /* mpirun's own words named a rank */
    struct hvd_report text;
    int64_t _exited_rank; /* 1 + the one because of which mpirun ended, by its own words; 0: none */
    bool has_aborted;     /* and that one did not finalise MPI */
    struct hvd_report aborted;
    bool has_abandoned; /* a rank that ended well has left MPI as it was: mpirun has to end */
    struct hvd_report abandoned;
    size_t _hung_up; /* 1 + the host whose ssh has ended, by its own words; 0: none */
    bool has_srun;   /* one srun keeps the daemons on other hosts: they end together */
    bool has_broken; /* Open MPI 5 ended ranks whose connection to another one broke */
    bool has_cut_off;
    struct hvd_report cut_off; /* the first rank that may be one of them */
    bool is_cut_off_first;     /* no rank had failed before */
    bool shows_banners;        /* mpirun's own, although the launcher names the cause */
    bool hides_banners;        /* although no rank failed: the launcher has another cause to name */
    struct hvd_banner_filter _banners;
    char _recent[2 * HVD_REPORT_RECENT]; /* what passed last, of all ranks */
    size_t _n_recent;
    char _held[HVD_REPORT_MAX]; /* the beginning of what may be a report */
    size_t _n_held;
    char _line[HVD_REPORT_MAX]; /* the current line of mpirun, cut at this length */
    size_t _n_line;
    size_t _n_own;      /* of mpirun's own texts, that may be followed by a byte 0 */
    bool _is_of_daemon; /* within mpirun's words about a daemon that has ended */
};

/* Prepares a stream that looks for reports with that nonce. The hosts that ranks run on are
 * borrowed; NULL: not known, then a host that is lost is found in mpirun's own words alone, as it
 * is without memory. */
void hvd_report_stream_init(struct hvd_report_stream *stream, const char *nonce,
                            const struct hvd_hosts *hosts);

/* Which process mpirun is: its own stack is held back as its banners are. */
void hvd_report_stream_set_mpirun(struct hvd_report_stream *stream, int64_t pid);

/* Frees what the stream owns. */
void hvd_report_stream_fini(struct hvd_report_stream *stream);

/* Takes bytes and appends all of them that belong to no report to pass. Fails as hvd_buf_add. */
hvd_status_t hvd_report_stream_feed(struct hvd_report_stream *stream, struct hvd_strview data,
                                    struct hvd_buf *pass);

/* A line that is to be shown about ranks that others wait for, once; NULL: none. It stays valid
 * until the stream is fed again. */
const char *hvd_report_stream_remark(struct hvd_report_stream *stream);

/* Whether bytes are held back that hvd_report_stream_idle would pass on. */
bool hvd_report_stream_is_holding(const struct hvd_report_stream *stream);

/* Nothing has come for a while: appends what may have been the beginning of a banner. Fails as
 * hvd_buf_add. */
hvd_status_t hvd_report_stream_idle(struct hvd_report_stream *stream, struct hvd_buf *pass);

/* Appends what was held back, with mpirun's banners where nobody is to blame, and completes what is
 * known of failures: to be called at the end of the stream. Fails as hvd_buf_add. */
hvd_status_t hvd_report_stream_finish(struct hvd_report_stream *stream, struct hvd_buf *pass);

/*
 * Who is to blame: the first rank that failed by itself, or the one that its message blames; else
 * the host that is lost. Never a rank that was stopped and had no failure of its own, nor, where
 * another one failed, one that Open MPI 5 ended because its connection broke. NULL when nobody is
 * known.
 */
const struct hvd_report *hvd_report_stream_failure(const struct hvd_report_stream *stream);

/* Whether a rank has failed, by what wrappers have reported, or mpirun has begun to stop ranks that
 * it was not asked to stop: then it has to end soon. */
bool hvd_report_stream_is_ending(const struct hvd_report_stream *stream, bool was_asked);

/* Whether a rank has reported a failure: without one a job that is ending was aborted, and ranks
 * have ended with 0, or were stopped. */
bool hvd_report_stream_has_failure(const struct hvd_report_stream *stream);

/* Whether the rank had an exception of its own before it was stopped: its last words are those. */
bool hvd_report_has_exception(const struct hvd_report *report);

/* Whether the rank ended well: with 0, and not in the middle of its job, or because it had to. */
bool hvd_report_is_good(const struct hvd_report *report);

/* Whether ranks wait within horovod_init for one that has ended, or is within MPI_Finalize, or for
 * longer than they are to wait for any: it is the failure then, and the job has to be stopped. */
bool hvd_report_stream_is_stuck(const struct hvd_report_stream *stream);

/* The exit code that says the same: the rank's, or 128 + signal; 1 where it has none. */
int hvd_report_exit_code(const struct hvd_report *report);

/*
 * Why mpirun ended although no rank failed: the first paragraph of its own that passed, as one
 * line. size is at least 1; "" when there is none.
 */
void hvd_report_stream_refusal(const struct hvd_report_stream *stream, char *out, size_t size);

#endif
