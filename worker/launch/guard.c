/*
 * Cleans up after a wrapper that was killed by SIGKILL: mpirun kills wrappers whose ranks do not
 * end in time. The kernel's own help (PR_SET_PDEATHSIG) ends the program but not its children. The
 * guard holds only the reading end of a pipe, and waits until the other end is closed.
 *
 *     wrapper --group, later 0--> guard      end of file with a group left: SIGKILL to the group
 */
#include "worker/launch/guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "worker/launch/core/exit_codes.h"
#include "worker/launch/process.h"

/* Runs in the guard: closes everything but the pipe, then waits. The caller has blocked signals. */
_Noreturn static void guard(int fd)
{
    pid_t group = 0;
    pid_t message = 0;
    ssize_t n;

    (void)setsid();
    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(HVD_EXIT_OTHER);
    (void)close_range(1, ~0U, 0);
    while ((n = read(STDIN_FILENO, &message, sizeof(message))) != 0)
        if (n == (ssize_t)sizeof(message))
            group = message;
        else if (n < 0 && errno != EINTR)
            break;
    if (group > 1)
        (void)kill(-group, SIGKILL);
    _exit(0);
}

hvd_status_t hvd_guard_start(int *out_fd, struct hvd_err *err)
{
    int ends[2] = {-1, -1};
    pid_t pid;
    hvd_status_t st = hvd_process_pipe(ends, err);

    if (st < 0)
        return st;
    pid = fork();
    if (pid == 0) {
        hvd_process_close(&ends[1]);
        guard(ends[0]);
    }
    hvd_process_close(&ends[0]);
    if (pid > 0) {
        *out_fd = ends[1];
        return HVD_OK;
    }
    st = HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "cannot start a process: %s", strerror(errno));
    hvd_process_close(&ends[1]);
    return st;
}

void hvd_guard_watch(int fd, pid_t group)
{
    hvd_process_write_all(fd, (const char *)&group, sizeof(group));
}

void hvd_guard_release(int *fd)
{
    if (*fd >= 0)
        hvd_guard_watch(*fd, 0);
    hvd_process_close(fd);
}
