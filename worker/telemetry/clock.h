#ifndef HVD_WORKER_TELEMETRY_CLOCK_H
#define HVD_WORKER_TELEMETRY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A clock that is cheap to read: the processor's counter if it runs at a constant rate (a third of
 * a system clock's cost), else the monotonic clock. The thread that formats converts ticks to
 * nanoseconds later. One thread at a time, except for hvd_clock_ticks.
 */
struct hvd_clock {
    bool is_counter;
    uint64_t base_ticks;
    int64_t base_ns; /* of the monotonic clock */
    double ns_per_tick;
};

/* Sets the base to the current time. */
void hvd_clock_init(struct hvd_clock *clock);

/* Returns the current time in ticks. Any thread. */
uint64_t hvd_clock_ticks(const struct hvd_clock *clock);

/* Measures the rate again. Waits until the base is a millisecond ago. */
void hvd_clock_sync(struct hvd_clock *clock);

/* Returns the nanoseconds from the base to `ticks`, at the rate of the last sync. */
int64_t hvd_clock_since_base(const struct hvd_clock *clock, uint64_t ticks);

#endif
