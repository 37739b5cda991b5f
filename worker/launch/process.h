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
    int fds[3];        /* for 0, 1 and 2; -1: this process's own */
    int death_signal;  /* sent to the program when this process dies; 0: none */
};

/*
 * Starts the program in a process group of its own, with default signal handling, and returns once
 * it runs. The caller waits for its process id, *out. HVD_ERR_NOT_FOUND when there is no such
 * program, HVD_ERR_SYSTEM otherwise; then nothing runs. Only the main thread may call it.
 */
hvd_status_t hvd_process_spawn(const struct hvd_spawn *spawn, pid_t *out, struct hvd_err *err);

/* Makes a pipe whose ends are closed in programs that this process starts. HVD_ERR_SYSTEM. */
hvd_status_t hvd_process_pipe(int ends[2], struct hvd_err *err);

/* Reads a whole file into buf, whose maximum is the limit. HVD_ERR_NOT_FOUND, or HVD_ERR_SYSTEM. */
hvd_status_t hvd_process_read_file(const char *path, struct hvd_buf *buf, struct hvd_err *err);

/* Writes all bytes, and blocks where necessary. A failure is ignored, because no other output is
 * left to report it. */
void hvd_process_write_all(int fd, const char *data, size_t len);

/* As hvd_process_write_all, but waits for the reader only until until_ms, in the time of
 * hvd_process_now_ms. Bytes beyond that are lost. */
void hvd_process_write_until(int fd, const char *data, size_t len, int64_t until_ms);

/* Makes a pipe keep each write of at most PIPE_BUF bytes apart, for a reader with room for it.
 * False where fd is no pipe. */
bool hvd_process_keep_writes(int fd);

/* As hvd_process_write_all, in writes of whole lines where they fit into PIPE_BUF. */
void hvd_process_write_lines(int fd, const char *data, size_t len);

/* Closes a descriptor unless it is negative, and sets it to -1. */
void hvd_process_close(int *fd);

/* Milliseconds of the monotonic clock. */
int64_t hvd_process_now_ms(void);

/* Lists the running processes that the parent itself has started, at most max. */
size_t hvd_process_children(pid_t parent, pid_t *out, size_t max);

/* Whether a signal has stopped the process; false where a debugger holds it. */
bool hvd_process_is_stopped(pid_t pid);

#endif
