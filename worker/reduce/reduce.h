#ifndef HVD_WORKER_REDUCE_REDUCE_H
#define HVD_WORKER_REDUCE_REDUCE_H

#include "worker/core/types.h"

/*
 * into[i] = into[i] op from[i] for count elements. HVD_AVERAGE adds, like HVD_SUM: the division
 * comes last. Integers wrap around. The buffers are aligned for the type and do not overlap.
 */
void hvd_reduce_combine(enum hvd_dtype dtype, enum hvd_reduce op, void *into, const void *from,
                        int64_t count);

/* data[i] = data[i] / n_ranks for count elements; integers are rounded towards zero. n_ranks >= 1.
 */
void hvd_reduce_divide(enum hvd_dtype dtype, void *data, int64_t count, int n_ranks);

#endif
