#ifndef HVD_WORKER_CORE_BACKOFF_H
#define HVD_WORKER_CORE_BACKOFF_H

#include <stdint.h>

/*
 * How long a rank that finds no work sleeps before it checks again, where no peer wakes it.
 *
 * Ranks answer each other in turn: each waits until the other has noticed its message. So a sleep
 * is at most a quarter of the wait before it, and a delay shrinks from answer to answer. If sleeps
 * were as long as the wait, every answer could take as long as the one before, and delays would
 * grow up to the cycle time and stay there. Pure.
 */

#define HVD_BACKOFF_MIN_NS INT64_C(50000)    /* shortest sleep, unless the cycle is shorter */
#define HVD_BACKOFF_MAX_NS INT64_C(10000000) /* longest sleep: a message waits at most so long */

/* Returns the longest sleep for a cycle time, both in ns. */
int64_t hvd_backoff_longest_ns(int64_t cycle_ns);

/* Returns the length in ns of the next sleep of a rank that has found no work for idle_ns. 0: it
 * must not sleep, because the cycle time is 0. */
int64_t hvd_backoff_sleep_ns(int64_t idle_ns, int64_t cycle_ns);

#endif
