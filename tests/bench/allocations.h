#ifndef HVD_TESTS_BENCH_ALLOCATIONS_H
#define HVD_TESTS_BENCH_ALLOCATIONS_H

/*
 * Heap allocations of the whole process, all threads and libraries, while counting is on.
 */

#include <stdbool.h>

/* Starts a count at 0, or stops counting; any thread. */
void allocations_count(bool is_on);

/* Calls of malloc and its like since counting started; any thread. */
unsigned long allocations_counted(void);

#endif
