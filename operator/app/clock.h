#ifndef HVD_OPERATOR_APP_CLOCK_H
#define HVD_OPERATOR_APP_CLOCK_H

#include <stdint.h>

/* Microseconds of the monotonic clock. */
int64_t hvd_clock_us(void);

/* Milliseconds of the monotonic clock. */
int64_t hvd_clock_ms(void);

/* Milliseconds since 1970 by this machine's clock, which may be wrong: see docs/operator.md. */
int64_t hvd_clock_local_ms(void);

/* Microseconds since 1970 by this machine's clock. */
int64_t hvd_clock_local_us(void);

/* Sleeps for so long; a signal may end it early. */
void hvd_clock_sleep_us(int64_t us);

#endif
