#ifndef HVD_WORKER_DEVICE_CUDA_ROUTE_H
#define HVD_WORKER_DEVICE_CUDA_ROUTE_H

#include "worker/core/collective.h"
#include "worker/device/cuda/nccl_api.h"

/*
 * What NCCL computes, and how: pure. All ranks decide from the same arguments alike. Any thread.
 */

/* Whether NCCL computes what the host does. Not so: sums of 16-bit integers, which it lacks; bool,
 * whose sum is an "or" here; minimum and maximum of floats, where NCCL drops a NaN; Adasum. Data
 * that only moves has any type. */
bool hvd_route_moves(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce);

/* Returns NCCL's type for the elements. Where data only moves, bytes stand for types that NCCL
 * lacks: *scale is how many of them an element has, else 1. */
hvd_nccl_type_t hvd_route_type(enum hvd_op op, enum hvd_dtype dtype, size_t *scale);

/* Returns NCCL's reduction. *is_scaled becomes false if it includes the scaling, so that no copy
 * has to apply it. */
hvd_nccl_op_t hvd_route_reduce(const struct hvd_collective *c, bool *is_scaled);

#endif
