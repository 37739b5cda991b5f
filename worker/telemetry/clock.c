/*
 * Reads and converts the cheap clock. It measures the rate from the base on, so the error of "now"
 * stays that of one pair of readings, some 100 ns, however long the job runs.
 */
#include "worker/telemetry/clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "base/clock.h"

#define LEAST_NS 1000000
#define READINGS 5

/* Returns whether the counter runs at one rate, in every state of the processor. */
static bool has_counter(void)
{
#if defined(__x86_64__)
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1U << 8));
#else
    return false;
#endif
}

uint64_t hvd_clock_ticks(const struct hvd_clock *clock)
{
#if defined(__x86_64__)
    if (clock->is_counter)
        return __rdtsc();
#endif
    (void)clock;
    return (uint64_t)hvd_clock_now_ns();
}

/* Reads both clocks at the same moment: of several pairs of readings keeps the fastest. */
static void read_pair(const struct hvd_clock *clock, uint64_t *ticks, int64_t *ns)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < READINGS; i++) {
        const uint64_t before = hvd_clock_ticks(clock);
        const int64_t now = hvd_clock_now_ns();
        const uint64_t took = hvd_clock_ticks(clock) - before;
        if (took < best) {
            best = took;
            *ticks = before + took / 2;
            *ns = now;
        }
    }
}

void hvd_clock_init(struct hvd_clock *clock)
{
    clock->is_counter = has_counter();
    clock->ns_per_tick = 1;
    read_pair(clock, &clock->base_ticks, &clock->base_ns);
}

void hvd_clock_sync(struct hvd_clock *clock)
{
    static const struct timespec least = {.tv_nsec = LEAST_NS};
    uint64_t ticks = 0;
    int64_t ns = 0;

    if (!clock->is_counter)
        return;
    read_pair(clock, &ticks, &ns);
    while (ns - clock->base_ns < LEAST_NS) {
        nanosleep(&least, NULL);
        read_pair(clock, &ticks, &ns);
    }
    if (ticks > clock->base_ticks)
        clock->ns_per_tick = (double)(ns - clock->base_ns) / (double)(ticks - clock->base_ticks);
}

int64_t hvd_clock_since_base(const struct hvd_clock *clock, uint64_t ticks)
{
    return (int64_t)((double)(int64_t)(ticks - clock->base_ticks) * clock->ns_per_tick);
}
