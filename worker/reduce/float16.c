/*
 * float16: computed as float32 and rounded to the nearest, ties to even. Sums, products and
 * conversions are plain C here; float16_x86.c and float16_neon.c use the conversion instructions of
 * x86-64 and AArch64. Minima and maxima compare bits on every processor. Any thread; no state.
 * float32 has more than twice the digits, so a sum or product is the value nearest to the exact
 * one.
 */
#include "worker/reduce/float16.h"
#include "worker/reduce/half_bits.h"
#include "worker/reduce/half_loops.h"

#define RESULT(x) hvd_float16_narrow(hvd_canonical32(x))
#define SUM(x, y) RESULT(hvd_float16_widen(x) + hvd_float16_widen(y))
#define PRODUCT(x, y) RESULT(hvd_float16_widen(x) * hvd_float16_widen(y))
#define LESS(x, y) hvd_half_min(x, y, 0x7c00, 0x7e00)
#define MORE(x, y) hvd_half_max(x, y, 0x7c00, 0x7e00)

#define KERNELS(VARIANT, TARGET)                                                                   \
    HVD_HALF_COMBINE(min_##VARIANT, TARGET, LESS)                                                  \
    HVD_HALF_COMBINE(max_##VARIANT, TARGET, MORE)

HVD_REDUCE_EACH_VARIANT(KERNELS)
HVD_HALF_COMBINE(sum_portable, , SUM)
HVD_HALF_COMBINE(product_portable, , PRODUCT)
HVD_HALF_CONVERT(widen_portable, , float, uint16_t, hvd_float16_widen)
HVD_HALF_CONVERT(narrow_portable, , uint16_t, float, hvd_float16_narrow)
HVD_HALF_SCALE(times_portable, , hvd_float16_widen, RESULT)

#define NATIVE(INDEX, NAME, VARIANT)                                                               \
    [INDEX] = {                                                                                    \
        hvd_float16_widen_##NAME,                                                                  \
        hvd_float16_narrow_##NAME,                                                                 \
        hvd_float16_times_##NAME,                                                                  \
        {hvd_float16_sum_##NAME, min_##VARIANT, max_##VARIANT, hvd_float16_product_##NAME},        \
    }

const struct hvd_half_kernels hvd_reduce_float16[HVD_REDUCE_VARIANTS] = {
    [HVD_REDUCE_PORTABLE] = {widen_portable,
                             narrow_portable,
                             times_portable,
                             {sum_portable, min_portable, max_portable, product_portable}},
#if defined(__x86_64__)
    NATIVE(HVD_REDUCE_AVX2, avx2, avx2),
    NATIVE(HVD_REDUCE_AVX512, avx512, avx512),
#elif defined(__aarch64__)
    NATIVE(HVD_REDUCE_NEON, neon, portable),
#endif
};
