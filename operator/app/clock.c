/*
 * The operator's two clocks. The monotonic clock is for waiting and measuring; it advances while
 * the machine is suspended, because a Lease expires meanwhile. This machine's time of day decides
 * nothing: core/server_clock.c does that.
 */
#include "operator/app/clock.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec ts = {0};

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t hvd_clock_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t hvd_clock_ms(void)
{
    return hvd_clock_us() / 1000;
}

int64_t hvd_clock_local_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

int64_t hvd_clock_local_us(void)
{
    return read_us(CLOCK_REALTIME);
}

void hvd_clock_sleep_us(int64_t us)
{
    const struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    (void)nanosleep(&ts, NULL);
}
