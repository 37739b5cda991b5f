/*
 * One run of mpirun, watched. It is in a process group of its own, so that Ctrl-C in a terminal
 * reaches it once, from here, and not twice, which would make it leave its children behind.
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
#include "worker/launch/core/packet.h"
#include "worker/launch/core/report.h"
#include "worker/launch/here.h"
#include "worker/launch/outlet.h"
#include "worker/launch/process.h"
#include "worker/launch/pump.h"
#include "worker/launch/rank.h"

#define CHUNK_BYTES 16384
#define LAST_LINE_MAX 1024
#define FLUSH_AFTER_MS 100 /* what may be a banner of mpirun is shown after this silence */
#define DRAIN_MS 2000      /* how long mpirun's output is awaited after its end */
#define STOP_MS 30000      /* that mpirun has for its own stop, everywhere */
#define ASK_AGAIN_MS 5000
#define ORPHANS_MAX                                                                                \
    4096                /* of mpirun: the wrappers of this host, and an ssh for each other host    \
                         */
#define ORPHANS_MS 2000 /* that they have to end after each signal */
#define ORPHANS_LOOK_MS 20
#define GRACE_MORE_MS 3000 /* until the last wrapper must have said that its program has ended */

struct run {
    const struct hvd_job *job;
    pid_t pid;
    int from;     /* mpirun's standard error; -1 = ended */
    int from_out; /* its standard output; -1 = ended */
    int signals;
    struct hvd_pump in; /* what is typed; otherwise mpirun has standard input itself */
    struct hvd_outlet outlet;
    struct hvd_banner_filter out_banners; /* of mpirun's standard output */
    struct hvd_report_stream stream;
    struct hvd_packet_reader packets; /* within mpirun's standard error */
    struct hvd_buf packet;            /* the ranks' standard output that came in packets */
    struct hvd_buf rest;              /* of what was read: no packets */
    struct hvd_buf pass;
    bool has_ended;
    int status;
    int stop_signal;         /* the first that asked us to stop, or 0 */
    int64_t ask_at_ms;       /* within the grace: when the wrappers are told (again) */
    int64_t force_at_ms;     /* when the grace is over; 0 = there is none */
    int64_t kill_at_ms;      /* when mpirun has had its time to stop; 0 = it was not asked */
    bool has_closed_output;  /* nobody reads it: mpirun, which had not ended, was stopped */
    bool has_lost_output;    /* it goes to a file that takes no more */
    char chunk[CHUNK_BYTES]; /* for one read */
    struct hvd_deadline deadline;
    pid_t *orphans; /* what mpirun had started here when it was stopped; owned */
    size_t n_orphans;
};

/*
 * What mpirun has started here becomes this process's when mpirun ends without it: it crashes when
 * it is stopped while a daemon cannot be reached, or is killed. The wrappers end by themselves
 * then, with their programs; ssh waits for a host that may not answer any more.
 */
static void watch_orphans(struct run *run)
{
    if (!run->orphans && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0)
        run->orphans = hvd_calloc(ORPHANS_MAX, sizeof(*run->orphans));
    if (run->orphans && run->n_orphans == 0 && !run->has_ended)
        run->n_orphans = hvd_process_children(run->pid, run->orphans, ORPHANS_MAX);
}

/* Signals those that are still there, and returns how many are; number 0: none is signalled. */
static size_t signal_orphans(struct run *run, int number)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n_orphans; i++) {
        if (run->orphans[i] > 0 && waitpid(run->orphans[i], NULL, WNOHANG) != 0)
            run->orphans[i] = 0; /* it has ended, before mpirun or after */
        if (run->orphans[i] > 0)
            (void)kill(run->orphans[i], number);
        n += run->orphans[i] > 0;
    }
    return n;
}

/* mpirun has ended: what it has left here has a while to end, too, and is killed. */
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

/* One that has ended may be another's process by now. */
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

/* mpirun is to end all that it has started. */
static void stop_mpirun(struct run *run, int number)
{
    watch_orphans(run);
    run->force_at_ms = 0;
    if (run->kill_at_ms == 0)
        run->kill_at_ms = hvd_process_now_ms() + STOP_MS;
    signal_mpirun(run, number);
}

/* The first signal leaves programs their grace, the next ends that, and one more kills. */
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

/* Shows what has been put into a buffer for one of the streams, and empties it. */
static void show(struct run *run, enum hvd_stream stream, struct hvd_buf *text)
{
    if (text->len > 0)
        hvd_outlet_show(&run->outlet, stream,
                        (struct hvd_strview){.data = text->data, .len = text->len});
    hvd_buf_reset(text);
}

/* A line of the launcher's own stands alone, also behind one that a rank has not ended. */
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

/* Who is missing, where others wait. */
static void show_remark(struct run *run)
{
    const char *remark = hvd_report_stream_remark(&run->stream);

    if (remark && run->stop_signal == 0 && run->kill_at_ms == 0)
        say(run, "%s", remark);
}

/* What was no packet in the text that was read last. */
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

/* Reads a chunk of one of mpirun's streams; false where there is nothing, or no more (*from is -1
 * then, and closed). */
static bool read_chunk(struct run *run, int *from, struct hvd_strview *text)
{
    const ssize_t n = read(*from, run->chunk, sizeof(run->chunk));

    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        hvd_process_close(from);
    *text = (struct hvd_strview){.data = run->chunk, .len = n > 0 ? (size_t)n : 0};
    return n > 0;
}

/* Packets and what stands between them, in the order in which they were written. */
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

/* mpirun's standard output; that of Open MPI 5 has banners in it. */
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

/* mpirun has its time to end after a rank has failed, and no more. */
static void look_at_deadline(struct run *run, int64_t now_ms)
{
    const bool was_asked = run->stop_signal != 0 || run->has_closed_output;

    if (run->has_ended || run->job->may_go_on)
        return;
    switch (hvd_deadline_look(&run->deadline, now_ms,
                              hvd_report_stream_is_ending(&run->stream, was_asked),
                              run->force_at_ms > 0 || hvd_outlet_is_waiting(&run->outlet))) {
    case HVD_DEADLINE_STOP:
        if (run->kill_at_ms > 0) /* stopped already, for ranks that wait in vain */
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

/* What is due by the clock, or because every rank has ended that was to. */
static void look_at_clock(struct run *run)
{
    const struct hvd_pump *out = &run->outlet.pump;
    const int64_t now_ms = hvd_process_now_ms();
    const bool have_all_ended = run->stream.n_ended >= hvd_hosts_slots(run->job->hosts);

    look_at_deadline(run, now_ms);
    if (run->force_at_ms > 0 && (have_all_ended || now_ms >= run->force_at_ms))
        stop_mpirun(run, SIGTERM);
    if (run->force_at_ms > 0 && now_ms >= run->ask_at_ms && !run->has_ended) {
        /* Again, too: Open MPI 4 passes a signal that comes before its ranks run on to none. */
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

/* What was held back is no banner, and begins no packet: it is shown. Only for streams that are
 * read: the rest may be in the pipe. */
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

/* Open MPI 5 writes its banner about a daemon that has ended to standard output: it is read, and
 * held back or shown, as if it had come on standard error. */
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

/* mpirun has ended, and all that it wrote is here. */
static void finish(struct run *run)
{
    if (run->stop_signal == 0 && run->kill_at_ms == 0)
        run->stream.mpirun_code = WIFEXITED(run->status) ? WEXITSTATUS(run->status) : 0;
    run->stream.hides_banners = run->stop_signal != 0 || run->has_closed_output;
    (void)!hvd_report_stream_finish(&run->stream, &run->pass);
    show(run, HVD_STREAM_ERR, &run->pass);
}

/* How long nothing may happen. */
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

/* Whether mpirun's standard error is read whoever reads our standard output: nothing of it goes
 * there. */
static bool is_apart(const struct run *run)
{
    return !run->job->has_packets && !hvd_outlet_is_joint(&run->outlet);
}

/* Waits until something happens, and sees to it. */
static void watch_once(struct run *run)
{
    /* What mpirun has left in the pipes when it ended says why. */
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
        hvd_process_close(&run->in.to); /* the end of what is typed is passed on, too */
    if (fds[0].revents)
        take_signal(run);
}

/* Watches mpirun until it has ended and what it wrote is here; then whoever reads ours may take the
 * time that it takes, unless the job is to stop. */
static void watch(struct run *run)
{
    int64_t until_ms = 0;

    while (!run->has_ended || run->from >= 0 || run->from_out >= 0 ||
           hvd_outlet_is_waiting(&run->outlet)) {
        if (run->has_ended && until_ms == 0) {
            until_ms = hvd_process_now_ms() + DRAIN_MS;
            (void)signal_orphans(run, SIGTERM); /* which may hold the streams open */
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

/* The last words wait for whoever reads ours, too, unless the job is to stop. */
static void see_off(struct run *run)
{
    hvd_outlet_end(&run->outlet);
    while (run->stop_signal == 0 && hvd_outlet_is_waiting(&run->outlet))
        watch_once(run);
}

/*
 * What Kubernetes shows of the container's end: the last lines of the rank that failed, and the
 * last line. What the file holds already is somebody's own message and stays.
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

/* mpirun ended badly, and no rank did. */
static int conclude_refusal(struct run *run, int code)
{
    char why[LAST_LINE_MAX];

    hvd_report_stream_refusal(&run->stream, why, sizeof(why));
    say(run, "mpirun ended with code %d before any rank failed: %s", code,
        why[0] ? why : "it gave no reason");
    return code;
}

/* The last line, and the exit code that goes with it. */
static int conclude(struct run *run, const struct hvd_job *job)
{
    const struct hvd_report *failure = hvd_report_stream_failure(&run->stream);
    int code = WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
    const char *signal_name = sigdescr_np(run->stop_signal);
    char line[LAST_LINE_MAX];

    if (run->has_closed_output && !run->stop_signal && !run->stream.has_cause) {
        say(run, "standard output has no reader: the job was stopped");
        return 128 + SIGPIPE;
    }
    if (run->stop_signal && !run->stream.has_cause) {
        say(run, "stopped by signal %d (%s)", run->stop_signal,
            signal_name ? signal_name : "unknown");
        return 128 + run->stop_signal;
    }
    if (code == 0 && !(failure && (failure->kind == HVD_REPORT_LOST_HOST || run->kill_at_ms > 0)))
        return 0; /* Open MPI 5 ends with 0 where its ssh or its daemon was killed */
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
    (void)signal(SIGXFSZ, SIG_IGN); /* ulimit -f: a write fails */
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot watch signals: %s", strerror(errno));
    return HVD_OK;
}

/* The ends of mpirun's streams. Standard input stays as it is where it is no terminal: a terminal
 * cannot be read from a background process group. */
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
    /* Larger than the stack of a process may be (ulimit -s). */
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
