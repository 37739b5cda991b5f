/*
 * Sums, minima, maxima and products of float32 and float64. Plain loops that the compiler
 * vectorises, compiled once for each instruction set; never with fused multiply-add, which would
 * round differently. Any thread; no state.
 *
 * Results do not depend on the order of the operands. A NaN result always has the same bits.
 * Minimum and maximum respect the sign of zero: they compare the bits as integers, in the order
 * -inf .. -0, +0 .. +inf.
 */
#include "worker/reduce/reduce_internal.h"

#define ARITHMETIC(NAME, TARGET, TYPE, CANONICAL, OP)                                              \
    TARGET static void NAME(void *out, const void *a, const void *b, int64_t count)                \
    {                                                                                              \
        TYPE *o = out;                                                                             \
        const TYPE *x = a;                                                                         \
        const TYPE *y = b;                                                                         \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) o[i] = CANONICAL(x[i] OP y[i]);        \
    }

#define PICK(NAME, TARGET, TYPE, LESSER, KEEPS_FIRST)                                              \
    TARGET static void NAME(void *out, const void *a, const void *b, int64_t count)                \
    {                                                                                              \
        TYPE *o = out;                                                                             \
        const TYPE *x = a;                                                                         \
        const TYPE *y = b;                                                                         \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++)                                        \
        {                                                                                          \
            TYPE picked = (LESSER(x[i], y[i]) == (KEEPS_FIRST)) ? x[i] : y[i];                     \
            o[i] = isunordered(x[i], y[i]) ? (TYPE)NAN : picked;                                   \
        }                                                                                          \
    }

/* Maps a number to its rank in the order of all numbers. */
static inline int32_t rank32(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits ^ ((bits >> 31) & INT32_MAX);
}

static inline int64_t rank64(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits ^ ((bits >> 63) & INT64_MAX);
}

#define LESSER32(x, y) (rank32(x) < rank32(y))
#define LESSER64(x, y) (rank64(x) < rank64(y))

#define KERNELS(VARIANT, TARGET)                                                                   \
    ARITHMETIC(add32_##VARIANT, TARGET, float, hvd_canonical32, +)                                 \
    ARITHMETIC(add64_##VARIANT, TARGET, double, hvd_canonical64, +)                                \
    ARITHMETIC(multiply32_##VARIANT, TARGET, float, hvd_canonical32, *)                            \
    ARITHMETIC(multiply64_##VARIANT, TARGET, double, hvd_canonical64, *)                           \
    PICK(min32_##VARIANT, TARGET, float, LESSER32, true)                                           \
    PICK(max32_##VARIANT, TARGET, float, LESSER32, false)                                          \
    PICK(min64_##VARIANT, TARGET, double, LESSER64, true)                                          \
    PICK(max64_##VARIANT, TARGET, double, LESSER64, false)

HVD_REDUCE_EACH_VARIANT(KERNELS)

#define ROWS(INDEX, VARIANT)                                                                       \
    [INDEX] = {                                                                                    \
        [HVD_FLOAT32] = {add32_##VARIANT, min32_##VARIANT, max32_##VARIANT, multiply32_##VARIANT}, \
        [HVD_FLOAT64] = {add64_##VARIANT, min64_##VARIANT, max64_##VARIANT, multiply64_##VARIANT}, \
    },

hvd_combine_table hvd_reduce_floats = {HVD_REDUCE_TABLE(ROWS)};
