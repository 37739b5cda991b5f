/*
 * Moves bytes without blocking. Other programs may share a descriptor, so it must not become
 * non-blocking. Instead the caller polls first, and the pump writes no more than fits.
 */
#include "worker/launch/pump.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool hvd_pump_is_aside(const struct hvd_pump *pump)
{
    const pid_t foreground = pump->is_terminal && pump->from >= 0 ? tcgetpgrp(pump->from) : -1;

    return foreground >= 0 && foreground != getpgrp();
}

void hvd_pump_poll(const struct hvd_pump *pump, struct pollfd *fd)
{
    *fd = (struct pollfd){.fd = -1};
    if (pump->is_broken)
        return;
    if (pump->n > 0)
        *fd = (struct pollfd){.fd = pump->to, .events = POLLOUT};
    else if (!hvd_pump_is_aside(pump))
        *fd = (struct pollfd){.fd = pump->from, .events = POLLIN};
}

/* Whether the write failed because the reader is gone, of a pipe or at a terminal. A file that
 * accepts no more does not count. */
static bool has_no_reader(int failure, int fd)
{
    return failure == EPIPE || failure == ECONNRESET || (failure == EIO && isatty(fd));
}

static void drain(struct hvd_pump *pump)
{
    const ssize_t n = pump->failure ? 0 : write(pump->to, pump->data + pump->at, pump->n);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        pump->is_broken = has_no_reader(errno, pump->to);
        pump->failure = errno;
    }
    if (pump->failure)
        pump->n = 0;
    if (n <= 0)
        return;
    pump->at += (size_t)n;
    pump->n -= (size_t)n;
}

static void fill(struct hvd_pump *pump)
{
    const ssize_t n = read(pump->from, pump->data, HVD_PUMP_BYTES);

    /* A terminal answers EIO to background processes that block SIGTTIN. */
    if (n < 0 && (errno == EAGAIN || errno == EINTR || (errno == EIO && hvd_pump_is_aside(pump))))
        return;
    if (n <= 0)
        pump->from = -1;
    pump->at = 0;
    pump->n = n > 0 ? (size_t)n : 0;
}

size_t hvd_pump_put(struct hvd_pump *pump, const char *data, size_t len)
{
    const size_t n = len < HVD_PUMP_BYTES ? len : HVD_PUMP_BYTES;

    if (pump->is_broken || pump->failure)
        return len;
    if (pump->n > 0)
        return 0;
    memcpy(pump->data, data, n);
    pump->at = 0;
    pump->n = n;
    return n;
}

void hvd_pump_step(struct hvd_pump *pump, const struct pollfd *fd)
{
    if (fd->fd < 0 || fd->revents == 0)
        return;
    if (pump->n > 0)
        drain(pump);
    else
        fill(pump);
}
