#ifndef HVD_TESTS_FAKE_GPU_NCCL_ARITHMETIC_H
#define HVD_TESTS_FAKE_GPU_NCCL_ARITHMETIC_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/device/cuda/nccl_api.h"

/* Bytes of an element; 0 for a number that is no type. */
size_t arithmetic_size(hvd_nccl_type_t type);

/* Reduces `from` into `to`, n elements, by sum, prod, max or min. Integers wrap; small floats are
 * rounded at each step; of two floats, fmax and fmin take the one that is a number. */
void arithmetic_reduce(hvd_nccl_type_t type, hvd_nccl_op_t op, void *to, const void *from,
                       size_t n);

/* Multiplies n elements by the scalar of the same type, and rounds them to the type. */
void arithmetic_scale(hvd_nccl_type_t type, void *at, size_t n, const void *scalar);

/* The scalar 1/n in the type, for floats. Returns false for integers, which are divided by
 * arithmetic_divide instead. */
bool arithmetic_reciprocal(hvd_nccl_type_t type, int n_ranks, void *scalar);

/* Divides n integers. */
void arithmetic_divide(hvd_nccl_type_t type, void *at, size_t n, int n_ranks);

#endif
