#ifndef HVD_TESTS_UNIT_WORKER_REDUCE_REFERENCE_H
#define HVD_TESTS_UNIT_WORKER_REDUCE_REFERENCE_H

/*
 * What the kernels have to compute, said once more in the plainest way: one element at a time, by
 * value, nothing shared with them.
 */
#include "worker/reduce/reduce.h"

/* A float16 or bfloat16 as the number it is; NaN as NaN. */
double reference_half_value(enum hvd_dtype dtype, uint16_t bits);

/* The float16 or bfloat16 nearest to a number, ties to even; NaN as the one NaN of results. */
uint16_t reference_half_bits(enum hvd_dtype dtype, double value);

/* *out = *a op *b. */
void reference_combine(enum hvd_dtype dtype, enum hvd_reduce op, void *out, const void *a,
                       const void *b);

/* *x = *x * factor / divisor. */
void reference_scale(enum hvd_dtype dtype, void *x, double factor, int divisor);

/* Element i as a number; integers beyond 2^53 are rounded. */
double reference_get(enum hvd_dtype dtype, const void *data, int64_t i);

/* Element i = value: in a floating point type rounded to the nearest, NaN as the one NaN of
 * results; in others a whole number that the type holds. */
void reference_set(enum hvd_dtype dtype, void *data, int64_t i, double value);

/* Fills count elements with anything that the type can hold, limits, infinities, NaNs and numbers
 * next to them included; the same for the same seed. */
void reference_fill(enum hvd_dtype dtype, void *data, int64_t count, uint64_t seed);

/* The next number of a sequence of which *state is the seed. */
uint64_t reference_random(uint64_t *state);

#endif
