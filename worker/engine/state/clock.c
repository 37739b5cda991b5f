/*
 * The engine's clock, which is monotonic.
 */

#include "worker/engine/state/clock.h"

#include <time.h>

#include "worker/engine/state/entry.h"

int64_t hvd_engine_coarse_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

hvd_status_t hvd_engine_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    if (pthread_condattr_init(&attr) != 0)
        return HVD_ERR_SYSTEM;
    int rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc == 0 ? HVD_OK : HVD_ERR_SYSTEM;
}
