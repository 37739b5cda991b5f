#ifndef HVD_OPERATOR_APP_UNREST_H
#define HVD_OPERATOR_APP_UNREST_H

#include <stdint.h>

/*
 * Plans of a job, one after the other, of which none was empty. A job that is busy comes to rest
 * within a few plans. One that does not is in a loop, whatever its cause: after 60 plans it waits
 * for 0.1 s, then twice as long each time, up to 30 s, with two plans between. Starts as zeros, and
 * is zeroed by an empty plan.
 */
struct hvd_unrest {
    uint16_t _n_plans;
    uint16_t _n_waits;
};

/* Counts a plan that is not empty. 0: carry it out; else decide anew after so many ms. */
int64_t hvd_unrest_plan(struct hvd_unrest *unrest);

#endif
