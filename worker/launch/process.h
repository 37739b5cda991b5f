#ifndef HVD_WORKER_LAUNCH_PROCESS_H
#define HVD_WORKER_LAUNCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/status.h"

/* A program to start. Everything is borrowed. */
struct hvd_spawn {
    char *const *argv; /* argv[0] is looked up in PATH */
    int fds[3];        /* become 0, 1 and 2; -1 = this process's own */
    int death_signal;  /* sent to the program when this process dies; 0 = none */
};

/*
 * Starts the program in a process group of its own, with default signal handling, and returns once
 * it runs: *out is its id, to be waited for by the caller. HVD_ERR_NOT_FOUND when there is no such
 * program, HVD_ERR_SYSTEM otherwise; then nothing runs. Must be called by the main thread.
 */
hvd_status_t hvd_process_spawn(const struct hvd_spawn *spawn, pid_t *out, struct hvd_err *err);

/* Makes a pipe whose ends are closed in programs started here. HVD_ERR_SYSTEM. */
hvd_status_t hvd_process_pipe(int ends[2], struct hvd_err *err);

/* Reads a whole file into buf (which has the maximum). HVD_ERR_NOT_FOUND, or HVD_ERR_SYSTEM. */
hvd_status_t hvd_process_read_file(const char *path, struct hvd_buf *buf, struct hvd_err *err);

/* Writes everything, waiting where it must. What fails is lost: there is nobody left to tell. */
void hvd_process_write_all(int fd, const char *data, size_t len);

/* The same, but waits for whoever reads it no longer than until then, by hvd_process_now_ms: what
 * does not fit is lost. */
void hvd_process_write_until(int fd, const char *data, size_t len, int64_t until_ms);

/* Makes a pipe hand out each write of at most PIPE_BUF bytes as it is, to a reader with room for
 * so many; false where it is no pipe. */
bool hvd_process_keep_writes(int fd);

/* As hvd_process_write_all, in writes of whole lines as far as they fit into PIPE_BUF. */
void hvd_process_write_lines(int fd, const char *data, size_t len);

/* Closes a descriptor unless it is negative, and makes it -1. */
void hvd_process_close(int *fd);

/* Milliseconds of a clock that never jumps. */
int64_t hvd_process_now_ms(void);

/* The processes that the parent has started itself and that are there, at most max. */
size_t hvd_process_children(pid_t parent, pid_t *out, size_t max);

/* Whether a process was stopped by a signal; not where a debugger holds it. */
bool hvd_process_is_stopped(pid_t pid);

#endif
