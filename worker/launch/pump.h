#ifndef HVD_WORKER_LAUNCH_PUMP_H
#define HVD_WORKER_LAUNCH_PUMP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#define HVD_PUMP_BYTES 4096 /* PIPE_BUF: a pipe that may be written to takes so much at once */

/* Bytes on their way from one descriptor to another, without ever waiting for either. */
struct hvd_pump {
    int from; /* -1: ended */
    int to;
    bool is_terminal; /* read only while this process is in its foreground */
    bool is_broken;   /* nobody reads any more */
    int failure;      /* errno of a write that failed: the rest is dropped; 0 */
    size_t at;
    size_t n;
    char data[HVD_PUMP_BYTES];
};

/* What the pump waits for, into *fd: nothing (fd->fd is -1) when it has ended, is broken, or may
 * not read from the terminal now: then it has to be asked again after a while. */
void hvd_pump_poll(const struct hvd_pump *pump, struct pollfd *fd);

/* Whether the pump waits to be in the foreground. */
bool hvd_pump_is_aside(const struct hvd_pump *pump);

/* Moves what can be moved after poll said so. At the end of what there is to read pump->from is -1,
 * which is not closed, and nothing is left in the pump. */
void hvd_pump_step(struct hvd_pump *pump, const struct pollfd *fd);

/* Puts up to len bytes into a pump in which there is nothing, as if they had been read; returns how
 * many. A pump that is broken, or has failed, drops all. */
size_t hvd_pump_put(struct hvd_pump *pump, const char *data, size_t len);

#endif
