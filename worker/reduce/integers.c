/*
 * Sums, minima, maxima and products of integers, and the logical operations of bool. Plain loops
 * that the compiler vectorises, compiled once for each instruction set. Any thread; no state.
 * Arithmetic is unsigned, so that wrapping around is defined; the signed types share it.
 */
#include "worker/reduce/reduce_internal.h"

#define ADD(CALC, x, y) ((CALC)(x) + (CALC)(y))
#define MULTIPLY(CALC, x, y) ((CALC)(x) * (CALC)(y))
#define LESS(CALC, x, y) ((y) < (x) ? (y) : (x))
#define MORE(CALC, x, y) ((x) < (y) ? (y) : (x))
#define EITHER(CALC, x, y) (((x) | (y)) != 0)
#define BOTH(CALC, x, y) (((x) != 0) & ((y) != 0))

/* One kernel: memory holds TYPE, the calculation uses CALC. */
#define KERNEL(NAME, TARGET, TYPE, CALC, COMBINE)                                                  \
    TARGET static void NAME(void *out, const void *a, const void *b, int64_t count)                \
    {                                                                                              \
        TYPE *o = out;                                                                             \
        const TYPE *x = a;                                                                         \
        const TYPE *y = b;                                                                         \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) o[i] =                                 \
            (TYPE)COMBINE(CALC, x[i], y[i]);                                                       \
    }

/* A small type is multiplied as unsigned: as int, the product of two uint16 may overflow. */
#define KERNELS(VARIANT, TARGET)                                                                   \
    KERNEL(add8_##VARIANT, TARGET, uint8_t, unsigned, ADD)                                         \
    KERNEL(add16_##VARIANT, TARGET, uint16_t, unsigned, ADD)                                       \
    KERNEL(add32_##VARIANT, TARGET, uint32_t, uint32_t, ADD)                                       \
    KERNEL(add64_##VARIANT, TARGET, uint64_t, uint64_t, ADD)                                       \
    KERNEL(multiply8_##VARIANT, TARGET, uint8_t, unsigned, MULTIPLY)                               \
    KERNEL(multiply16_##VARIANT, TARGET, uint16_t, unsigned, MULTIPLY)                             \
    KERNEL(multiply32_##VARIANT, TARGET, uint32_t, uint32_t, MULTIPLY)                             \
    KERNEL(multiply64_##VARIANT, TARGET, uint64_t, uint64_t, MULTIPLY)                             \
    KERNEL(min_uint8_##VARIANT, TARGET, uint8_t, , LESS)                                           \
    KERNEL(min_int8_##VARIANT, TARGET, int8_t, , LESS)                                             \
    KERNEL(min_uint16_##VARIANT, TARGET, uint16_t, , LESS)                                         \
    KERNEL(min_int16_##VARIANT, TARGET, int16_t, , LESS)                                           \
    KERNEL(min_uint32_##VARIANT, TARGET, uint32_t, , LESS)                                         \
    KERNEL(min_int32_##VARIANT, TARGET, int32_t, , LESS)                                           \
    KERNEL(min_uint64_##VARIANT, TARGET, uint64_t, , LESS)                                         \
    KERNEL(min_int64_##VARIANT, TARGET, int64_t, , LESS)                                           \
    KERNEL(max_uint8_##VARIANT, TARGET, uint8_t, , MORE)                                           \
    KERNEL(max_int8_##VARIANT, TARGET, int8_t, , MORE)                                             \
    KERNEL(max_uint16_##VARIANT, TARGET, uint16_t, , MORE)                                         \
    KERNEL(max_int16_##VARIANT, TARGET, int16_t, , MORE)                                           \
    KERNEL(max_uint32_##VARIANT, TARGET, uint32_t, , MORE)                                         \
    KERNEL(max_int32_##VARIANT, TARGET, int32_t, , MORE)                                           \
    KERNEL(max_uint64_##VARIANT, TARGET, uint64_t, , MORE)                                         \
    KERNEL(max_int64_##VARIANT, TARGET, int64_t, , MORE)                                           \
    KERNEL(either_##VARIANT, TARGET, uint8_t, , EITHER)                                            \
    KERNEL(both_##VARIANT, TARGET, uint8_t, , BOTH)

HVD_REDUCE_EACH_VARIANT(KERNELS)

#define ROW(TYPE, BITS, VARIANT)                                                                   \
    {                                                                                              \
        [HVD_KERNEL_SUM] = add##BITS##_##VARIANT, [HVD_KERNEL_MIN] = min_##TYPE##_##VARIANT,       \
        [HVD_KERNEL_MAX] = max_##TYPE##_##VARIANT,                                                 \
        [HVD_KERNEL_PRODUCT] = multiply##BITS##_##VARIANT,                                         \
    }

#define ROWS(INDEX, VARIANT)                                                                       \
    [INDEX] = {                                                                                    \
        [HVD_UINT8] = ROW(uint8, 8, VARIANT),                                                      \
        [HVD_INT8] = ROW(int8, 8, VARIANT),                                                        \
        [HVD_UINT16] = ROW(uint16, 16, VARIANT),                                                   \
        [HVD_INT16] = ROW(int16, 16, VARIANT),                                                     \
        [HVD_UINT32] = ROW(uint32, 32, VARIANT),                                                   \
        [HVD_INT32] = ROW(int32, 32, VARIANT),                                                     \
        [HVD_UINT64] = ROW(uint64, 64, VARIANT),                                                   \
        [HVD_INT64] = ROW(int64, 64, VARIANT),                                                     \
        [HVD_BOOL] = {either_##VARIANT, both_##VARIANT, either_##VARIANT, both_##VARIANT},         \
    },

hvd_combine_table hvd_reduce_integers = {HVD_REDUCE_TABLE(ROWS)};
