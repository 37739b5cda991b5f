#ifndef HVD_WORKER_AUTOTUNE_CORE_GAUSSIAN_H
#define HVD_WORKER_AUTOTUNE_CORE_GAUSSIAN_H

#include "base/status.h"

/*
 * A Gaussian process over the unit square: estimates a noisy function from some of its values.
 * Kernel: exp(-|a - b|^2 / (2 length^2)), on values that are shifted and scaled to mean 0 and
 * deviation 1. A fit chooses the likeliest of a few lengths and noises. Pure arithmetic.
 */
#define HVD_GAUSSIAN_DIMS 2
#define HVD_GAUSSIAN_MAX 200 /* values at most */

struct hvd_gaussian;

/* Creates an empty process. noise: the largest deviation of values from the function, in deviations
 * of the values; 0 to 1. HVD_ERR_NOMEM. */
hvd_status_t hvd_gaussian_create(double noise, struct hvd_gaussian **out);

/* Frees the process. NULL is fine. */
void hvd_gaussian_destroy(struct hvd_gaussian *g);

/* Adds a measured value of the function at `at`. Ignores values beyond the maximum number. */
void hvd_gaussian_add(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS], double value);

/* The estimate of the function at a point. */
struct hvd_belief {
    double mean; /* in the unit of the values */
    double deviation;
};

/* Returns the belief at a point, from all values; there must be one at least. */
struct hvd_belief hvd_gaussian_believe(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS]);

/* Returns the expected improvement over the best mean at a point: the average gain, where a loss
 * counts as 0. Subtracts `margin` of a deviation from the gain. */
double hvd_gaussian_improvement(struct hvd_gaussian *g, const double at[HVD_GAUSSIAN_DIMS],
                                double margin);

/* Returns the index of the value with the best mean, in the order in which they were added. */
int hvd_gaussian_best(struct hvd_gaussian *g);

#endif
