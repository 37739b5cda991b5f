/*
 * Adaptive summation of two vectors; adasum.h has the formula and its source. Any thread; no state.
 *
 * The dots have the same bits on every machine. Element i is added to partial sum i mod 8, whatever
 * the instruction set, and the eight are added up in one fixed order. Halves are first widened to
 * float32 in blocks. The length of a block is a multiple of eight, so the blocks do not change the
 * order.
 */
#include "worker/reduce/adasum.h"

#include <float.h>

#include "worker/reduce/reduce_internal.h"

#define LANES 8
#define HALVES 512 /* widened at a time, on the stack; a multiple of LANES */

/* Partial sums of a.b, a.a and b.b. */
struct partial {
    double ab[LANES];
    double aa[LANES];
    double bb[LANES];
};

/* Vectors of the compiler's, as wide as the registers of the variant. */
#define BYTES_portable 16
#define BYTES_avx2 32
#define BYTES_avx512 64

/* Adds LANES elements. */
#define STEP(TYPE, A, B)                                                                           \
    for (size_t k = 0; k < VECTORS; k++) {                                                         \
        stored_t x;                                                                                \
        stored_t y;                                                                                \
        memcpy(&x, (A) + k * WIDTH, sizeof(x));                                                    \
        memcpy(&y, (B) + k * WIDTH, sizeof(y));                                                    \
        wide_t wide_x = __builtin_convertvector(x, wide_t);                                        \
        wide_t wide_y = __builtin_convertvector(y, wide_t);                                        \
        ab[k] += wide_x * wide_y;                                                                  \
        aa[k] += wide_x * wide_x;                                                                  \
        bb[k] += wide_y * wide_y;                                                                  \
    }

/* Pads the last elements with zeros where they do not fill all lanes. */
#define DOTS(NAME, TARGET, TYPE, BYTES)                                                            \
    TARGET static void NAME(struct partial *sums, const TYPE *a, const TYPE *b, int64_t count)     \
    {                                                                                              \
        enum { WIDTH = BYTES / sizeof(double), VECTORS = LANES / WIDTH };                          \
        typedef double wide_t __attribute__((vector_size(WIDTH * sizeof(double))));                \
        typedef TYPE stored_t __attribute__((vector_size(WIDTH * sizeof(TYPE))));                  \
        int64_t full = count - count % LANES;                                                      \
        wide_t ab[VECTORS];                                                                        \
        wide_t aa[VECTORS];                                                                        \
        wide_t bb[VECTORS];                                                                        \
        memcpy(ab, sums->ab, sizeof(ab));                                                          \
        memcpy(aa, sums->aa, sizeof(aa));                                                          \
        memcpy(bb, sums->bb, sizeof(bb));                                                          \
        for (int64_t i = 0; i < full; i += LANES)                                                  \
            STEP(TYPE, a + i, b + i)                                                               \
        if (full < count) {                                                                        \
            TYPE last_a[LANES] = {0};                                                              \
            TYPE last_b[LANES] = {0};                                                              \
            memcpy(last_a, a + full, (size_t)(count - full) * sizeof(TYPE));                       \
            memcpy(last_b, b + full, (size_t)(count - full) * sizeof(TYPE));                       \
            STEP(TYPE, last_a, last_b)                                                             \
        }                                                                                          \
        memcpy(sums->ab, ab, sizeof(ab));                                                          \
        memcpy(sums->aa, aa, sizeof(aa));                                                          \
        memcpy(sums->bb, bb, sizeof(bb));                                                          \
    }

#define COMBINE(NAME, TARGET, TYPE, CANONICAL)                                                     \
    TARGET static void NAME(TYPE *into, const TYPE *from, int64_t count, double p, double q)       \
    {                                                                                              \
        HVD_REDUCE_LOOP                                                                            \
        for (int64_t i = 0; i < count; i++)                                                        \
            into[i] = CANONICAL((TYPE)(p * (double)into[i] + q * (double)from[i]));                \
    }

#define KERNELS(VARIANT, TARGET)                                                                   \
    DOTS(dots32_##VARIANT, TARGET, float, BYTES_##VARIANT)                                         \
    DOTS(dots64_##VARIANT, TARGET, double, BYTES_##VARIANT)                                        \
    COMBINE(combine32_##VARIANT, TARGET, float, hvd_canonical32)                                   \
    COMBINE(combine64_##VARIANT, TARGET, double, hvd_canonical64)

HVD_REDUCE_EACH_VARIANT(KERNELS)

#define ROW(INDEX, VARIANT)                                                                        \
    [INDEX] = {dots32_##VARIANT, dots64_##VARIANT, combine32_##VARIANT, combine64_##VARIANT},

static const struct {
    void (*dots32)(struct partial *sums, const float *a, const float *b, int64_t count);
    void (*dots64)(struct partial *sums, const double *a, const double *b, int64_t count);
    void (*combine32)(float *into, const float *from, int64_t count, double p, double q);
    void (*combine64)(double *into, const double *from, int64_t count, double p, double q);
} kernels[HVD_REDUCE_VARIANTS] = {HVD_REDUCE_TABLE(ROW)};

bool hvd_adasum_supports(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 || dtype == HVD_FLOAT32 ||
           dtype == HVD_FLOAT64;
}

static double total(const double s[LANES])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void dots_of_halves(const struct hvd_half_kernels *half, struct partial *sums,
                           const uint16_t *a, const uint16_t *b, int64_t count)
{
    float x[HALVES];
    float y[HALVES];

    for (int64_t at = 0; at < count; at += HALVES) {
        int64_t n = count - at < HALVES ? count - at : HALVES;

        half->widen(x, a + at, n);
        half->widen(y, b + at, n);
        kernels[hvd_reduce_variant()].dots32(sums, x, y, n);
    }
}

void hvd_adasum_dots(enum hvd_dtype dtype, const void *a, const void *b, int64_t count,
                     double out[3])
{
    struct partial sums = {{0}, {0}, {0}};
    const struct hvd_half_kernels *half = hvd_reduce_half(dtype);

    if (half)
        dots_of_halves(half, &sums, a, b, count);
    else if (dtype == HVD_FLOAT32)
        kernels[hvd_reduce_variant()].dots32(&sums, a, b, count);
    else
        kernels[hvd_reduce_variant()].dots64(&sums, a, b, count);
    out[0] = total(sums.ab);
    out[1] = total(sums.aa);
    out[2] = total(sums.bb);
}

static void combine_halves(const struct hvd_half_kernels *half, uint16_t *into,
                           const uint16_t *from, int64_t count, const double factors[2])
{
    float x[HALVES];
    float y[HALVES];

    for (int64_t at = 0; at < count; at += HALVES) {
        int64_t n = count - at < HALVES ? count - at : HALVES;

        half->widen(x, into + at, n);
        half->widen(y, from + at, n);
        kernels[hvd_reduce_variant()].combine32(x, y, n, factors[0], factors[1]);
        half->narrow(into + at, x, n);
    }
}

/* The factor by which a vector with this square enters the sum. */
static double factor(double dot, double square)
{
    return square < sqrt(DBL_MIN) ? 1 : 1 - dot / square / 2;
}

void hvd_adasum_combine(enum hvd_dtype dtype, void *into, const void *from, int64_t count,
                        const double dots[3])
{
    const double factors[2] = {factor(dots[0], dots[1]), factor(dots[0], dots[2])};
    const struct hvd_half_kernels *half = hvd_reduce_half(dtype);

    if (half)
        combine_halves(half, into, from, count, factors);
    else if (dtype == HVD_FLOAT32)
        kernels[hvd_reduce_variant()].combine32(into, from, count, factors[0], factors[1]);
    else
        kernels[hvd_reduce_variant()].combine64(into, from, count, factors[0], factors[1]);
}
