/*
 * Detects the end of processes of this host that share no memory with this rank. MPI reports no
 * lost peer: its calls on one stay in progress for ever. Processes that do share memory see each
 * other's end by its locks (shm/sleep.c).
 *
 * A file descriptor of a process becomes readable when the process ends, however it ends, also
 * while it is a zombie. The state of the process confirms that: programs that close what they have
 * not opened give the descriptor's number to another file. Where there is no descriptor (before
 * Linux 5.3, in a sandbox, at the limit of descriptors, or closed by the program), the state alone
 * shows the end, unless another process has the number by then.
 *
 * The thread that calls into the transport runs this.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/transport/hybrid/hybrid_internal.h"

#define LOOK_NS 100000000

hvd_status_t hvd_hybrid_watch_init(struct hvd_hybrid_watch *watch, int n, struct hvd_err *err)
{
    watch->processes = hvd_calloc((size_t)n, sizeof(watch->processes[0]));
    return watch->processes
               ? HVD_OK
               : HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the processes of this host");
}

void hvd_hybrid_watch_add(struct hvd_hybrid_watch *watch, int rank, pid_t pid)
{
    watch->processes[watch->n++] = (struct hvd_hybrid_process){.rank = rank, .pid = pid, .fd = -1};
}

void hvd_hybrid_watch_open(struct hvd_hybrid_watch *watch)
{
#ifdef SYS_pidfd_open
    for (int i = 0; i < watch->n; i++) /* the kernel sets FD_CLOEXEC */
        watch->processes[i].fd = (int)syscall(SYS_pidfd_open, watch->processes[i].pid, 0);
#else
    (void)watch;
#endif
}

/* Whether the program has left the descriptor as it was. */
static bool is_of_process(int fd)
{
    char path[32];
    char target[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    if (n < 0)
        return fcntl(fd, F_GETFD) >= 0; /* there may be no /proc */
    target[n] = '\0';
    return strstr(target, "pidfd") != NULL;
}

/* Whether a process is dead, though nothing has collected it. See proc(5): state is the 3rd field,
 * num_threads the 20th. Threads can outlive the first one, which is a zombie until they end. */
static bool is_zombie(pid_t pid)
{
    char path[32];
    char text[512];
    char state = '\0';
    long n_threads = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *behind_name = strrchr(text, ')'); /* the name may have any character */
    return behind_name &&
           sscanf(behind_name,
                  ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
                  &state, &n_threads) == 2 &&
           (state == 'Z' || state == 'X') && n_threads <= 1;
}

static bool has_ended(struct hvd_hybrid_process *process)
{
    struct pollfd wait = {.fd = process->fd, .events = POLLIN};

    if (process->fd >= 0 && !is_of_process(process->fd))
        wait.fd = process->fd = -1; /* another file may have that number: it stays open */
    if (process->fd >= 0 && poll(&wait, 1, 0) != 1)
        return false;
    return (kill(process->pid, 0) != 0 && errno == ESRCH) || is_zombie(process->pid);
}

hvd_status_t hvd_hybrid_watch_look(struct hvd_hybrid_watch *watch, int64_t now_ns,
                                   struct hvd_inbound *in, struct hvd_err *err)
{
    if (watch->n == 0 || now_ns < watch->next_look_ns)
        return HVD_INPROGRESS;
    for (int i = 0; i < watch->n; i++) {
        struct hvd_hybrid_process *process = &watch->processes[i];
        if (!process->has_ended || process->is_told)
            continue;
        process->is_told = true;
        *in = (struct hvd_inbound){.from = process->rank};
        return HVD_FAIL(err, HVD_ERR_GONE, 0, "rank %d: its process ended during the job",
                        process->rank);
    }
    for (int i = 0; i < watch->n; i++)
        watch->processes[i].has_ended =
            watch->processes[i].has_ended || has_ended(&watch->processes[i]);
    watch->next_look_ns = now_ns + LOOK_NS;
    return HVD_INPROGRESS;
}

void hvd_hybrid_watch_fini(struct hvd_hybrid_watch *watch)
{
    for (int i = 0; i < watch->n; i++)
        if (watch->processes[i].fd >= 0 && is_of_process(watch->processes[i].fd))
            close(watch->processes[i].fd);
    hvd_free(watch->processes);
    *watch = (struct hvd_hybrid_watch){0};
}
