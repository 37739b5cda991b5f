/*
 * When the network may be read next. Pure arithmetic on a monotonic clock.
 */
#include "operator/app/pace.h"

#define CREDIT_US ((int64_t)HVD_PACE_CREDIT * HVD_PACE_MEAN_US)

int64_t hvd_pace_wait_us(const struct hvd_pace *pace, int64_t now_us)
{
    const int64_t gap_us = pace->_looked_us + HVD_PACE_GAP_US - now_us;
    const int64_t credit_us = pace->_spent_us - CREDIT_US - now_us;
    const int64_t wait_us = gap_us > credit_us ? gap_us : credit_us;

    if (wait_us <= 0)
        return 0;
    return wait_us < HVD_PACE_MEAN_US ? wait_us : HVD_PACE_MEAN_US;
}

void hvd_pace_look(struct hvd_pace *pace, int64_t now_us)
{
    pace->_looked_us = now_us;
    if (pace->_spent_us < now_us)
        pace->_spent_us = now_us;
    pace->_spent_us += HVD_PACE_MEAN_US;
}
