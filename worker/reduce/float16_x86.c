/*
 * float16 with the conversion instructions of x86-64: F16C with AVX2, eight at a time, and AVX-512,
 * sixteen. Any thread, on a processor that has them; no state. The portable kernels compute the
 * rest of a buffer that fills no vector; they give the same bits. Each conversion names its
 * rounding, so the mode of the thread has no effect.
 */
#include "worker/reduce/float16.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

HVD_TARGET_AVX2 static __m256 load8(const uint16_t *in)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)in));
}

HVD_TARGET_AVX2 static void store8(uint16_t *out, __m256 x)
{
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_cvtps_ph(x, NEAREST));
}

HVD_TARGET_AVX2 static __m256 canonical8(__m256 x)
{
    return _mm256_blendv_ps(x, _mm256_set1_ps(NAN), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

HVD_TARGET_AVX512 static __m512 load16(const uint16_t *in)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)in));
}

HVD_TARGET_AVX512 static void store16(uint16_t *out, __m512 x)
{
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtps_ph(x, NEAREST));
}

HVD_TARGET_AVX512 static __m512 canonical16(__m512 x)
{
    __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    return _mm512_mask_mov_ps(x, is_nan, _mm512_set1_ps(NAN));
}

#define COMBINE(NAME, TARGET, WIDTH, KERNEL, OPERATION)                                            \
    TARGET void NAME(void *out, const void *a, const void *b, int64_t count)                       \
    {                                                                                              \
        uint16_t *o = out;                                                                         \
        const uint16_t *x = a;                                                                     \
        const uint16_t *y = b;                                                                     \
        int64_t i = 0;                                                                             \
        for (; i + WIDTH <= count; i += WIDTH)                                                     \
            store##WIDTH(o + i,                                                                    \
                         canonical##WIDTH(OPERATION(load##WIDTH(x + i), load##WIDTH(y + i))));     \
        hvd_reduce_float16[HVD_REDUCE_PORTABLE].combine[KERNEL](o + i, x + i, y + i, count - i);   \
    }

COMBINE(hvd_float16_sum_avx2, HVD_TARGET_AVX2, 8, HVD_KERNEL_SUM, _mm256_add_ps)
COMBINE(hvd_float16_product_avx2, HVD_TARGET_AVX2, 8, HVD_KERNEL_PRODUCT, _mm256_mul_ps)
COMBINE(hvd_float16_sum_avx512, HVD_TARGET_AVX512, 16, HVD_KERNEL_SUM, _mm512_add_ps)
COMBINE(hvd_float16_product_avx512, HVD_TARGET_AVX512, 16, HVD_KERNEL_PRODUCT, _mm512_mul_ps)

#define SCALE(NAME, TARGET, WIDTH, OPERATION, SET)                                                 \
    TARGET void NAME(uint16_t *out, const uint16_t *in, float by, int64_t count)                   \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + WIDTH <= count; i += WIDTH)                                                     \
            store##WIDTH(out + i, canonical##WIDTH(OPERATION(load##WIDTH(in + i), SET(by))));      \
        hvd_reduce_float16[HVD_REDUCE_PORTABLE].times(out + i, in + i, by, count - i);             \
    }

SCALE(hvd_float16_times_avx2, HVD_TARGET_AVX2, 8, _mm256_mul_ps, _mm256_set1_ps)
SCALE(hvd_float16_times_avx512, HVD_TARGET_AVX512, 16, _mm512_mul_ps, _mm512_set1_ps)

HVD_TARGET_AVX2 void hvd_float16_widen_avx2(float *out, const uint16_t *in, int64_t count)
{
    int64_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, load8(in + i));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].widen(out + i, in + i, count - i);
}

HVD_TARGET_AVX2 void hvd_float16_narrow_avx2(uint16_t *out, const float *in, int64_t count)
{
    int64_t i = 0;

    for (; i + 8 <= count; i += 8)
        store8(out + i, _mm256_loadu_ps(in + i));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].narrow(out + i, in + i, count - i);
}

HVD_TARGET_AVX512 void hvd_float16_widen_avx512(float *out, const uint16_t *in, int64_t count)
{
    int64_t i = 0;

    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(out + i, load16(in + i));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].widen(out + i, in + i, count - i);
}

HVD_TARGET_AVX512 void hvd_float16_narrow_avx512(uint16_t *out, const float *in, int64_t count)
{
    int64_t i = 0;

    for (; i + 16 <= count; i += 16)
        store16(out + i, _mm512_loadu_ps(in + i));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].narrow(out + i, in + i, count - i);
}
#endif
