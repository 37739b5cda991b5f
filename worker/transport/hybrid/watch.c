/*
 * Detects the end of processes of this host that share no memory with this rank. MPI reports no
 * lost peer: its calls on one stay in progress for ever. Processes that do share memory see each
 * other's end by its locks (shm/sleep.c).
 *
 * A file descriptor of a process becomes readable when the process ends, however it ends, also
 * while it is a zombie. Where the system gives none (before Linux 5.3, in a sandbox, or at the
 * limit of descriptors), the number of the process stands in for it. It shows the end once the
 * parent has collected it, and not if another process has the number by then.
 *
 * The thread that calls into the transport runs this.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
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

static bool has_ended(const struct hvd_hybrid_process *process)
{
    struct pollfd wait = {.fd = process->fd, .events = POLLIN};

    if (process->fd >= 0)
        return poll(&wait, 1, 0) == 1;
    return kill(process->pid, 0) != 0 && errno == ESRCH;
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
        if (watch->processes[i].fd >= 0)
            close(watch->processes[i].fd);
    hvd_free(watch->processes);
    *watch = (struct hvd_hybrid_watch){0};
}
