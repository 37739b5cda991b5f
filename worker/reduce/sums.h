#ifndef HVD_WORKER_REDUCE_SUMS_H
#define HVD_WORKER_REDUCE_SUMS_H

/*
 * Floating point sums that go straight to where they belong, without a block in between: the sums
 * that a training step waits for. Same bits as the kernels of floats.c, float16.c and bfloat16.c.
 * Any thread, on a processor that has the instructions; nothing fails.
 */
#include "worker/reduce/reduce_internal.h"

#define HVD_LINE_BYTES 64

/* n_lines lines of HVD_LINE_BYTES. What goes past the caches is aligned to a line. Sums of float32
 * and float64 are multiplied by the factor; for the halves it is 1. */
typedef void (*hvd_lines_fn)(char *const out[2], const char *a, const char *b, size_t n_lines,
                             double factor);

struct hvd_sum_kernels {
    hvd_lines_fn stream;  /* to out[0], past the caches */
    hvd_lines_fn stream2; /* to out[0], past the caches, and to out[1] */
    hvd_lines_fn both;    /* to out[0] and out[1] */
};

/* NULL: there is none for the type and variant. */
extern const struct hvd_sum_kernels hvd_reduce_sums[HVD_REDUCE_VARIANTS][HVD_DTYPES];

/* out[i] = a[i] + b[i] of bfloat16. */
void hvd_bfloat16_sum_avx2(void *out, const void *a, const void *b, int64_t count);
void hvd_bfloat16_sum_avx512(void *out, const void *a, const void *b, int64_t count);

#endif
