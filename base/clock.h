#ifndef HVD_BASE_CLOCK_H
#define HVD_BASE_CLOCK_H

#include <stdint.h>

/* Returns nanoseconds of a monotonic clock. Any thread. */
int64_t hvd_clock_now_ns(void);

#endif
