/*
 * Runs mpirun once and watches it. mpirun has a process group of its own. So Ctrl-C in a terminal
 * reaches it once, from here. A second signal would make it leave its children behind.
 */
#include "worker/launch/job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "worker/launch/core/banner.h"
#include "worker/launch/core/deadline.h"
#include "worker/launch/core/describe.h"
#include "worker/launch/core/exit_codes.h"
#include "worker/launch/core/packet.h"
#include "worker/launch/core/report.h"
#include "worker/launch/here.h"
#include "worker/launch/outlet.h"
#include "worker/launch/process.h"
#include "worker/launch/pump.h"
#include "worker/launch/rank.h"

#define CHUNK_BYTES 16384
#define LAST_LINE_MAX 1024
#define FLUSH_AFTER_MS 100 /* then a possible banner of mpirun is shown */
#define DRAIN_MS 2000      /* the wait for mpirun's output after its end */
#define STOP_MS 30000      /* mpirun's time to stop everywhere */
#define ASK_AGAIN_MS 5000
#define ORPHANS_MAX                                                                                \
    4096                /* of mpirun: the wrappers of this host, and an ssh for each other host    \
                         */
#define ORPHANS_MS 2000 /* their time to end after each signal */
#define ORPHANS_LOOK_MS 20
#define GRACE_MORE_MS 3000 /* for the last wrapper's report of its program's end */

struct run {
    const struct hvd_job *job;
    pid_t pid;
    int from;     /* mpirun's standard error; -1 = ended */
    int from_out; /* its standard output; -1 = ended */
    int signals;
    struct hvd_pump in; /* typed input; without a terminal mpirun has standard input itself */
    struct hvd_outlet outlet;
    struct hvd_banner_filter out_banners; /* of mpirun's standard output */
    struct hvd_report_stream stream;
    struct hvd_packet_reader packets; /* in mpirun's standard error */
    struct hvd_buf packet;            /* the ranks' standard output from packets */
    struct hvd_buf rest;              /* the bytes read outside of packets */
    struct hvd_buf pass;
    bool has_ended;
    int status;
    int stop_signal;         /* the first stop signal; 0: none */
    int64_t ask_at_ms;       /* within the grace: time to signal the wrappers (again) */
    int64_t force_at_ms;     /* end of the grace; 0: none runs */
    int64_t kill_at_ms;      /* end of mpirun's time to stop; 0: no stop yet */
    bool has_closed_output;  /* it has no reader: mpirun, still running, was stopped */
    bool has_lost_output;    /* its file accepts no more bytes */
    char chunk[CHUNK_BYTES]; /* for one read */
    struct hvd_deadline deadline;
    pid_t *orphans; /* processes that mpirun had started here when it was stopped; owned */
    size_t n_orphans;
};

/*
 * Adopts the processes that mpirun has started here, because mpirun may end without them. It
 * crashes when it is stopped while a daemon cannot be reached, or this process kills it. The
 * wrappers then end by themselves, with their programs. An ssh may wait for a host that does not
 * answer any more.
 */
static void watch_orphans(struct run *run)
{
    if (!run->orphans && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0)
        run->orphans = hvd_calloc(ORPHANS_MAX, sizeof(*run->orphans));
    if (run->orphans && run->n_orphans == 0 && !run->has_ended)
        run->n_orphans = hvd_process_children(run->pid, run->orphans, ORPHANS_MAX);
}

/* Signals the orphans that still run, and returns their number; with number 0 it only counts. */
static size_t signal_orphans(struct run *run, int number)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n_orphans; i++) {
        if (run->orphans[i] > 0 && waitpid(run->orphans[i], NULL, WNOHANG) != 0)
            run->orphans[i] = 0; /* it ended before mpirun, or after */
        if (run->orphans[i] > 0)
            (void)kill(run->orphans[i], number);
        n += run->orphans[i] > 0;
    }
    return n;
}

/* Ends the orphans after mpirun's end: SIGTERM, then SIGKILL after a while. */
static void end_orphans(struct run *run)
{
    static const int signals[] = {SIGTERM, SIGKILL};

    for (size_t i = 0; i < 2; i++) {
        const int64_t until_ms = hvd_process_now_ms() + ORPHANS_MS;

        if (signal_orphans(run, signals[i]) == 0)
            break;
        while (signal_orphans(run, 0) > 0 && hvd_process_now_ms() < until_ms)
            (void)poll(NULL, 0, ORPHANS_LOOK_MS);
    }
    hvd_free(run->orphans);
    run->orphans = NULL;
    run->n_orphans = 0;
}

/* Signals mpirun unless it has ended: its process id may belong to another process by then. */
static void signal_mpirun(const struct run *run, int number)
{
    if (!run->has_ended)
        (void)kill(run->pid, number);
}

static void kill_mpirun(struct run *run)
{
    watch_orphans(run);
    if (!run->has_ended)
        (void)kill(-run->pid, SIGKILL);
}

/* Stops mpirun, which ends all that it has started, and limits its time for that. */
static void stop_mpirun(struct run *run, int number)
{
    watch_orphans(run);
    run->force_at_ms = 0;
    if (run->kill_at_ms == 0)
        run->kill_at_ms = hvd_process_now_ms() + STOP_MS;
    signal_mpirun(run, number);
}

/* The first SIGTERM gives programs their grace. The next signal stops mpirun, and one more kills
 * it. Without a grace, or on any other signal, mpirun is stopped at once. */
static void take_stop(struct run *run, int number)
{
    const bool is_gentle = number == SIGTERM && run->job->grace_ms > 0;

    if (run->stop_signal == 0)
        run->stop_signal = number;
    if (run->kill_at_ms > 0) {
        kill_mpirun(run);
    } else if (run->force_at_ms > 0 || !is_gentle) {
        stop_mpirun(run, number == SIGINT ? SIGINT : SIGTERM);
    } else {
        run->force_at_ms = hvd_process_now_ms() + run->job->grace_ms + GRACE_MORE_MS;
        run->ask_at_ms = 0;
    }
}

static void take_signal(struct run *run)
{
    struct signalfd_siginfo info;
    int number;

    if (read(run->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    number = (int)info.ssi_signo;
    if (number == SIGCHLD)
        run->has_ended = run->has_ended || waitpid(run->pid, &run->status, WNOHANG) == run->pid;
    else if (number == SIGUSR1 || number == SIGUSR2)
        signal_mpirun(run, number);
    else if (number != SIGTTIN)
        take_stop(run, number);
}

/* Shows a buffer on one of the streams, and empties it. */
static void show(struct run *run, enum hvd_stream stream, struct hvd_buf *text)
{
    if (text->len > 0)
        hvd_outlet_show(&run->outlet, stream,
                        (struct hvd_strview){.data = text->data, .len = text->len});
    hvd_buf_reset(text);
}

/* Shows a line of the launcher's own. It stands alone, even after a rank's unfinished line. */
__attribute__((format(printf, 2, 3))) static void say(struct run *run, const char *format, ...)
{
    struct hvd_buf line = {0};
    char text[2 * LAST_LINE_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    hvd_buf_init(&line, sizeof(text) + 32);
    if (hvd_buf_printf(&line, "horovodrun: %s\n", text) == HVD_OK)
        hvd_outlet_say(&run->outlet, (struct hvd_strview){.data = line.data, .len = line.len});
    hvd_buf_fini(&line);
}

/* Shows a line about missing ranks, if one is due. */
static void show_remark(struct run *run)
{
    const char *remark = hvd_report_stream_remark(&run->stream);

    if (remark && run->stop_signal == 0 && run->kill_at_ms == 0)
        say(run, "%s", remark);
}

/* Processes the bytes outside of packets from the last read. */
static void take_rest(struct run *run)
{
    run->stream.now_ms = hvd_process_now_ms();
    if (run->rest.len > 0)
        (void)!hvd_report_stream_feed(
            &run->stream, (struct hvd_strview){.data = run->rest.data, .len = run->rest.len},
            &run->pass);
    hvd_buf_reset(&run->rest);
    show(run, HVD_STREAM_ERR, &run->pass);
}

/* Reads a chunk of one of mpirun's streams. Returns false when there is nothing to read; at the end
 * of the stream it also closes *from, which becomes -1. */
static bool read_chunk(struct run *run, int *from, struct hvd_strview *text)
{
    const ssize_t n = read(*from, run->chunk, sizeof(run->chunk));

    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        hvd_process_close(from);
    *text = (struct hvd_strview){.data = run->chunk, .len = n > 0 ? (size_t)n : 0};
    return n > 0;
}

/* Processes packets and the bytes between them in the order in which they were written. */
static void take_text(struct run *run)
{
    struct hvd_strview text;

    if (read_chunk(run, &run->from, &text)) {
        while (text.len > 0) {
            (void)!hvd_packet_step(&run->packets, &text, &run->packet, &run->rest);
            show(run, HVD_STREAM_OUT, &run->packet);
            take_rest(run);
        }
    } else if (run->from < 0) {
        (void)!hvd_packet_idle(&run->packets, &run->rest);
        take_rest(run);
    }
    show_remark(run);
}

/* Reads mpirun's standard output; Open MPI 5 writes banners there. */
static void take_out(struct run *run)
{
    struct hvd_strview text;

    if (!read_chunk(run, &run->from_out, &text)) {
        if (run->from_out < 0)
            (void)!hvd_banner_idle(&run->out_banners, &run->pass);
    } else if (run->job->mpi_major < 5) {
        hvd_outlet_show(&run->outlet, HVD_STREAM_OUT, text);
    } else {
        for (size_t i = 0; i < text.len; i++)
            (void)!hvd_banner_feed(&run->out_banners, text.data[i], &run->pass);
    }
    show(run, HVD_STREAM_OUT, &run->pass);
}

/* Stops mpirun, then kills it, when its time to end after a rank's failure is over. */
static void look_at_deadline(struct run *run, int64_t now_ms)
{
    const bool was_asked = run->stop_signal != 0 || run->has_closed_output;

    if (run->has_ended || run->job->may_go_on)
        return;
    switch (hvd_deadline_look(&run->deadline, now_ms,
                              hvd_report_stream_is_ending(&run->stream, was_asked),
                              run->force_at_ms > 0 || hvd_outlet_is_waiting(&run->outlet))) {
    case HVD_DEADLINE_STOP:
        if (run->kill_at_ms > 0) /* already stopped, because ranks wait in vain */
            break;
        say(run, "mpirun has not ended %" PRId64 " s after %s: it is stopped",
            run->deadline.waited_ms / 1000,
            hvd_report_stream_has_failure(&run->stream) ? "a rank failed" : "the job was aborted");
        stop_mpirun(run, SIGTERM);
        break;
    case HVD_DEADLINE_KILL:
        kill_mpirun(run);
        break;
    case HVD_DEADLINE_WAIT:
        break;
    }
}

/* Does what is due at this time, or because all ranks have ended. */
static void look_at_clock(struct run *run)
{
    const struct hvd_pump *out = &run->outlet.pump;
    const int64_t now_ms = hvd_process_now_ms();
    const bool have_all_ended = run->stream.n_ended >= hvd_hosts_slots(run->job->hosts);

    look_at_deadline(run, now_ms);
    if (run->force_at_ms > 0 && (have_all_ended || now_ms >= run->force_at_ms))
        stop_mpirun(run, SIGTERM);
    if (run->force_at_ms > 0 && now_ms >= run->ask_at_ms && !run->has_ended) {
        /* Repeated, because Open MPI 4 drops a signal that comes before its ranks run. */
        signal_mpirun(run, HVD_RANK_STOP_SIGNAL);
        run->ask_at_ms = now_ms + ASK_AGAIN_MS;
    }
    if (run->kill_at_ms == 0 && hvd_report_stream_is_stuck(&run->stream))
        stop_mpirun(run, SIGTERM);
    if (run->kill_at_ms > 0 && now_ms >= run->kill_at_ms) {
        kill_mpirun(run);
        run->kill_at_ms = now_ms + STOP_MS;
    }
    if (out->failure && !out->is_broken && !run->has_lost_output) {
        run->has_lost_output = true;
        say(run, "standard output ends here, and the job goes on: %s", strerror(out->failure));
    }
    if (out->is_broken && !run->has_closed_output && !run->has_ended) {
        run->has_closed_output = true;
        stop_mpirun(run, SIGTERM);
    }
}

/* Shows held bytes that have become neither a banner nor a packet. Only for streams that are read:
 * otherwise the rest may still be in the pipe. */
static void pass_idle(struct run *run, bool reads_text, bool reads_out)
{
    if (reads_text) {
        (void)!hvd_packet_idle(&run->packets, &run->rest);
        take_rest(run);
        (void)!hvd_report_stream_idle(&run->stream, &run->pass);
        show(run, HVD_STREAM_ERR, &run->pass);
    }
    if (reads_out)
        (void)!hvd_banner_idle(&run->out_banners, &run->pass);
    show(run, HVD_STREAM_OUT, &run->pass);
}

/* Moves banners from standard output, where Open MPI 5 writes that about a daemon that has ended,
 * to standard error. There they are read, and held back or shown. */
static void move_banners(struct run *run)
{
    struct hvd_buf text = {0};

    if (!hvd_banner_has_whole(&run->out_banners))
        return;
    hvd_buf_init(&text, HVD_BANNER_MAX);
    if (hvd_banner_take(&run->out_banners, &text) == HVD_OK)
        (void)!hvd_report_stream_feed(
            &run->stream, (struct hvd_strview){.data = text.data, .len = text.len}, &run->pass);
    hvd_buf_fini(&text);
    show(run, HVD_STREAM_ERR, &run->pass);
}

/* Ends the stream of reports, when mpirun has ended and all its output is here. */
static void finish(struct run *run)
{
    if (run->stop_signal == 0 && run->kill_at_ms == 0)
        run->stream.mpirun_code = WIFEXITED(run->status) ? WEXITSTATUS(run->status) : 0;
    run->stream.hides_banners = run->stop_signal != 0 || run->has_closed_output;
    (void)!hvd_report_stream_finish(&run->stream, &run->pass);
    show(run, HVD_STREAM_ERR, &run->pass);
}

/* The longest wait for an event. */
static int poll_timeout_ms(const struct run *run)
{
    if (run->has_ended)
        return 50;
    if (hvd_report_stream_is_holding(&run->stream) || hvd_banner_is_holding(&run->out_banners) ||
        hvd_packet_is_holding(&run->packets) || hvd_outlet_is_holding(&run->outlet))
        return FLUSH_AFTER_MS;
    if (run->force_at_ms > 0 || run->kill_at_ms > 0 || run->deadline.last_ms > 0)
        return 200;
    return hvd_pump_is_aside(&run->in) ? 1000 : -1;
}

/* Whether mpirun's standard error is read even if our standard output has no reader: none of it
 * goes there. */
static bool is_apart(const struct run *run)
{
    return !run->job->has_packets && !hvd_outlet_is_joint(&run->outlet);
}

/* Waits for an event and handles it. */
static void watch_once(struct run *run)
{
    /* After its end mpirun's last output, with the reason, is read in any case. */
    const bool has_room = run->has_ended || hvd_outlet_has_room(&run->outlet);
    const bool reads_text = has_room || is_apart(run);
    struct pollfd fds[5] = {{.fd = run->signals, .events = POLLIN},
                            {.fd = reads_text ? run->from : -1, .events = POLLIN},
                            {.fd = has_room ? run->from_out : -1, .events = POLLIN}};

    enum hvd_merge_look look = has_room ? HVD_MERGE_IDLE : HVD_MERGE_AWAY;

    hvd_outlet_poll(&run->outlet, &fds[3]);
    hvd_pump_poll(&run->in, &fds[4]);
    if (poll(fds, 5, poll_timeout_ms(run)) <= 0) {
        pass_idle(run, reads_text, has_room);
        hvd_outlet_step(&run->outlet, NULL, look);
        return;
    }
    if (has_room && (fds[1].revents || fds[2].revents))
        look = HVD_MERGE_BUSY;
    if (fds[1].revents)
        take_text(run);
    if (fds[2].revents)
        take_out(run);
    hvd_outlet_step(&run->outlet, &fds[3], look);
    move_banners(run);
    hvd_pump_step(&run->in, &fds[4]);
    if (run->in.n == 0 && (run->in.from < 0 || run->in.is_broken))
        hvd_process_close(&run->in.to); /* passes the end of typed input on */
    if (fds[0].revents)
        take_signal(run);
}

/* Watches mpirun until it has ended and all its output is here. Then gives the reader of our output
 * any time, unless the job has to stop. */
static void watch(struct run *run)
{
    int64_t until_ms = 0;

    while (!run->has_ended || run->from >= 0 || run->from_out >= 0 ||
           hvd_outlet_is_waiting(&run->outlet)) {
        if (run->has_ended && until_ms == 0) {
            until_ms = hvd_process_now_ms() + DRAIN_MS;
            (void)signal_orphans(run, SIGTERM); /* they may hold the streams open */
        }
        watch_once(run);
        look_at_clock(run);
        if (until_ms && hvd_process_now_ms() > until_ms) {
            if (run->stop_signal)
                break;
            end_orphans(run);
            hvd_process_close(&run->from);
            hvd_process_close(&run->from_out);
        }
        if (run->has_ended && run->from < 0 && run->from_out < 0) {
            pass_idle(run, true, true);
            hvd_outlet_end(&run->outlet);
        }
    }
    if (run->stop_signal)
        hvd_outlet_part(&run->outlet);
}

/* Waits until the reader has the last words, unless the job has to stop. */
static void see_off(struct run *run)
{
    hvd_outlet_end(&run->outlet);
    while (run->stop_signal == 0 && hvd_outlet_is_waiting(&run->outlet))
        watch_once(run);
}

/*
 * Writes the container's termination message for Kubernetes: the last lines of the failed rank, and
 * the last line. A file that is not empty has the message of another program, and stays.
 */
static void write_termination_log(const char *path, const struct hvd_report *failure,
                                  const char *line)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat found;
    char text[HVD_REPORT_LOG_MAX + LAST_LINE_MAX + 32];
    int len;

    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size > 0) {
        hvd_process_close(&fd);
        return;
    }
    len = snprintf(text, sizeof(text), "%s%shorovodrun: %s\n", failure->log,
                   failure->log[0] ? "\n" : "", line);
    if (len > 0 && (size_t)len < sizeof(text))
        hvd_process_write_all(fd, text, (size_t)len);
    hvd_process_close(&fd);
}

/* Reports that mpirun failed and no rank did. */
static int conclude_refusal(struct run *run, int code)
{
    char why[LAST_LINE_MAX];

    hvd_report_stream_refusal(&run->stream, why, sizeof(why));
    say(run, "mpirun ended with code %d before any rank failed: %s", code,
        why[0] ? why : "it gave no reason");
    return code;
}

/* Shows the last line, and returns its exit code. */
static int conclude(struct run *run, const struct hvd_job *job)
{
    const struct hvd_report *failure = hvd_report_stream_failure(&run->stream);
    int code = WIFSIGNALED(run->status) ? HVD_EXIT_SIGNAL + WTERMSIG(run->status)
                                        : WEXITSTATUS(run->status);
    const char *signal_name = sigdescr_np(run->stop_signal);
    char line[LAST_LINE_MAX];

    if (run->has_closed_output && !run->stop_signal && !run->stream.has_cause) {
        say(run, "standard output has no reader: the job was stopped");
        return HVD_EXIT_NO_READER;
    }
    if (run->stop_signal && !run->stream.has_cause) {
        say(run, "stopped by signal %d (%s)", run->stop_signal,
            signal_name ? signal_name : "unknown");
        return HVD_EXIT_SIGNAL + run->stop_signal;
    }
    if (code == 0 && !(failure && (failure->kind == HVD_REPORT_LOST_HOST || run->kill_at_ms > 0)))
        return 0; /* Open MPI 5 returns 0 after its ssh or daemon was killed */
    if (!failure)
        return conclude_refusal(run, code);
    hvd_describe_report(failure, job->hosts, line, sizeof(line));
    say(run, "%s", line);
    if (job->termination_log)
        write_termination_log(job->termination_log, failure, line);
    return hvd_report_exit_code(failure);
}

static hvd_status_t block_signals(struct run *run, struct hvd_err *err)
{
    static const int watched[] = {SIGCHLD, SIGHUP,  SIGINT,  SIGTERM,
                                  SIGQUIT, SIGUSR1, SIGUSR2, SIGTTIN};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        (void)sigaddset(&set, watched[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* beyond ulimit -f a write fails */
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot watch signals: %s", strerror(errno));
    return HVD_OK;
}

/* Opens mpirun's streams. Standard input stays unchanged unless it is a terminal, which a
 * background process group cannot read. */
static hvd_status_t open_streams(struct run *run, struct hvd_spawn *spawn, struct hvd_err *err)
{
    int out[2] = {-1, -1};
    int text[2] = {-1, -1};
    int in[2] = {-1, -1};
    hvd_status_t st = hvd_process_pipe(out, err);

    if (st == HVD_OK)
        st = hvd_process_pipe(text, err);
    if (st == HVD_OK && isatty(STDIN_FILENO)) {
        st = hvd_process_pipe(in, err);
        run->in.from = STDIN_FILENO;
        run->in.to = in[1];
        run->in.is_terminal = true;
    }
    run->from_out = out[0];
    run->from = text[0];
    spawn->fds[0] = in[0];
    spawn->fds[1] = out[1];
    spawn->fds[2] = text[1];
    return st;
}

/* Starts mpirun and watches it to its end. */
static hvd_status_t run_to_end(struct run *run, int *out_code, struct hvd_err *err)
{
    struct hvd_spawn spawn = {.argv = run->job->argv, .fds = {-1, -1, -1}, .death_signal = SIGTERM};
    hvd_status_t st = block_signals(run, err);

    if (st == HVD_OK)
        st = open_streams(run, &spawn, err);
    if (st == HVD_OK)
        st = hvd_process_spawn(&spawn, &run->pid, err);
    hvd_report_stream_set_mpirun(&run->stream, run->pid);
    for (int i = 0; i < 3; i++)
        hvd_process_close(&spawn.fds[i]);
    if (st == HVD_OK) {
        watch(run);
        end_orphans(run);
        finish(run);
        *out_code = conclude(run, run->job);
        see_off(run);
    }
    hvd_process_close(&run->in.to);
    hvd_process_close(&run->from_out);
    hvd_process_close(&run->from);
    hvd_process_close(&run->signals);
    return st;
}

hvd_status_t hvd_job_run(const struct hvd_job *job, int *out_code, struct hvd_err *err)
{
    /* On the heap, because the stack may be too small for it (ulimit -s). */
    struct run *run = hvd_calloc(1, sizeof(*run));
    hvd_status_t st;

    if (!run)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory");
    run->job = job;
    run->deadline.grace_ms = job->grace_ms;
    run->from = run->from_out = run->signals = run->in.from = run->in.to = -1;
    hvd_buf_init(&run->pass, (size_t)4 * CHUNK_BYTES);
    hvd_buf_init(&run->rest, (size_t)2 * CHUNK_BYTES);
    hvd_buf_init(&run->packet, CHUNK_BYTES);
    hvd_outlet_init(&run->outlet);
    hvd_packet_init(&run->packets, job->nonce);
    hvd_report_stream_init(&run->stream, job->nonce, job->hosts);
    run->stream.shows_banners = job->is_verbose;
    run->stream.has_srun = job->has_srun;
    st = run_to_end(run, out_code, err);
    hvd_report_stream_fini(&run->stream);
    hvd_buf_fini(&run->pass);
    hvd_buf_fini(&run->rest);
    hvd_buf_fini(&run->packet);
    hvd_outlet_fini(&run->outlet);
    hvd_free(run);
    return st;
}
