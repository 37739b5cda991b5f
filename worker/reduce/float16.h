#ifndef HVD_WORKER_REDUCE_FLOAT16_H
#define HVD_WORKER_REDUCE_FLOAT16_H

/*
 * float16 by the processor's conversion instructions, with the same bits as the portable kernels.
 * Those compute the elements after the last full vector. Any thread, on a processor that has the
 * instructions.
 */
#include "worker/reduce/reduce_internal.h"

/* out[i] = in[i] as float32. */
void hvd_float16_widen_avx2(float *out, const uint16_t *in, int64_t count);
void hvd_float16_widen_avx512(float *out, const uint16_t *in, int64_t count);
void hvd_float16_widen_neon(float *out, const uint16_t *in, int64_t count);

/* out[i] = in[i] rounded to float16. */
void hvd_float16_narrow_avx2(uint16_t *out, const float *in, int64_t count);
void hvd_float16_narrow_avx512(uint16_t *out, const float *in, int64_t count);
void hvd_float16_narrow_neon(uint16_t *out, const float *in, int64_t count);

/* out[i] = in[i] * by. */
void hvd_float16_times_avx2(uint16_t *out, const uint16_t *in, float by, int64_t count);
void hvd_float16_times_avx512(uint16_t *out, const uint16_t *in, float by, int64_t count);
void hvd_float16_times_neon(uint16_t *out, const uint16_t *in, float by, int64_t count);

/* out[i] = a[i] + b[i]. */
void hvd_float16_sum_avx2(void *out, const void *a, const void *b, int64_t count);
void hvd_float16_sum_avx512(void *out, const void *a, const void *b, int64_t count);
void hvd_float16_sum_neon(void *out, const void *a, const void *b, int64_t count);

/* out[i] = a[i] * b[i]. */
void hvd_float16_product_avx2(void *out, const void *a, const void *b, int64_t count);
void hvd_float16_product_avx512(void *out, const void *a, const void *b, int64_t count);
void hvd_float16_product_neon(void *out, const void *a, const void *b, int64_t count);

#endif
