#ifndef HVD_WORKER_TELEMETRY_CLOCK_H
#define HVD_WORKER_TELEMETRY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A clock that costs little to read: the processor's counter where it runs at a constant rate (a
 * third of a system clock's cost), else the monotonic clock. Ticks become nanoseconds later, by
 * the thread that formats. One thread at a time, but for hvd_clock_ticks.
 */
struct hvd_clock {
    bool is_counter;
    uint64_t base_ticks;
    int64_t base_ns; /* of the monotonic clock */
    double ns_per_tick;
};

/* Takes this moment as the base. */
void hvd_clock_init(struct hvd_clock *clock);

/* Now. Any thread. */
uint64_t hvd_clock_ticks(const struct hvd_clock *clock);

/* Measures the rate anew; the base must be a millisecond ago, else it waits for that. */
void hvd_clock_sync(struct hvd_clock *clock);

/* Nanoseconds from the base to ticks, at the rate of the last sync. */
int64_t hvd_clock_since_base(const struct hvd_clock *clock, uint64_t ticks);

#endif
