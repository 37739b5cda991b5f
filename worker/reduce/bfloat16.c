/*
 * bfloat16: computed as float32 and rounded to the nearest, ties to even. Plain loops that the
 * compiler vectorises, compiled once for each instruction set; sums on x86-64 are in sums.c. Any
 * thread; no state. float32 has more than twice the digits, so a sum or product is the value
 * nearest to the exact one.
 */
#include "worker/reduce/half_bits.h"
#include "worker/reduce/half_loops.h"
#include "worker/reduce/sums.h"

#define SUM(x, y) hvd_bfloat16_result(hvd_bfloat16_widen(x) + hvd_bfloat16_widen(y))
#define PRODUCT(x, y) hvd_bfloat16_result(hvd_bfloat16_widen(x) * hvd_bfloat16_widen(y))
#define LESS(x, y) hvd_half_min(x, y, 0x7f80, 0x7fc0)
#define MORE(x, y) hvd_half_max(x, y, 0x7f80, 0x7fc0)

#define KERNELS(VARIANT, TARGET)                                                                   \
    HVD_HALF_COMBINE(product_##VARIANT, TARGET, PRODUCT)                                           \
    HVD_HALF_COMBINE(min_##VARIANT, TARGET, LESS)                                                  \
    HVD_HALF_COMBINE(max_##VARIANT, TARGET, MORE)                                                  \
    HVD_HALF_CONVERT(widen_##VARIANT, TARGET, float, uint16_t, hvd_bfloat16_widen)                 \
    HVD_HALF_CONVERT(narrow_##VARIANT, TARGET, uint16_t, float, hvd_bfloat16_narrow)               \
    HVD_HALF_SCALE(times_##VARIANT, TARGET, hvd_bfloat16_widen, hvd_bfloat16_result)

HVD_REDUCE_EACH_VARIANT(KERNELS)
HVD_HALF_COMBINE(sum_portable, , SUM)

/* On x86-64 sums.c has kernels for sums. */
#define sum_avx2 hvd_sums_bfloat16_avx2
#define sum_avx512 hvd_sums_bfloat16_avx512

#define ROW(INDEX, VARIANT)                                                                        \
    [INDEX] = {                                                                                    \
        widen_##VARIANT,                                                                           \
        narrow_##VARIANT,                                                                          \
        times_##VARIANT,                                                                           \
        {sum_##VARIANT, min_##VARIANT, max_##VARIANT, product_##VARIANT},                          \
    },

const struct hvd_half_kernels hvd_reduce_bfloat16[HVD_REDUCE_VARIANTS] = {HVD_REDUCE_TABLE(ROW)};
