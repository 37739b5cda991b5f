/*
 * One run of mpirun, watched. It is in a process group of its own, so that Ctrl-C in a terminal
 * reaches it once, from here, and not twice, which would make it leave its children behind.
 */
#include "worker/launch/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "worker/launch/core/report.h"
#include "worker/launch/process.h"

#define CHUNK_BYTES 16384
#define LAST_LINE_MAX 1024
#define DRAIN_MS 2000 /* how long mpirun's standard error is awaited after its end */

struct run {
    pid_t pid;
    int from; /* mpirun's standard error; -1 = ended */
    int signals;
    struct hvd_report_stream stream;
    struct hvd_buf pass;
    bool has_ended;
    int status;
    int stop_signal; /* the first that asked us to stop, or 0 */
};

static void take_signal(struct run *run)
{
    struct signalfd_siginfo info;
    int number;

    if (read(run->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    number = (int)info.ssi_signo;
    if (number == SIGCHLD) {
        run->has_ended = run->has_ended || waitpid(run->pid, &run->status, WNOHANG) == run->pid;
    } else if (number == SIGUSR1 || number == SIGUSR2) {
        (void)kill(run->pid, number);
    } else if (run->stop_signal == 0) {
        run->stop_signal = number;
        (void)kill(run->pid, number == SIGINT ? SIGINT : SIGTERM);
    } else {
        (void)kill(-run->pid, SIGKILL);
    }
}

static void take_text(struct run *run)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = read(run->from, chunk, sizeof(chunk));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    hvd_buf_reset(&run->pass);
    if (n > 0)
        (void)!hvd_report_stream_feed(
            &run->stream, (struct hvd_strview){.data = chunk, .len = (size_t)n}, &run->pass);
    else
        (void)!hvd_report_stream_finish(&run->stream, &run->pass);
    if (n <= 0)
        hvd_process_close(&run->from);
    if (run->pass.len > 0)
        hvd_process_write_all(STDERR_FILENO, run->pass.data, run->pass.len);
}

static void watch(struct run *run)
{
    int64_t until_ms = 0;

    while (!run->has_ended || run->from >= 0) {
        struct pollfd fds[2] = {{.fd = run->signals, .events = POLLIN},
                                {.fd = run->from, .events = POLLIN}};

        if (run->has_ended && until_ms == 0)
            until_ms = hvd_process_now_ms() + DRAIN_MS;
        if (poll(fds, 2, run->has_ended ? 50 : -1) > 0) {
            if (fds[1].revents)
                take_text(run);
            if (fds[0].revents)
                take_signal(run);
        }
        if (until_ms && hvd_process_now_ms() > until_ms)
            break;
    }
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
static int conclude_refusal(const struct run *run, int code)
{
    char why[LAST_LINE_MAX];

    hvd_report_stream_refusal(&run->stream, why, sizeof(why));
    (void)fprintf(stderr, "horovodrun: mpirun ended with code %d before any rank failed: %s\n",
                  code, why[0] ? why : "it gave no reason");
    return code;
}

/* The last line, and the exit code that goes with it. */
static int conclude(const struct run *run, const struct hvd_job *job)
{
    const struct hvd_report *failure = hvd_report_stream_failure(&run->stream);
    int code = WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
    const char *signal_name = sigdescr_np(run->stop_signal);
    char line[LAST_LINE_MAX];

    if (run->stop_signal && !run->stream.has_cause) {
        (void)fprintf(stderr, "horovodrun: stopped by signal %d (%s)\n", run->stop_signal,
                      signal_name ? signal_name : "unknown");
        return 128 + run->stop_signal;
    }
    if (code == 0)
        return 0;
    if (!failure)
        return conclude_refusal(run, code);
    hvd_report_describe(failure, job->hosts, line, sizeof(line));
    (void)fprintf(stderr, "horovodrun: %s\n", line);
    if (job->termination_log)
        write_termination_log(job->termination_log, failure, line);
    return hvd_report_exit_code(failure);
}

static hvd_status_t block_signals(struct run *run, struct hvd_err *err)
{
    static const int watched[] = {SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        (void)sigaddset(&set, watched[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot watch signals: %s", strerror(errno));
    return HVD_OK;
}

hvd_status_t hvd_job_run(const struct hvd_job *job, int *out_code, struct hvd_err *err)
{
    struct run run = {.from = -1, .signals = -1};
    struct hvd_spawn spawn = {.argv = job->argv, .fds = {-1, -1, -1}, .death_signal = SIGTERM};
    int ends[2] = {-1, -1};
    hvd_status_t st = block_signals(&run, err);

    hvd_buf_init(&run.pass, (size_t)4 * CHUNK_BYTES);
    hvd_report_stream_init(&run.stream, job->nonce);
    if (st == HVD_OK)
        st = hvd_process_pipe(ends, err);
    if (st < 0)
        goto out;
    /* A terminal cannot be read from a background process group. */
    if (isatty(STDIN_FILENO))
        spawn.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    spawn.fds[2] = ends[1];
    st = hvd_process_spawn(&spawn, &run.pid, err);
    hvd_process_close(&spawn.fds[0]);
    hvd_process_close(&ends[1]);
    run.from = ends[0];
    if (st == HVD_OK) {
        watch(&run);
        *out_code = conclude(&run, job);
    }
out:
    hvd_process_close(&run.from);
    hvd_process_close(&run.signals);
    hvd_buf_fini(&run.pass);
    return st;
}
