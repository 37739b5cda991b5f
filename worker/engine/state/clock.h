#ifndef HVD_WORKER_ENGINE_STATE_CLOCK_H
#define HVD_WORKER_ENGINE_STATE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#include "base/status.h"

/* Does the same as hvd_clock_now_ns in a fifth of the time, but lags by up to a kernel tick (some
 * milliseconds). */
int64_t hvd_engine_coarse_now_ns(void);

/* Initialises a condition variable whose timed waits use that clock. HVD_ERR_SYSTEM. */
hvd_status_t hvd_engine_cond_init(pthread_cond_t *cond);

#endif
