/*
 * Delays a job that does not come to rest: the last bound of its cost. Pure.
 */
#include "operator/app/unrest.h"

#include "operator/kube/backoff.h"

#define PLANS_MAX 60
#define PLANS_PER_WAIT 2

static const struct hvd_backoff backoff = {.first_ms = 100, .max_ms = 30000};

int64_t hvd_unrest_plan(struct hvd_unrest *unrest)
{
    if (unrest->_n_plans < PLANS_MAX) {
        unrest->_n_plans++;
        return 0;
    }
    unrest->_n_plans -= PLANS_PER_WAIT;
    if (unrest->_n_waits < UINT16_MAX)
        unrest->_n_waits++;
    return hvd_backoff_ms(&backoff, unrest->_n_waits, 0);
}
