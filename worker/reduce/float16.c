/*
 * float16: computed as float32 and rounded to the nearest, ties to even. Sums, products and
 * conversions are plain C here and use the conversion instructions of x86-64 and AArch64 in
 * float16_x86.c and float16_neon.c; minima and maxima compare bits on every processor. Any thread;
 * no state. float32 has more than twice the digits, so that a sum or product is the one nearest to
 * the exact one.
 */
#include "worker/reduce/float16.h"
#include "worker/reduce/half_bits.h"

#define SUM(x, y) hvd_float16_narrow(hvd_canonical32(hvd_float16_widen(x) + hvd_float16_widen(y)))
#define PRODUCT(x, y)                                                                              \
    hvd_float16_narrow(hvd_canonical32(hvd_float16_widen(x) * hvd_float16_widen(y)))
#define LESS(x, y) hvd_half_min(x, y, 0x7c00, 0x7e00)
#define MORE(x, y) hvd_half_max(x, y, 0x7c00, 0x7e00)

#define COMBINE(NAME, TARGET, EXPRESSION)                                                          \
    TARGET static void NAME(void *out, const void *a, const void *b, int64_t count)                \
    {                                                                                              \
        uint16_t *o = out;                                                                         \
        const uint16_t *x = a;                                                                     \
        const uint16_t *y = b;                                                                     \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) o[i] = EXPRESSION(x[i], y[i]);         \
    }

#define KERNELS(VARIANT, TARGET)                                                                   \
    COMBINE(min_##VARIANT, TARGET, LESS)                                                           \
    COMBINE(max_##VARIANT, TARGET, MORE)

HVD_REDUCE_EACH_VARIANT(KERNELS)
COMBINE(sum_portable, , SUM)
COMBINE(product_portable, , PRODUCT)

static void widen_portable(float *out, const uint16_t *in, int64_t count)
{
    HVD_REDUCE_LOOP
    for (int64_t i = 0; i < count; i++)
        out[i] = hvd_float16_widen(in[i]);
}

static void narrow_portable(uint16_t *out, const float *in, int64_t count)
{
    HVD_REDUCE_LOOP
    for (int64_t i = 0; i < count; i++)
        out[i] = hvd_float16_narrow(in[i]);
}

static void times_portable(uint16_t *out, const uint16_t *in, float by, int64_t count)
{
    HVD_REDUCE_LOOP
    for (int64_t i = 0; i < count; i++)
        out[i] = hvd_float16_narrow(hvd_canonical32(hvd_float16_widen(in[i]) * by));
}

static void over_portable(uint16_t *out, const uint16_t *in, float by, int64_t count)
{
    HVD_REDUCE_LOOP
    for (int64_t i = 0; i < count; i++)
        out[i] = hvd_float16_narrow(hvd_canonical32(hvd_float16_widen(in[i]) / by));
}

#define NATIVE(INDEX, NAME, VARIANT)                                                               \
    [INDEX] = {                                                                                    \
        hvd_float16_widen_##NAME,                                                                  \
        hvd_float16_narrow_##NAME,                                                                 \
        hvd_float16_times_##NAME,                                                                  \
        hvd_float16_over_##NAME,                                                                   \
        {hvd_float16_sum_##NAME, min_##VARIANT, max_##VARIANT, hvd_float16_product_##NAME},        \
    }

const struct hvd_half_kernels hvd_reduce_float16[HVD_REDUCE_VARIANTS] = {
    [HVD_REDUCE_PORTABLE] = {widen_portable,
                             narrow_portable,
                             times_portable,
                             over_portable,
                             {sum_portable, min_portable, max_portable, product_portable}},
#if defined(__x86_64__)
    NATIVE(HVD_REDUCE_AVX2, avx2, avx2),
    NATIVE(HVD_REDUCE_AVX512, avx512, avx512),
#elif defined(__aarch64__)
    NATIVE(HVD_REDUCE_NEON, neon, portable),
#endif
};
