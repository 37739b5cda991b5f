#ifndef HVD_WORKER_LAUNCH_PUMP_H
#define HVD_WORKER_LAUNCH_PUMP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#define HVD_PUMP_BYTES 4096 /* PIPE_BUF: a pipe ready for writing accepts it at once */

/* Moves bytes from one descriptor to another, and never blocks on either. */
struct hvd_pump {
    int from; /* -1: ended */
    int to;
    bool is_terminal; /* read only while this process is in its foreground */
    bool is_broken;   /* the reader is gone */
    int failure;      /* errno of a failed write, after which all bytes are dropped; 0: none */
    size_t at;
    size_t n;
    char data[HVD_PUMP_BYTES];
};

/* Writes the event that the pump waits for to *fd. fd->fd is -1 when the pump has ended, is broken,
 * or may not read from the terminal now. In that last case the caller has to call again after a
 * while. */
void hvd_pump_poll(const struct hvd_pump *pump, struct pollfd *fd);

/* Whether the pump waits for its process to be in the foreground. */
bool hvd_pump_is_aside(const struct hvd_pump *pump);

/* Moves all that can be moved after poll. At the end of input pump->from becomes -1, without being
 * closed, and the pump is empty. */
void hvd_pump_step(struct hvd_pump *pump, const struct pollfd *fd);

/* Puts up to len bytes into an empty pump, as if it had read them; returns their number. A pump
 * that is broken, or has failed, drops all. */
size_t hvd_pump_put(struct hvd_pump *pump, const char *data, size_t len);

#endif
