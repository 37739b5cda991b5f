#ifndef HVD_WORKER_AUTOTUNE_CORE_GAUSSIAN_H
#define HVD_WORKER_AUTOTUNE_CORE_GAUSSIAN_H

#include "base/status.h"

/*
 * A Gaussian process over the unit square: what a noisy function is believed to be after some of
 * its values were seen. Kernel: exp(-|a - b|^2 / (2 length^2)), on values that are shifted and
 * scaled to mean 0 and deviation 1. The length, and how noisy the values are, are the likeliest of
 * a few. Pure arithmetic.
 */
#define HVD_GAUSSIAN_DIMS 2
#define HVD_GAUSSIAN_MAX 200 /* values at most */

struct hvd_gaussian;

/* noise: the deviation of what is seen from the truth, in deviations of the values, at most; 0
 * to 1. HVD_ERR_NOMEM. */
hvd_status_t hvd_gaussian_create(double noise, struct hvd_gaussian **out);

/* NULL is fine. */
void hvd_gaussian_destroy(struct hvd_gaussian *g);

/* The function was seen to be `value` at `at`. What is beyond the maximum is forgotten. */
void hvd_gaussian_add(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS], double value);

/* What the function is believed to be at a point. */
struct hvd_belief {
    double mean; /* in the unit of the values */
    double deviation;
};

/* The belief at a point, from everything added before; at least one value was. */
struct hvd_belief hvd_gaussian_believe(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS]);

/* How much more than the best mean so far is to be expected at a point, on average, counting a
 * change for the worse as none; `margin` of a deviation is not counted. */
double hvd_gaussian_improvement(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS],
                                double margin);

/* Which of the values seen has the best mean: its number, in the order they were added. */
int hvd_gaussian_best(struct hvd_gaussian *g);

#endif
