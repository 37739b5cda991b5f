/*
 * Starts programs and moves their bytes. No shell is involved. A failure to execute comes back
 * through a pipe that a successful exec closes, so it is an error here and not an exit code.
 */
#include "worker/launch/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker/launch/core/exit_codes.h"
#include "worker/launch/core/packet.h"

hvd_status_t hvd_process_pipe(int ends[2], struct hvd_err *err)
{
    if (pipe2(ends, O_CLOEXEC) == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot make a pipe: %s", strerror(errno));
}

void hvd_process_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* In the child: becomes the program, or reports errno. */
_Noreturn static void become(const struct hvd_spawn *spawn, pid_t parent, int report_fd)
{
    sigset_t none;
    int failure;

    (void)setpgid(0, 0);
    if (spawn->death_signal) {
        (void)prctl(PR_SET_PDEATHSIG, spawn->death_signal);
        if (getppid() != parent)
            _exit(HVD_EXIT_NOT_FOUND);
    }
    for (int i = 0; i < 3; i++)
        if (spawn->fds[i] >= 0 && dup2(spawn->fds[i], i) < 0)
            goto failed;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)execvp(spawn->argv[0], spawn->argv);
failed:
    failure = errno;
    (void)!write(report_fd, &failure, sizeof(failure));
    _exit(HVD_EXIT_NOT_FOUND);
}

/* Whether the file exists, but not the interpreter in its first line or its header. */
static bool lacks_interpreter(const char *program, int failure)
{
    return failure == ENOENT && strchr(program, '/') && access(program, F_OK) == 0;
}

hvd_status_t hvd_process_spawn(const struct hvd_spawn *spawn, pid_t *out, struct hvd_err *err)
{
    pid_t parent = getpid();
    int report[2] = {-1, -1};
    int failure = 0;
    pid_t pid;
    hvd_status_t st = hvd_process_pipe(report, err);

    if (st < 0)
        return st;
    pid = fork();
    if (pid == 0)
        become(spawn, parent, report[1]);
    failure = pid < 0 ? errno : 0;
    hvd_process_close(&report[1]);
    while (pid > 0 && read(report[0], &failure, sizeof(failure)) < 0 && errno == EINTR)
        ;
    hvd_process_close(&report[0]);
    if (failure == 0) {
        *out = pid;
        return HVD_OK;
    }
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    return HVD_FAIL(err, failure == ENOENT ? HVD_ERR_NOT_FOUND : HVD_ERR_SYSTEM, failure,
                    "cannot run %.200s: %s%s", spawn->argv[0],
                    lacks_interpreter(spawn->argv[0], failure) ? "its interpreter is missing: "
                                                               : "",
                    strerror(failure));
}

hvd_status_t hvd_process_read_file(const char *path, struct hvd_buf *buf, struct hvd_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    hvd_status_t st = HVD_OK;
    char chunk[4096];
    ssize_t n = 0;

    if (fd < 0)
        return HVD_FAIL(err, errno == ENOENT ? HVD_ERR_NOT_FOUND : HVD_ERR_SYSTEM, errno,
                        "cannot read %s: %s", path, strerror(errno));
    while (st == HVD_OK && (n = read(fd, chunk, sizeof(chunk))) > 0)
        st = hvd_buf_add(buf, chunk, (size_t)n);
    if (n < 0)
        st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot read %s: %s", path, strerror(errno));
    else if (st < 0)
        st = HVD_FAIL(err, st, 0, "cannot read %s: %s", path, hvd_status_str(st));
    (void)close(fd);
    return st;
}

void hvd_process_write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};

            (void)poll(&wait, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return;
        } else if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

void hvd_process_write_until(int fd, const char *data, size_t len, int64_t until_ms)
{
    while (len > 0) {
        const int64_t left_ms = until_ms - hvd_process_now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        /* A pipe that is ready for writing accepts this many bytes at once. */
        const size_t n_most = len < PIPE_BUF ? len : PIPE_BUF;
        ssize_t n;

        if (poll(&wait, 1, left_ms > 0 ? (int)left_ms : 0) <= 0)
            return;
        n = write(fd, data, n_most);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

bool hvd_process_keep_writes(int fd)
{
    struct stat found;
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode) &&
           fcntl(fd, F_SETFL, flags | O_DIRECT) == 0; /* "packets": see pipe(2) */
}

void hvd_process_write_lines(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const size_t n = hvd_packet_cut((struct hvd_strview){.data = data, .len = len}, PIPE_BUF);

        hvd_process_write_all(fd, data, n);
        data += n;
        len -= n;
    }
}

int64_t hvd_process_now_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The part of /proc/PID/stat after the name, as "S 1 ..." of "7 (name) S 1 ..."; "" when there is
 * none. */
static const char *stat_of(const char *pid, char *text, size_t size)
{
    char path[64];
    const char *behind;
    int fd;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, size - 1);
    hvd_process_close(&fd);
    text[n > 0 ? n : 0] = '\0';
    behind = strrchr(text, ')');
    return behind && strlen(behind) > 4 ? behind + 2 : "";
}

static pid_t parent_of(const char *pid)
{
    char text[512];
    const char *stat = stat_of(pid, text, sizeof(text));

    return stat[0] ? (pid_t)strtol(stat + 2, NULL, 10) : 0;
}

bool hvd_process_is_stopped(pid_t pid)
{
    char text[512];
    char name[32];

    (void)snprintf(name, sizeof(name), "%d", (int)pid);
    return stat_of(name, text, sizeof(text))[0] == 'T';
}

size_t hvd_process_children(pid_t parent, pid_t *out, size_t max)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    size_t n = 0;

    while (folder && n < max && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            parent_of(entry->d_name) == parent)
            out[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
    if (folder)
        (void)closedir(folder);
    return n;
}
