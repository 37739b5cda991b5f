/*
 * Floating point sums with AVX2 and AVX-512. They are written with intrinsics because compilers do
 * not store past the caches, nor find the short way to round a bfloat16. A kernel is a loop over
 * vectors around one of the sum_ functions. These read a vector of each operand and return the sum
 * in the stored format. Any thread, on a processor that has the instructions; no state. Other
 * architectures have no entries in the table.
 */
#include "worker/reduce/sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* --- AVX2 ------------------------------------------------------------------------------------- */

HVD_TARGET_AVX2 static inline __m256i load_avx2(const void *in)
{
    return _mm256_loadu_si256((const __m256i *)in);
}

HVD_TARGET_AVX2 static inline void store_avx2(void *out, __m256i x)
{
    _mm256_storeu_si256((__m256i *)out, x);
}

HVD_TARGET_AVX2 static inline void stream_avx2(void *out, __m256i x)
{
    _mm256_stream_si256((__m256i *)out, x);
}

HVD_TARGET_AVX2 static inline __m256 canonical_avx2(__m256 x)
{
    return _mm256_blendv_ps(x, _mm256_set1_ps(NAN), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

HVD_TARGET_AVX2 static inline __m256i sum_float32_avx2(const char *a, const char *b, double factor)
{
    __m256 sum =
        _mm256_add_ps(_mm256_castsi256_ps(load_avx2(a)), _mm256_castsi256_ps(load_avx2(b)));

    sum = _mm256_mul_ps(sum, _mm256_set1_ps((float)factor));
    return _mm256_castps_si256(canonical_avx2(sum));
}

HVD_TARGET_AVX2 static inline __m256i sum_float64_avx2(const char *a, const char *b, double factor)
{
    __m256d sum =
        _mm256_add_pd(_mm256_castsi256_pd(load_avx2(a)), _mm256_castsi256_pd(load_avx2(b)));
    __m256d is_nan;

    sum = _mm256_mul_pd(sum, _mm256_set1_pd(factor));
    is_nan = _mm256_cmp_pd(sum, sum, _CMP_UNORD_Q);
    return _mm256_castpd_si256(_mm256_blendv_pd(sum, _mm256_set1_pd((double)NAN), is_nan));
}

/* Half a vector of halves. */
HVD_TARGET_AVX2 static inline __m128i sum_8_float16(const char *a, const char *b)
{
    __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)a));
    __m256 y = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)b));

    return _mm256_cvtps_ph(canonical_avx2(_mm256_add_ps(x, y)), NEAREST);
}

HVD_TARGET_AVX2 static inline __m256i sum_float16_avx2(const char *a, const char *b, double factor)
{
    (void)factor;
    return _mm256_set_m128i(sum_8_float16(a + 16, b + 16), sum_8_float16(a, b));
}

/* Adds the float32 of two bfloat16, which are their upper halves, and rounds to the upper half. */
HVD_TARGET_AVX2 static inline __m256i sum_upper_avx2(__m256i a, __m256i b)
{
    __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    __m256i bits = _mm256_castps_si256(sum);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(sum, sum, _CMP_UNORD_Q));

    return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
}

/* Unpacking and packing permute the elements in the same way. */
HVD_TARGET_AVX2 static inline __m256i sum_bfloat16_avx2(const char *a, const char *b, double factor)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i x = load_avx2(a);
    __m256i y = load_avx2(b);
    __m256i low = sum_upper_avx2(_mm256_unpacklo_epi16(zero, x), _mm256_unpacklo_epi16(zero, y));
    __m256i high = sum_upper_avx2(_mm256_unpackhi_epi16(zero, x), _mm256_unpackhi_epi16(zero, y));

    (void)factor;
    return _mm256_packus_epi32(low, high);
}

/* --- AVX-512 ---------------------------------------------------------------------------------- */

HVD_TARGET_AVX512 static inline __m512i load_avx512(const void *in)
{
    return _mm512_loadu_si512(in);
}

HVD_TARGET_AVX512 static inline void store_avx512(void *out, __m512i x)
{
    _mm512_storeu_si512(out, x);
}

HVD_TARGET_AVX512 static inline void stream_avx512(void *out, __m512i x)
{
    _mm512_stream_si512((__m512i *)out, x);
}

HVD_TARGET_AVX512 static inline __m512 canonical_avx512(__m512 x)
{
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_ps(NAN));
}

HVD_TARGET_AVX512 static inline __m512i sum_float32_avx512(const char *a, const char *b,
                                                           double factor)
{
    __m512 sum =
        _mm512_add_ps(_mm512_castsi512_ps(load_avx512(a)), _mm512_castsi512_ps(load_avx512(b)));

    sum = _mm512_mul_ps(sum, _mm512_set1_ps((float)factor));
    return _mm512_castps_si512(canonical_avx512(sum));
}

HVD_TARGET_AVX512 static inline __m512i sum_float64_avx512(const char *a, const char *b,
                                                           double factor)
{
    __m512d sum =
        _mm512_add_pd(_mm512_castsi512_pd(load_avx512(a)), _mm512_castsi512_pd(load_avx512(b)));
    __mmask8 is_nan;

    sum = _mm512_mul_pd(sum, _mm512_set1_pd(factor));
    is_nan = _mm512_cmp_pd_mask(sum, sum, _CMP_UNORD_Q);
    return _mm512_castpd_si512(_mm512_mask_mov_pd(sum, is_nan, _mm512_set1_pd((double)NAN)));
}

/* Half a vector of halves. */
HVD_TARGET_AVX512 static inline __m256i sum_16_float16(const char *a, const char *b)
{
    __m512 x = _mm512_cvtph_ps(load_avx2(a));
    __m512 y = _mm512_cvtph_ps(load_avx2(b));

    return _mm512_cvtps_ph(canonical_avx512(_mm512_add_ps(x, y)), NEAREST);
}

HVD_TARGET_AVX512 static inline __m512i sum_float16_avx512(const char *a, const char *b,
                                                           double factor)
{
    __m512i low = _mm512_castsi256_si512(sum_16_float16(a, b));

    (void)factor;
    return _mm512_inserti64x4(low, sum_16_float16(a + 32, b + 32), 1);
}

HVD_TARGET_AVX512 static inline __m512i sum_upper_avx512(__m512i a, __m512i b)
{
    __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
    __m512i bits = _mm512_castps_si512(sum);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
    __mmask16 is_nan = _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);

    return _mm512_mask_mov_epi32(rounded, is_nan, _mm512_set1_epi32(0x7fc0));
}

HVD_TARGET_AVX512 static inline __m512i sum_bfloat16_avx512(const char *a, const char *b,
                                                            double factor)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i x = load_avx512(a);
    __m512i y = load_avx512(b);
    __m512i low = sum_upper_avx512(_mm512_unpacklo_epi16(zero, x), _mm512_unpacklo_epi16(zero, y));
    __m512i high = sum_upper_avx512(_mm512_unpackhi_epi16(zero, x), _mm512_unpackhi_epi16(zero, y));

    (void)factor;
    return _mm512_packus_epi32(low, high);
}

/* --- Loops ------------------------------------------------------------------------------------ */

/* The processor prefetches the lines of one stream by itself, but not soon enough at the start of
 * each page. */
#define AHEAD ((size_t)512)

/* A vector of the line at i. */
#define EACH for (size_t v = 0; v < HVD_LINE_BYTES / sizeof(line[0]); v++)
#define AT(MEMBER) (l.MEMBER + i + v * sizeof(line[0]))

/* Stores whole lines, so that the processor combines the stores past the caches. */
#define LINES(NAME, TARGET, VECTOR, SUM, WRITE)                                                    \
    TARGET static void NAME(const struct hvd_lines *lines)                                         \
    {                                                                                              \
        const struct hvd_lines l = *lines; /* a copy, because the stores cannot alias it */        \
        for (size_t i = 0; i < l.n_lines * HVD_LINE_BYTES; i += HVD_LINE_BYTES) {                  \
            VECTOR line[HVD_LINE_BYTES / sizeof(VECTOR)];                                          \
            EACH line[v] = SUM(AT(a), AT(b), l.factor);                                            \
            WRITE                                                                                  \
        }                                                                                          \
    }

/* As LINES, and copies a line of next, which is loaded before any store. */
#define LINES_NEXT(NAME, TARGET, VECTOR, VARIANT, SUM, STORE_SUM, STORE_NEXT)                      \
    TARGET static void NAME(const struct hvd_lines *lines)                                         \
    {                                                                                              \
        const struct hvd_lines l = *lines;                                                         \
        for (size_t i = 0; i < l.n_lines * HVD_LINE_BYTES; i += HVD_LINE_BYTES) {                  \
            VECTOR line[HVD_LINE_BYTES / sizeof(VECTOR)];                                          \
            VECTOR next[HVD_LINE_BYTES / sizeof(VECTOR)];                                          \
            _mm_prefetch(l.next + i + AHEAD, _MM_HINT_T0);                                         \
            EACH next[v] = load_##VARIANT(AT(next));                                               \
            EACH line[v] = SUM(AT(a), AT(b), l.factor);                                            \
            EACH STORE_SUM(AT(out), line[v]);                                                      \
            EACH STORE_NEXT(AT(next_to), next[v]);                                                 \
        }                                                                                          \
    }

#define KERNELS(DTYPE, VARIANT, TARGET, VECTOR)                                                    \
    LINES(stream_##DTYPE##_##VARIANT, TARGET, VECTOR, sum_##DTYPE##_##VARIANT,                     \
          EACH stream_##VARIANT(AT(out), line[v]);)                                                \
    LINES(stream_both_##DTYPE##_##VARIANT, TARGET, VECTOR, sum_##DTYPE##_##VARIANT,                \
          EACH stream_##VARIANT(AT(out), line[v]);                                                 \
          EACH store_##VARIANT(AT(second), line[v]);)                                              \
    LINES(both_##DTYPE##_##VARIANT, TARGET, VECTOR, sum_##DTYPE##_##VARIANT,                       \
          EACH store_##VARIANT(AT(out), line[v]);                                                  \
          EACH store_##VARIANT(AT(second), line[v]);)                                              \
    LINES_NEXT(with_next_##DTYPE##_##VARIANT, TARGET, VECTOR, VARIANT, sum_##DTYPE##_##VARIANT,    \
               store_##VARIANT, store_##VARIANT)                                                   \
    LINES_NEXT(with_stream_##DTYPE##_##VARIANT, TARGET, VECTOR, VARIANT, sum_##DTYPE##_##VARIANT,  \
               store_##VARIANT, stream_##VARIANT)                                                  \
    LINES_NEXT(stream_next_##DTYPE##_##VARIANT, TARGET, VECTOR, VARIANT, sum_##DTYPE##_##VARIANT,  \
               stream_##VARIANT, store_##VARIANT)                                                  \
    LINES_NEXT(stream_all_##DTYPE##_##VARIANT, TARGET, VECTOR, VARIANT, sum_##DTYPE##_##VARIANT,   \
               stream_##VARIANT, stream_##VARIANT)

KERNELS(float16, avx2, HVD_TARGET_AVX2, __m256i)
KERNELS(bfloat16, avx2, HVD_TARGET_AVX2, __m256i)
KERNELS(float32, avx2, HVD_TARGET_AVX2, __m256i)
KERNELS(float64, avx2, HVD_TARGET_AVX2, __m256i)
KERNELS(float16, avx512, HVD_TARGET_AVX512, __m512i)
KERNELS(bfloat16, avx512, HVD_TARGET_AVX512, __m512i)
KERNELS(float32, avx512, HVD_TARGET_AVX512, __m512i)
KERNELS(float64, avx512, HVD_TARGET_AVX512, __m512i)

#define BFLOAT16(VARIANT, TARGET, VECTOR)                                                          \
    TARGET void hvd_sums_bfloat16_##VARIANT(void *out, const void *a, const void *b,               \
                                            int64_t count)                                         \
    {                                                                                              \
        const int64_t width = sizeof(VECTOR) / sizeof(uint16_t);                                   \
        uint16_t *o = out;                                                                         \
        const uint16_t *x = a;                                                                     \
        const uint16_t *y = b;                                                                     \
        int64_t i = 0;                                                                             \
        for (; i + width <= count; i += width)                                                     \
            store_##VARIANT(                                                                       \
                o + i, sum_bfloat16_##VARIANT((const char *)(x + i), (const char *)(y + i), 1));   \
        hvd_reduce_bfloat16[HVD_REDUCE_PORTABLE].combine[HVD_KERNEL_SUM](o + i, x + i, y + i,      \
                                                                         count - i);               \
    }

BFLOAT16(avx2, HVD_TARGET_AVX2, __m256i)
BFLOAT16(avx512, HVD_TARGET_AVX512, __m512i)

#define ENTRY(DTYPE, VARIANT)                                                                      \
    {                                                                                              \
        stream_##DTYPE##_##VARIANT, stream_both_##DTYPE##_##VARIANT, both_##DTYPE##_##VARIANT,     \
            with_next_##DTYPE##_##VARIANT, with_stream_##DTYPE##_##VARIANT,                        \
            stream_next_##DTYPE##_##VARIANT, stream_all_##DTYPE##_##VARIANT                        \
    }

#define ROW(INDEX, VARIANT)                                                                        \
    [INDEX] = {[HVD_FLOAT16] = ENTRY(float16, VARIANT),                                            \
               [HVD_BFLOAT16] = ENTRY(bfloat16, VARIANT),                                          \
               [HVD_FLOAT32] = ENTRY(float32, VARIANT),                                            \
               [HVD_FLOAT64] = ENTRY(float64, VARIANT)}

const struct hvd_sum_kernels hvd_reduce_sums[HVD_REDUCE_VARIANTS][HVD_DTYPES] = {
    ROW(HVD_REDUCE_AVX2, avx2), ROW(HVD_REDUCE_AVX512, avx512)};

#else

const struct hvd_sum_kernels hvd_reduce_sums[HVD_REDUCE_VARIANTS][HVD_DTYPES] = {{{0}}};
#endif
