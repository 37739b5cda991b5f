/*
 * A wall clock that is wrong: preloaded into the operator, it shifts what CLOCK_REALTIME and its
 * relatives return by HVD_CLOCK_SKEW_S seconds, which may be negative. The monotonic clocks and all
 * waits are left as they are. Without the variable, or with a wrong one, nothing changes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t skew_s;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("HVD_CLOCK_SKEW_S");
    char *end = NULL;

    if (!text)
        return;
    skew_s = strtoll(text, &end, 10);
    if (*end)
        skew_s = 0;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (syscall(SYS_clock_gettime, id, ts) != 0)
        return -1;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI)
        ts->tv_sec += skew_s;
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
