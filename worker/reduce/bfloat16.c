/*
 * bfloat16: computed as float32 and rounded to the nearest, ties to even. Plain loops that the
 * compiler vectorises, compiled once for each instruction set; sums on x86-64 are in sums.c. Any
 * thread; no state. float32 has
 * more than twice the digits, so that a sum or product is the one nearest to the exact one.
 */
#include "worker/reduce/half_bits.h"
#include "worker/reduce/reduce_internal.h"
#include "worker/reduce/sums.h"

#define SUM(x, y) hvd_bfloat16_result(hvd_bfloat16_widen(x) + hvd_bfloat16_widen(y))
#define PRODUCT(x, y) hvd_bfloat16_result(hvd_bfloat16_widen(x) * hvd_bfloat16_widen(y))
#define LESS(x, y) hvd_half_min(x, y, 0x7f80, 0x7fc0)
#define MORE(x, y) hvd_half_max(x, y, 0x7f80, 0x7fc0)

#define COMBINE(NAME, TARGET, EXPRESSION)                                                          \
    TARGET static void NAME(void *out, const void *a, const void *b, int64_t count)                \
    {                                                                                              \
        uint16_t *o = out;                                                                         \
        const uint16_t *x = a;                                                                     \
        const uint16_t *y = b;                                                                     \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) o[i] = EXPRESSION(x[i], y[i]);         \
    }

#define CONVERT(NAME, TARGET, TO, FROM, FUNCTION)                                                  \
    TARGET static void NAME(TO *out, const FROM *in, int64_t count)                                \
    {                                                                                              \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) out[i] = FUNCTION(in[i]);              \
    }

#define SCALE(NAME, TARGET, OP)                                                                    \
    TARGET static void NAME(uint16_t *out, const uint16_t *in, float by, int64_t count)            \
    {                                                                                              \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) out[i] =                               \
            hvd_bfloat16_result(hvd_bfloat16_widen(in[i]) OP by);                                  \
    }

#define KERNELS(VARIANT, TARGET)                                                                   \
    COMBINE(product_##VARIANT, TARGET, PRODUCT)                                                    \
    COMBINE(min_##VARIANT, TARGET, LESS)                                                           \
    COMBINE(max_##VARIANT, TARGET, MORE)                                                           \
    CONVERT(widen_##VARIANT, TARGET, float, uint16_t, hvd_bfloat16_widen)                          \
    CONVERT(narrow_##VARIANT, TARGET, uint16_t, float, hvd_bfloat16_narrow)                        \
    SCALE(times_##VARIANT, TARGET, *)                                                              \
    SCALE(over_##VARIANT, TARGET, /)

HVD_REDUCE_EACH_VARIANT(KERNELS)
COMBINE(sum_portable, , SUM)

/* Sums have kernels of their own on x86-64. */
#define sum_avx2 hvd_bfloat16_sum_avx2
#define sum_avx512 hvd_bfloat16_sum_avx512

#define ROW(INDEX, VARIANT)                                                                        \
    [INDEX] = {                                                                                    \
        widen_##VARIANT,                                                                           \
        narrow_##VARIANT,                                                                          \
        times_##VARIANT,                                                                           \
        over_##VARIANT,                                                                            \
        {sum_##VARIANT, min_##VARIANT, max_##VARIANT, product_##VARIANT},                          \
    },

const struct hvd_half_kernels hvd_reduce_bfloat16[HVD_REDUCE_VARIANTS] = {HVD_REDUCE_TABLE(ROW)};
