#ifndef HVD_WORKER_REDUCE_ADASUM_H
#define HVD_WORKER_REDUCE_ADASUM_H

#include "worker/core/types.h"

/*
 * Adaptive summation of two gradients. Orthogonal ones are added, parallel ones are averaged:
 *   adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
 * Maleki, Musuvathi, Mytkowicz, Saarikivi, Xu, Eksarevskiy, Ekanayake, Barsoum: "Scaling
 * Distributed Training with Adaptive Summation", MLSys 2021 (arXiv:2006.02924). Horovod's reduction
 * HVD_ADASUM does the same.
 *
 * The vectors may be spread over ranks: the dots of all parts are added up, then every rank
 * combines its part. Both functions: any thread; nothing fails. The same bits on every machine.
 */

/* Whether the type has an Adasum: float16, bfloat16, float32, float64. */
bool hvd_adasum_supports(enum hvd_dtype dtype);

/* out[0] = a.b, out[1] = a.a, out[2] = b.b over count elements, multiplied and added as double. */
void hvd_adasum_dots(enum hvd_dtype dtype, const void *a, const void *b, int64_t count,
                     double out[3]);

/*
 * into = adasum(into, from) for count elements, given the dots of the whole vectors with a = into
 * and b = from. The result is the same with a and b exchanged, and dots[1] and dots[2] with them.
 * Computed as double and rounded once (float16, bfloat16: to float32, then again). A vector whose
 * square is less than sqrt(DBL_MIN) counts as zero: its factor is 1. An infinite or NaN dot makes
 * the result NaN where the factor depends on it.
 */
void hvd_adasum_combine(enum hvd_dtype dtype, void *into, const void *from, int64_t count,
                        const double dots[3]);

#endif
