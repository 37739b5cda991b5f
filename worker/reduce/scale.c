/*
 * Multiplication by a factor and division by a number of ranks. Plain loops that the compiler
 * vectorises, the floating point ones once for each instruction set. Any thread; no state. reduce.h
 * has the precision of each type.
 */
#include "worker/reduce/reduce_internal.h"

/* A product out of range becomes the limit, and a NaN, which compares with nothing, becomes 0.
 * LIMIT is the largest value + 1: below it, truncation yields the largest value at most. */
#define INTEGER(TYPE, LEAST, MOST, LIMIT)                                                          \
    static void multiply_##TYPE(void *out, const void *in, double factor, int64_t count)           \
    {                                                                                              \
        TYPE##_t *o = out;                                                                         \
        const TYPE##_t *x = in;                                                                    \
        for (int64_t i = 0; i < count; i++) {                                                      \
            double exact = (double)x[i] * factor;                                                  \
            if (exact > (double)LEAST && exact < LIMIT)                                            \
                o[i] = (TYPE##_t)exact;                                                            \
            else                                                                                   \
                o[i] = (TYPE##_t)(exact >= LIMIT ? MOST : LEAST * (exact <= (double)LEAST));       \
        }                                                                                          \
    }

INTEGER(uint8, 0, UINT8_MAX, 0x1p8)
INTEGER(int8, INT8_MIN, INT8_MAX, 0x1p7)
INTEGER(uint16, 0, UINT16_MAX, 0x1p16)
INTEGER(int16, INT16_MIN, INT16_MAX, 0x1p15)
INTEGER(uint32, 0, UINT32_MAX, 0x1p32)
INTEGER(int32, INT32_MIN, INT32_MAX, 0x1p31)
INTEGER(uint64, 0, UINT64_MAX, 0x1p64)
INTEGER(int64, INT64_MIN, INT64_MAX, 0x1p63)

/*
 * Division by way of a floating point type, which vectorises. It is exact: a quotient that is no
 * integer is at least 1 / divisor away from one. The rounding error is less than that, because the
 * type has more digits than the dividend. A divisor that float cannot hold is larger than any
 * 16-bit dividend.
 */
#define DIVIDE(TYPE, CALC)                                                                         \
    static void divide_##TYPE(void *data, int divisor, int64_t count)                              \
    {                                                                                              \
        TYPE##_t *x = data;                                                                        \
        for (int64_t i = 0; i < count; i++)                                                        \
            x[i] = (TYPE##_t)((CALC)x[i] / (CALC)divisor);                                         \
    }

DIVIDE(uint8, float)
DIVIDE(int8, float)
DIVIDE(uint16, float)
DIVIDE(int16, float)
DIVIDE(uint32, double)
DIVIDE(int32, double)
DIVIDE(uint64, uint64_t)
DIVIDE(int64, int64_t)

#define ROW(TYPE)                                                                                  \
    {                                                                                              \
        multiply_##TYPE, divide_##TYPE                                                             \
    }

static const struct {
    void (*multiply)(void *out, const void *in, double factor, int64_t count);
    void (*divide)(void *data, int divisor, int64_t count);
} integers[HVD_DTYPES] = {
    [HVD_UINT8] = ROW(uint8),   [HVD_INT8] = ROW(int8),     [HVD_UINT16] = ROW(uint16),
    [HVD_INT16] = ROW(int16),   [HVD_UINT32] = ROW(uint32), [HVD_INT32] = ROW(int32),
    [HVD_UINT64] = ROW(uint64), [HVD_INT64] = ROW(int64),
};

/* out[i] = x[i] * factor, both of the tensor's own type. */
#define FLOATING(NAME, TARGET, TYPE, CANONICAL)                                                    \
    TARGET static void NAME(void *out, const void *in, double factor, int64_t count)               \
    {                                                                                              \
        TYPE *o = out;                                                                             \
        const TYPE *x = in;                                                                        \
        TYPE m = (TYPE)factor;                                                                     \
        HVD_REDUCE_LOOP                                                                            \
        for (int64_t i = 0; i < count; i++)                                                        \
            o[i] = CANONICAL(x[i] * m);                                                            \
    }

#define KERNELS(VARIANT, TARGET)                                                                   \
    FLOATING(times32_##VARIANT, TARGET, float, hvd_canonical32)                                    \
    FLOATING(times64_##VARIANT, TARGET, double, hvd_canonical64)

HVD_REDUCE_EACH_VARIANT(KERNELS)

typedef void (*scale_fn)(void *out, const void *in, double factor, int64_t count);

#define FLOAT_ROW(INDEX, VARIANT) [INDEX] = {times32_##VARIANT, times64_##VARIANT},

static const struct {
    scale_fn times32;
    scale_fn times64;
} floats[HVD_REDUCE_VARIANTS] = {HVD_REDUCE_TABLE(FLOAT_ROW)};

/* The factor of the finishing step. */
static double finishing_factor(const struct hvd_scaling *scaling)
{
    return scaling->postscale / (double)scaling->divisor;
}

bool hvd_reduce_finishes_by_factor(enum hvd_dtype dtype, const struct hvd_scaling *scaling,
                                   double *factor)
{
    if (dtype != HVD_FLOAT32 && dtype != HVD_FLOAT64)
        return false;
    *factor = finishing_factor(scaling);
    return true;
}

/* Any type but bool. */
static void multiply(enum hvd_dtype dtype, void *out, const void *in, double factor, int64_t count)
{
    const struct hvd_half_kernels *half = hvd_reduce_half(dtype);

    if (half)
        half->times(out, in, (float)factor, count);
    else if (dtype == HVD_FLOAT32)
        floats[hvd_reduce_variant()].times32(out, in, factor, count);
    else if (dtype == HVD_FLOAT64)
        floats[hvd_reduce_variant()].times64(out, in, factor, count);
    else
        integers[dtype].multiply(out, in, factor, count);
}

bool hvd_scale_is_identity(const struct hvd_scaling *scaling)
{
    return scaling->prescale == 1 && scaling->postscale == 1 && scaling->divisor == 1;
}

void hvd_reduce_prescale(enum hvd_dtype dtype, const struct hvd_scaling *scaling, void *out,
                         const void *in, int64_t count)
{
    if (scaling->prescale != 1 && dtype != HVD_BOOL)
        multiply(dtype, out, in, scaling->prescale, count);
    else if (out != in && count > 0)
        memcpy(out, in, (size_t)count * hvd_dtype_size((int)dtype));
}

void hvd_reduce_finish(enum hvd_dtype dtype, const struct hvd_scaling *scaling, void *data,
                       int64_t count)
{
    if ((scaling->postscale == 1 && scaling->divisor == 1) || dtype == HVD_BOOL)
        return;
    if (scaling->postscale == 1 && integers[dtype].divide)
        integers[dtype].divide(data, scaling->divisor, count);
    else
        multiply(dtype, data, data, finishing_factor(scaling), count);
}
