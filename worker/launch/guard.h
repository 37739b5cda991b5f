#ifndef HVD_WORKER_LAUNCH_GUARD_H
#define HVD_WORKER_LAUNCH_GUARD_H

#include <sys/types.h>

#include "base/status.h"

/*
 * Starts a small process that outlives this one and then kills a process group, however this one
 * dies. *out_fd is the pipe to the guard. Closing it without hvd_guard_release counts as this
 * process's death. Only the main thread may call it, before any other thread exists.
 * HVD_ERR_SYSTEM: there is no guard.
 */
hvd_status_t hvd_guard_start(int *out_fd, struct hvd_err *err);

/* Sends the guard the process group to kill. */
void hvd_guard_watch(int fd, pid_t group);

/* Ends the guard without harm and closes *fd, which becomes -1. Accepts a negative *fd. */
void hvd_guard_release(int *fd);

#endif
