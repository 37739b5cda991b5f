#ifndef HVD_WORKER_REDUCE_SUMS_H
#define HVD_WORKER_REDUCE_SUMS_H

/*
 * Floating point sums that are stored straight at their destination, without a block in between: a
 * training step waits for these sums. Same bits as the kernels of floats.c, float16.c and
 * bfloat16.c. Any thread, on a processor that has the instructions; nothing fails.
 */
#include "worker/reduce/reduce_internal.h"

#define HVD_LINE_BYTES 64

/* Whole lines of HVD_LINE_BYTES. Outputs past the caches are aligned to a line. */
struct hvd_lines {
    char *out;
    char *second; /* kernels with a second output */
    const char *a;
    const char *b;
    const char *next; /* kernels that copy on the way */
    char *next_to;
    size_t n_lines;
    double factor; /* multiplies sums of float32 and float64; for the halves it is 1 */
};

typedef void (*hvd_lines_fn)(const struct hvd_lines *lines);

struct hvd_sum_kernels {
    hvd_lines_fn stream;      /* to out, past the caches */
    hvd_lines_fn stream_both; /* to out, past the caches, and to second */
    hvd_lines_fn both;        /* to out and second */
    hvd_lines_fn with_next;   /* to out; copies next */
    hvd_lines_fn with_stream; /* to out; copies next past the caches */
    hvd_lines_fn stream_next; /* to out, past the caches; copies next */
    hvd_lines_fn stream_all;  /* to out and next_to, both past the caches */
};

/* NULL: the type and variant have no kernel. */
extern const struct hvd_sum_kernels hvd_reduce_sums[HVD_REDUCE_VARIANTS][HVD_DTYPES];

/* out[i] = a[i] + b[i] of bfloat16. */
void hvd_sums_bfloat16_avx2(void *out, const void *a, const void *b, int64_t count);
void hvd_sums_bfloat16_avx512(void *out, const void *a, const void *b, int64_t count);

#endif
