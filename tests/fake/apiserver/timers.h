#ifndef HVD_TESTS_FAKE_APISERVER_TIMERS_H
#define HVD_TESTS_FAKE_APISERVER_TIMERS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Something that happens later. Embedded in what it belongs to; zeroed is a timer at rest. */
struct fake_timer {
    int64_t due_us;
    void (*fire)(void *ctx);
    void *ctx;
    size_t place; /* in the heap, from 1; 0: at rest */
};

/* All timers that run, the next one first. */
struct fake_timers {
    struct fake_timer **heap; /* owned array, from 1 */
    size_t n;
    size_t capacity;
};

/* Microseconds of the monotonic clock. */
int64_t fake_now_us(void);

/* Unix seconds of the world that is played, in which all stamps and the header Date are. */
time_t fake_unix_s(void);

/* From now on the world's clock is so far ahead of the machine's. */
void fake_set_clock_offset(int64_t offset_ms);

/* Lets the timer fire delay_us from now; one that runs is moved. */
void fake_timer_start(struct fake_timers *timers, struct fake_timer *timer, int64_t delay_us);

/* Puts the timer to rest. One at rest is legal. */
void fake_timer_stop(struct fake_timers *timers, struct fake_timer *timer);

/* Fires all that are due. */
void fake_timers_run(struct fake_timers *timers);

/* Microseconds until the next is due, at least 0; -1 when none runs. */
int64_t fake_timers_wait_us(const struct fake_timers *timers);

/* Frees the heap, not the timers. */
void fake_timers_fini(struct fake_timers *timers);

#endif
