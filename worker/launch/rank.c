/*
 * The wrapper that mpirun starts in place of each rank. It unpacks the environment, runs the
 * program in a process group of its own, passes signals on, and puts the rank before each line of
 * output. It reports how the program ended, if not with 0, with its last lines. mpirun itself has
 * no information about memory cgroups, or about the host's name in the list.
 *
 * Nothing may be left behind. When the daemon above dies, SIGHUP makes the wrapper kill the group.
 * When the wrapper dies, the kernel kills the program, and the guard kills its children. When the
 * program ends, the wrapper kills its children.
 */
#include "worker/launch/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rank_state.h"
#include "worker/launch/core/environment.h"
#include "worker/launch/core/exit_codes.h"
#include "worker/launch/core/packet.h"
#include "worker/launch/core/prefix.h"
#include "worker/launch/core/report.h"
#include "worker/launch/core/tail.h"
#include "worker/launch/core/waits.h"
#include "worker/launch/guard.h"
#include "worker/launch/here.h"
#include "worker/launch/output.h"
#include "worker/launch/process.h"
#include "worker/launch/session.h"

#define FLUSH_AFTER_MS 100 /* then an incomplete line is shown */
#define KILL_AFTER_MS 800  /* before mpirun kills the wrapper, 1 s after SIGTERM */
#define READ_BEFORE_MS 200 /* mpirun's time to read the output before a report */
#define READ_END_MS 2000   /* mpirun's time to read the report of the end */
#define YIELD_MS 2000      /* time of the rank to blame for its own end */
#define STAY_MS 10000      /* after the grace, for the launcher to stop mpirun */
#define LOOK_MS 2000       /* longest time between looks at the rank's state */
#define LOOK_AGAIN_MS 1000 /* shortest time between them */
#define DRAIN_MS 1000      /* wait for output after the program's end */
#define OUTPUT_MAX ((size_t)1 << 20)
#define CHUNK_BYTES 16384

struct stream {
    int from; /* the program's output; -1: ended */
    int to;
    struct hvd_prefix prefix;
    struct hvd_output file;
    struct hvd_tail tail;
};

struct wrapper {
    const char *nonce;
    const char *rank;
    const char *folder; /* for files with a copy of the output, or NULL */
    char **command;
    bool has_prefix;
    bool has_stamp;
    bool has_packets; /* standard output goes to standard error, in packets */
    int signals;      /* a signalfd */
    int guard;        /* pipe to the guard; -1: none */
    struct stream streams[2];
    uint64_t n_reads; /* from both */
    pid_t pid;
    bool has_ended;
    int status; /* from waitpid */
    bool was_stopped;
    int64_t grace_ms;
    int64_t kill_at_ms; /* 0: not planned */
    int64_t leave_at_ms;
    bool is_gentle;  /* the launcher stops mpirun only once all programs have ended */
    bool must_leave; /* mpirun has asked this process to end */
    bool is_behind;  /* the program failed because of another rank */
    int64_t oom_kills_before;
    struct hvd_waits waits;  /* how long the rank is in horovod_init, or stopped */
    bool is_final;           /* the launcher has the notice of MPI_Finalize */
    char chunk[CHUNK_BYTES]; /* for one read */
};

/* Replaces the variables that carried the environment by the launcher's variables. */
static hvd_status_t unpack_environment(struct hvd_err *err)
{
    struct hvd_buf text = {0};
    struct hvd_args entries = {0};
    char name[64] = HVD_LAUNCH_ENV;
    hvd_status_t st = HVD_OK;
    const char *part;

    hvd_buf_init(&text, HVD_LAUNCH_ENV_MAX);
    for (int i = 1; st == HVD_OK && (part = getenv(name)) != NULL; i++) {
        st = hvd_buf_puts(&text, part);
        (void)unsetenv(name);
        (void)snprintf(name, sizeof(name), HVD_LAUNCH_ENV "_%d", i);
    }
    if (st == HVD_OK && text.len > 0)
        st = hvd_environment_decode(text.data, &entries, err);
    for (size_t i = 0; i < entries.n && st == HVD_OK; i++) {
        char *equals = strchr(entries.items[i], '=');

        *equals = '\0';
        if (setenv(entries.items[i], equals + 1, 1) != 0)
            st = HVD_ERR_NOMEM;
    }
    hvd_args_fini(&entries);
    hvd_buf_fini(&text);
    return st;
}

/* Opens a terminal without any processing, like those that mpirun gives its own children; -1 when
 * there is none. */
static int open_terminal(int *program_end)
{
    int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[128];
    struct termios raw;

    if (ours < 0)
        return -1;
    if (grantpt(ours) != 0 || unlockpt(ours) != 0 || ptsname_r(ours, name, sizeof(name)) != 0 ||
        (*program_end = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        (void)close(ours);
        return -1;
    }
    if (tcgetattr(*program_end, &raw) == 0) {
        cfmakeraw(&raw);
        (void)tcsetattr(*program_end, TCSANOW, &raw);
    }
    return ours;
}

/*
 * Opens a stream for the program's output. If mpirun gave the wrapper a terminal, as it does for
 * stdout, the program gets one too. So it flushes its lines as it would without the wrapper.
 */
static hvd_status_t open_stream(struct wrapper *w, int fd, int *program_end, struct hvd_err *err)
{
    struct stream *stream = &w->streams[fd - 1];
    int ends[2] = {-1, -1};

    const struct hvd_output_name name = {.dir = w->folder,
                                         .rank = w->rank,
                                         .size = getenv("OMPI_COMM_WORLD_SIZE"),
                                         .stream = fd == 1 ? "stdout" : "stderr"};

    hvd_prefix_init(&stream->prefix, w->rank, name.stream);
    if (!w->has_prefix)
        stream->prefix.text[0] = '\0';
    stream->file.has_stamp = w->has_stamp;
    if (w->folder && hvd_output_open(&stream->file, &name, err) < 0)
        return HVD_ERR_SYSTEM;
    if (isatty(fd))
        stream->from = open_terminal(program_end);
    if (stream->from >= 0)
        return HVD_OK;
    if (hvd_process_pipe(ends, err) < 0)
        return HVD_ERR_SYSTEM;
    stream->from = ends[0];
    *program_end = ends[1];
    return HVD_OK;
}

static hvd_status_t start(struct wrapper *w, struct hvd_err *err)
{
    struct hvd_spawn spawn = {.argv = w->command, .fds = {-1, -1, -1}, .death_signal = SIGKILL};
    hvd_status_t st = HVD_OK;

    for (int fd = 1; fd <= 2 && st == HVD_OK; fd++)
        st = open_stream(w, fd, &spawn.fds[fd], err);
    if (st == HVD_OK)
        st = hvd_process_spawn(&spawn, &w->pid, err);
    if (st == HVD_OK)
        hvd_guard_watch(w->guard, w->pid);
    hvd_process_close(&spawn.fds[1]);
    hvd_process_close(&spawn.fds[2]);
    return st;
}

/* The time of day followed by a blank, or "". */
static const char *stamp(const struct wrapper *w, char *out, size_t size)
{
    struct timespec now = {0};
    struct tm utc;
    size_t len;

    out[0] = '\0';
    if (!w->has_stamp)
        return out;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    len = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out + len, size - len, ".%03ldZ ", now.tv_nsec / 1000000);
    return out;
}

/* Writes lines in a way that mpirun passes on whole. */
static void give_out(const struct wrapper *w, const struct stream *stream, struct hvd_strview text)
{
    char packet[PIPE_BUF];

    if (!w->has_packets || stream != &w->streams[0]) {
        hvd_process_write_lines(stream->to, text.data, text.len);
        return;
    }
    while (text.len > 0) {
        const size_t n = hvd_packet_cut(text, sizeof(packet) - HVD_PACKET_HEAD_LEN);

        hvd_packet_head(w->nonce, n, packet);
        memcpy(packet + HVD_PACKET_HEAD_LEN, text.data, n);
        hvd_process_write_all(STDERR_FILENO, packet, HVD_PACKET_HEAD_LEN + n);
        text.data += n;
        text.len -= n;
    }
}

/* Moves the program's output; with is_idle an incomplete line, too. */
static void carry(struct wrapper *w, struct stream *stream, bool is_idle)
{
    char when[64];
    struct hvd_buf out = {0};
    ssize_t n = is_idle ? 0 : read(stream->from, w->chunk, sizeof(w->chunk));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    hvd_buf_init(&out, OUTPUT_MAX);
    (void)stamp(w, when, sizeof(when));
    if (n > 0) {
        const struct hvd_strview data = {.data = w->chunk, .len = (size_t)n};

        stream->tail.order = ++w->n_reads;
        hvd_tail_add(&stream->tail, data);
        hvd_output_write(&stream->file, when, data);
        (void)!hvd_prefix_feed(&stream->prefix, when, data, &out);
    } else
        (void)!hvd_prefix_flush(&stream->prefix, when, &out);
    if (n <= 0 && !is_idle)
        hvd_process_close(&stream->from);
    if (out.len > 0)
        give_out(w, stream, (struct hvd_strview){.data = out.data, .len = out.len});
    hvd_buf_fini(&out);
}

/* Sends a signal to the program's group. The group of an ended program may be another's by now. */
static void pass_on(const struct wrapper *w, int number)
{
    if (!w->has_ended)
        (void)kill(-w->pid, number);
}

static void take_stop(struct wrapper *w, int number)
{
    const int64_t now_ms = hvd_process_now_ms();

    if (number == HVD_RANK_STOP_SIGNAL && w->is_gentle)
        return;
    if (number == HVD_RANK_STOP_SIGNAL) {
        w->was_stopped = w->was_stopped || !w->has_ended;
        w->is_gentle = true;
        w->kill_at_ms = now_ms + w->grace_ms;
        w->leave_at_ms = w->kill_at_ms + STAY_MS;
        pass_on(w, SIGTERM);
        return;
    }
    if (number == SIGHUP || number == SIGTERM || number == SIGINT || number == SIGQUIT) {
        w->was_stopped = w->was_stopped || !w->has_ended;
        w->must_leave = true;
        if (w->kill_at_ms == 0 || w->kill_at_ms > now_ms + KILL_AFTER_MS)
            w->kill_at_ms = now_ms + KILL_AFTER_MS;
    }
    pass_on(w, number == SIGHUP ? SIGKILL : number);
}

static void take_signal(struct wrapper *w)
{
    struct signalfd_siginfo info;

    if (read(w->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo == SIGCHLD) {
        w->has_ended = w->has_ended || waitpid(w->pid, &w->status, WNOHANG) == w->pid;
        return;
    }
    take_stop(w, (int)info.ssi_signo);
}

/* Waits for an event and handles it; false when none came within timeout_ms. */
static bool step(struct wrapper *w, int timeout_ms)
{
    struct pollfd fds[3] = {{.fd = w->signals, .events = POLLIN},
                            {.fd = w->streams[0].from, .events = POLLIN},
                            {.fd = w->streams[1].from, .events = POLLIN}};
    int n = poll(fds, 3, timeout_ms);

    if (n <= 0)
        return n < 0 && errno == EINTR;
    for (size_t i = 0; i < 2; i++)
        if (fds[i + 1].revents)
            carry(w, &w->streams[i], false);
    if (fds[0].revents)
        take_signal(w);
    return true;
}

/* Waits until mpirun has read all that was written. So a report reaches mpirun in one piece, and
 * before this process ends. mpirun's daemon passes on what it has read before the end, and may drop
 * the rest. */
static void wait_until_read(int fd, int limit_ms)
{
    int unread = 0;

    for (int i = 0; i < limit_ms && ioctl(fd, FIONREAD, &unread) == 0 && unread > 0; i++)
        (void)poll(NULL, 0, 1);
}

static void send_report(const struct wrapper *w, const struct hvd_report *report)
{
    char line[HVD_REPORT_MAX];

    if (hvd_report_format(report, w->nonce, line, sizeof(line)) != HVD_OK)
        return;
    wait_until_read(STDERR_FILENO, READ_BEFORE_MS);
    hvd_process_write_all(STDERR_FILENO, line, strlen(line));
}

/* Sends the notice that the rank is in MPI_Finalize and joins no further job. Its last words are
 * those of an exception, if it had one. */
static void notice_final(struct wrapper *w)
{
    struct hvd_report notice = {.rank = strtol(w->rank, NULL, 10),
                                .limit_bytes = INT64_MAX,
                                .phase = hvd_rank_state_get(),
                                .notice = HVD_NOTICE_FINAL,
                                .was_stopped = true};

    (void)gethostname(notice.host, sizeof(notice.host) - 1);
    hvd_report_take_words(&notice, &w->streams[0].tail, &w->streams[1].tail);
    if (notice.words == HVD_WORDS_UNKNOWN) {
        notice.was_stopped = false;
        hvd_report_take_words(&notice, &w->streams[0].tail, &w->streams[1].tail);
    }
    send_report(w, &notice);
    w->is_final = true;
}

/* Whether the rank is stopped while its library cannot name it: before it is in a job, or after. */
static bool is_stopped(const struct wrapper *w, enum hvd_rank_phase phase)
{
    const pid_t pid = hvd_rank_state_pid();

    if (phase == HVD_RANK_MEETING || phase == HVD_RANK_RUNNING)
        return false;
    return hvd_process_is_stopped(pid > 0 ? pid : w->pid);
}

/* Sends a notice about a rank that waits in horovod_init or in MPI_Finalize, or is stopped. It may
 * wait for a rank that never comes there: only the launcher knows which ranks have ended, are about
 * to end, or have not come. */
static void look_at_rank(struct wrapper *w)
{
    const int64_t now_ms = hvd_process_now_ms();
    struct hvd_report notice = {.rank = strtol(w->rank, NULL, 10),
                                .host = "-",
                                .limit_bytes = INT64_MAX,
                                .phase = hvd_rank_state_get(),
                                .warning_ms = hvd_rank_state_warning_ms(),
                                .shutdown_ms = hvd_rank_state_shutdown_ms()};

    if (!w->is_final && hvd_rank_state_is_final())
        notice_final(w);
    if (w->waits.last_ms > 0 && now_ms - w->waits.last_ms < LOOK_AGAIN_MS)
        return;
    const struct hvd_waits_view view = {.phase = notice.phase,
                                        .n_joins = hvd_rank_state_joins(),
                                        .joins_all = hvd_rank_state_joins_all(),
                                        .is_final = w->is_final,
                                        .is_stopped = is_stopped(w, notice.phase)};
    if (!hvd_waits_look(&w->waits, &view, now_ms, &notice.notice))
        return;
    notice.waited_ms = w->waits.waited_ms;
    send_report(w, &notice);
}

/* The longest wait for an event. */
static int poll_timeout_ms(const struct wrapper *w, bool is_holding)
{
    if (w->kill_at_ms || w->has_ended || is_holding)
        return FLUSH_AFTER_MS;
    return LOOK_MS;
}

/* Runs until the program has ended and all its output has been moved. */
static void watch(struct wrapper *w)
{
    int64_t until_ms = 0;

    while (!w->has_ended || w->streams[0].from >= 0 || w->streams[1].from >= 0) {
        bool is_holding = hvd_prefix_is_holding(&w->streams[0].prefix) ||
                          hvd_prefix_is_holding(&w->streams[1].prefix);

        if (w->has_ended && until_ms == 0) {
            (void)kill(-w->pid, SIGKILL);
            until_ms = hvd_process_now_ms() + DRAIN_MS;
        }
        if (until_ms && hvd_process_now_ms() > until_ms)
            break;
        if (!w->has_ended)
            look_at_rank(w);
        if (!step(w, poll_timeout_ms(w, is_holding)) && is_holding) {
            carry(w, &w->streams[0], true);
            carry(w, &w->streams[1], true);
        }
        if (!w->has_ended && w->kill_at_ms && hvd_process_now_ms() >= w->kill_at_ms) {
            (void)kill(-w->pid, SIGKILL);
            w->kill_at_ms = 0;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        char when[64];

        carry(w, &w->streams[i], true);
        hvd_output_close(&w->streams[i].file, stamp(w, when, sizeof(when)));
    }
    (void)kill(-w->pid, SIGKILL);
}

/* Whether an exception ended the rank, and not one of the processes that it had started. */
static bool has_raised(const struct wrapper *w)
{
    const pid_t raised = hvd_rank_state_raised();

    return raised > 0 && (raised == w->pid || raised == hvd_rank_state_pid());
}

/* Reports the end of the rank to the launcher, and returns the exit code for mpirun. */
static int report(struct wrapper *w)
{
    struct hvd_report end = {.rank = strtol(w->rank, NULL, 10), .limit_bytes = INT64_MAX};
    int code;

    if (WIFSIGNALED(w->status))
        end.signal = WTERMSIG(w->status);
    else
        end.exit_code = WEXITSTATUS(w->status);
    end.was_stopped = w->was_stopped;
    end.phase = hvd_rank_state_get();
    end.follows = hvd_rank_state_blamed() + 1;
    code = hvd_report_is_good(&end) ? 0 : hvd_report_exit_code(&end);
    end.has_raised = code != 0 && has_raised(w);
    end.has_aborted = hvd_rank_state_keeps_mpi();
    if (code != 0)
        hvd_report_take_words(&end, &w->streams[0].tail, &w->streams[1].tail);
    if (end.has_raised && !end.was_stopped)
        hvd_report_take_exception(&end, hvd_rank_state_words());
    if ((code != 0 || end.has_aborted) &&
        hvd_rank_state_joins_all()) /* ranks have the numbers of horovodrun */
        hvd_report_take_cause(&end, hvd_rank_state_cause());
    (void)gethostname(end.host, sizeof(end.host) - 1);
    if (code == HVD_EXIT_SIGNAL + SIGKILL && !w->was_stopped &&
        hvd_here_oom_kills() > w->oom_kills_before) {
        end.is_oom = true;
        end.limit_bytes = hvd_here_memory_limit();
    }
    send_report(w, &end);
    wait_until_read(STDERR_FILENO, READ_END_MS);
    w->is_behind = code != 0 && hvd_rank_state_blamed() >= 0 && !w->was_stopped;
    return code;
}

static hvd_status_t block_signals(struct wrapper *w, struct hvd_err *err)
{
    static const int watched[] = {SIGCHLD, SIGHUP,  SIGINT,  SIGTERM, SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGCONT, SIGALRM, SIGWINCH};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        (void)sigaddset(&set, watched[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* beyond ulimit -f a write fails */
    w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signals < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot watch signals: %s", strerror(errno));
    return HVD_OK;
}

/*
 * Delays the wrapper's end, because mpirun kills the other ranks as soon as one is gone. After a
 * gentle stop it stays until all programs have had their grace. If another rank is to blame, it
 * stays until that one may have ended by itself and reported how. mpirun ends both waits with
 * SIGTERM, or by its own end.
 */
static void stay(struct wrapper *w)
{
    if (w->is_behind && !w->is_gentle)
        w->leave_at_ms = hvd_process_now_ms() + YIELD_MS;
    while ((w->is_gentle || w->is_behind) && !w->must_leave &&
           hvd_process_now_ms() < w->leave_at_ms) {
        struct pollfd fd = {.fd = w->signals, .events = POLLIN};

        if (poll(&fd, 1, FLUSH_AFTER_MS) > 0)
            take_signal(w);
    }
}

/* Starts the program, watches it and reports its end; returns the exit code of the wrapper. */
static int run(struct wrapper *w)
{
    struct hvd_err err = {0};
    hvd_status_t st = block_signals(w, &err);
    char line[HVD_ERR_MSG_MAX + 64];

    if (st == HVD_OK)
        st = unpack_environment(&err);
    if (st == HVD_OK)
        st = hvd_session_share(&err);
    w->oom_kills_before = hvd_here_oom_kills();
    (void)hvd_rank_state_create();
    if (st == HVD_OK)
        st = hvd_guard_start(&w->guard, &err);
    if (st == HVD_OK)
        st = start(w, &err);
    if (st < 0) {
        (void)snprintf(line, sizeof(line), "horovodrun: rank %s: %s\n", w->rank,
                       err.msg[0] ? err.msg : hvd_status_str(st));
        hvd_process_write_all(STDERR_FILENO, line, strlen(line));
        hvd_tail_add(&w->streams[1].tail,
                     hvd_strview_of(err.msg[0] ? err.msg : hvd_status_str(st)));
        w->status = (st == HVD_ERR_NOT_FOUND ? HVD_EXIT_NOT_FOUND : HVD_EXIT_NOT_EXECUTABLE) << 8;
        return report(w);
    }
    watch(w);
    hvd_guard_release(&w->guard);
    const int code = report(w);
    stay(w);
    return code;
}

/* Reads the arguments. */
static void take_arguments(struct wrapper *w, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    rank = rank ? rank : getenv("PMIX_RANK");
    w->rank = rank ? rank : "0";
    w->nonce = argv[2];
    w->has_stamp = strcmp(argv[3], HVD_RANK_STAMP) == 0;
    w->has_prefix = w->has_stamp || strcmp(argv[3], HVD_RANK_PREFIX) == 0;
    w->folder = strcmp(argv[4], HVD_RANK_NO_FILES) == 0 ? NULL : argv[4];
    w->grace_ms = strtoll(argv[5], NULL, 10);
    w->has_packets =
        strcmp(argv[6], HVD_RANK_PACKETS) == 0 && strlen(w->nonce) == HVD_PACKET_NONCE_LEN;
    w->command = argv + 7;
    w->signals = w->guard = -1;
    for (int i = 0; i < 2; i++) {
        w->streams[i].from = w->streams[i].file.fd = -1;
        w->streams[i].to = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
    }
}

static int refuse(const char *why, int code)
{
    hvd_process_write_all(STDERR_FILENO, why, strlen(why));
    return code;
}

int hvd_rank_exec(int argc, char **argv)
{
    pid_t daemon = getppid();
    struct wrapper *w;
    int code;

    if (argc < 8)
        return refuse("horovodrun: " HVD_RANK_EXEC " is for mpirun alone\n", HVD_EXIT_USAGE);
    (void)prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (getppid() != daemon)
        return HVD_EXIT_SIGNAL + SIGHUP;
    w = hvd_calloc(1, sizeof(*w)); /* on the heap: a stack may be small (ulimit -s) */
    if (!w)
        return refuse("horovodrun: out of memory\n", HVD_EXIT_NOT_EXECUTABLE);
    take_arguments(w, argv);
    /* mpirun passes on in one piece what it reads at once. */
    w->has_packets = hvd_process_keep_writes(STDERR_FILENO) && w->has_packets;
    code = run(w);
    hvd_prefix_fini(&w->streams[0].prefix);
    hvd_prefix_fini(&w->streams[1].prefix);
    hvd_guard_release(&w->guard);
    hvd_process_close(&w->signals);
    hvd_free(w);
    return code;
}
