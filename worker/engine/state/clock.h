#ifndef HVD_WORKER_ENGINE_STATE_CLOCK_H
#define HVD_WORKER_ENGINE_STATE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#include "base/status.h"

/* Nanoseconds of a clock that never jumps. */
int64_t hvd_engine_now_ns(void);

/* The same, up to a tick of the kernel behind (some milliseconds), in a fifth of the time. */
int64_t hvd_engine_coarse_now_ns(void);

/* A condition whose timed waits use that clock. HVD_ERR_SYSTEM. */
hvd_status_t hvd_engine_cond_init(pthread_cond_t *cond);

#endif
