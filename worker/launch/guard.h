#ifndef HVD_WORKER_LAUNCH_GUARD_H
#define HVD_WORKER_LAUNCH_GUARD_H

#include <sys/types.h>

#include "base/status.h"

/*
 * Starts a small process that outlives this one, however it dies, to kill a process group then.
 * *out_fd is how to talk to it; closing it without hvd_guard_release is taken for our death.
 * Must be called by the main thread, before any other exists. HVD_ERR_SYSTEM: there is no guard.
 */
hvd_status_t hvd_guard_start(int *out_fd, struct hvd_err *err);

/* Tells the guard which process group it is about. */
void hvd_guard_watch(int fd, pid_t group);

/* Ends the guard without harm and closes *fd, which becomes -1. A negative one is fine. */
void hvd_guard_release(int *fd);

#endif
