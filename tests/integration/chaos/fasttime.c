/*
 * Time that passes faster, for programs that wait: preloaded into the operator and the fake API
 * server, it makes their clocks run a number of times as fast and their waits as much shorter, so
 * that backoffs of half a minute take a fraction of a second. Neither program knows. The clocks of
 * all processes that get the same HVD_FASTTIME=FACTOR:MONOTONIC_NS:UNIX_NS agree; the two times say
 * when fast time began. Without the variable, or with a wrong one, nothing changes. HVD_CLOCKSTEP
 * names a file with the milliseconds by which somebody has set this machine's Unix time ahead.
 */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define S_NS 1000000000

static int64_t factor = 1;
static int64_t began_ns;
static int64_t unix_ns; /* when it began */

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("HVD_FASTTIME");
    char *end = NULL;

    if (!text)
        return;
    factor = strtoll(text, &end, 10);
    if (*end == ':')
        began_ns = strtoll(end + 1, &end, 10);
    if (*end == ':')
        unix_ns = strtoll(end + 1, &end, 10);
    if (*end || factor < 1)
        factor = 1;
}

static int64_t step_ns(void)
{
    const char *path = getenv("HVD_CLOCKSTEP");
    FILE *file = path ? fopen(path, "re") : NULL;
    long long ms = 0;

    if (file) {
        if (fscanf(file, "%lld", &ms) != 1)
            ms = 0;
        (void)fclose(file);
    }
    return (int64_t)ms * 1000000;
}

static int64_t fast_ns(clockid_t id, struct timespec *ts)
{
    int64_t passed_ns;

    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, ts) != 0)
        return -1;
    passed_ns = ((int64_t)ts->tv_sec * S_NS + ts->tv_nsec - began_ns) * factor;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        return unix_ns + passed_ns + step_ns();
    return began_ns + passed_ns;
}

static int is_fast(clockid_t id)
{
    return factor > 1 &&
           (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW ||
            id == CLOCK_BOOTTIME || id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t now_ns;

    if (!is_fast(id))
        return (int)syscall(SYS_clock_gettime, id, ts);
    now_ns = fast_ns(id, ts);
    ts->tv_sec = now_ns / S_NS;
    ts->tv_nsec = now_ns % S_NS;
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec ts;

    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return (time_t)-1;
    if (out)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

static int shorter(int timeout_ms)
{
    return timeout_ms > 0 ? (int)((timeout_ms + factor - 1) / factor) : timeout_ms;
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    return (int)syscall(SYS_poll, fds, n, shorter(timeout_ms));
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
    return (int)syscall(SYS_epoll_pwait, fd, events, n, shorter(timeout_ms), NULL, 0);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec left;

    if (timeout) {
        const int64_t ns = ((int64_t)timeout->tv_sec * S_NS + timeout->tv_nsec) / factor;
        left = (struct timespec){ns / S_NS, ns % S_NS};
    }
    return (int)syscall(SYS_ppoll, fds, n, timeout ? &left : NULL, mask, _NSIG / 8);
}
