#ifndef HVD_OPERATOR_APP_UNREST_H
#define HVD_OPERATOR_APP_UNREST_H

#include <stdint.h>

/*
 * Counts consecutive plans of a job that were not empty. A busy job comes to rest within a few
 * plans. One that does not is in a loop, whatever its cause. After 60 plans it waits for 0.1 s,
 * then twice as long each time, up to 30 s, with two plans between. Starts as zeros; an empty plan
 * resets it.
 */
struct hvd_unrest {
    uint16_t _n_plans;
    uint16_t _n_waits;
};

/* Counts a plan that is not empty. 0: carry it out; else decide anew after so many ms. */
int64_t hvd_unrest_plan(struct hvd_unrest *unrest);

#endif
