/*
 * Multiplies by a factor, divides by a number of ranks. Plain loops that the compiler vectorises,
 * the floating point ones once for each instruction set. Any thread; no state. What each type is
 * computed as is in reduce.h; the short cuts below give the same bits.
 */
#include "worker/reduce/reduce_internal.h"

#define HALVES 512 /* converted at a time, on the stack */

/* What does not fit becomes the limit; 0 for a NaN, which compares with nothing. Below LIMIT, which
 * is the largest value + 1, truncation is the largest value at most. */
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
 * Division by way of a floating point type, which vectorises. Exact: a quotient that is no integer
 * is at least 1 / divisor away from one, and the rounding error is less than that, because the type
 * has more digits than the dividend. A divisor that float cannot hold is larger than any 16-bit
 * dividend.
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

#define FLOATING(NAME, TARGET, TYPE, CALC, CANONICAL, EXPRESSION)                                  \
    TARGET static void NAME(void *out, const void *in, double factor, double divisor,              \
                            int64_t count)                                                         \
    {                                                                                              \
        TYPE *o = out;                                                                             \
        const TYPE *x = in;                                                                        \
        CALC m = (CALC)factor;                                                                     \
        CALC d = (CALC)divisor;                                                                    \
        (void)m;                                                                                   \
        (void)d;                                                                                   \
        HVD_REDUCE_LOOP                                                                            \
        for (int64_t i = 0; i < count; i++) {                                                      \
            CALC y = x[i];                                                                         \
            o[i] = CANONICAL((TYPE)(EXPRESSION));                                                  \
        }                                                                                          \
    }

#define KERNELS(VARIANT, TARGET)                                                                   \
    FLOATING(times32_##VARIANT, TARGET, float, float, hvd_canonical32, y *m)                       \
    FLOATING(over32_##VARIANT, TARGET, float, float, hvd_canonical32, y / d)                       \
    FLOATING(scale32_##VARIANT, TARGET, float, double, hvd_canonical32, y *m / d)                  \
    FLOATING(times64_##VARIANT, TARGET, double, double, hvd_canonical64, y *m)                     \
    FLOATING(scale64_##VARIANT, TARGET, double, double, hvd_canonical64, y *m / d)

HVD_REDUCE_EACH_VARIANT(KERNELS)

typedef void (*scale_fn)(void *out, const void *in, double factor, double divisor, int64_t count);

#define FLOAT_ROW(INDEX, VARIANT)                                                                  \
    [INDEX] = {times32_##VARIANT, over32_##VARIANT, scale32_##VARIANT, times64_##VARIANT,          \
               scale64_##VARIANT},

static const struct {
    scale_fn times32; /* as float */
    scale_fn over32;  /* as float */
    scale_fn scale32; /* as double, rounded once */
    scale_fn times64;
    scale_fn scale64;
} floats[HVD_REDUCE_VARIANTS] = {HVD_REDUCE_TABLE(FLOAT_ROW)};

static bool is_float(double x)
{
    return (double)(float)x == x;
}

static bool is_power_of_two(double x)
{
    int exponent;

    return frexp(x, &exponent) == 0.5;
}

/* How factor / divisor is done to a float32. */
enum way {
    TIMES, /* as float, by one factor */
    OVER,  /* as float, by one divisor */
    BOTH,  /* as double, rounded once */
};

/*
 * float is enough where the result is that of double, rounded once: the product of two floats is
 * exact as double; the double nearest to a quotient of two floats rounds to the float nearest to
 * it; and the reciprocal of a power of two is exact.
 */
static enum way choose_way(double factor, double divisor, float *by)
{
    enum way way = BOTH;

    if (divisor == 1 && is_float(factor)) {
        way = TIMES;
        *by = (float)factor;
    } else if (factor == 1 && is_power_of_two(divisor)) {
        way = TIMES;
        *by = (float)(1 / divisor);
    } else if (factor == 1 && is_float(divisor)) {
        way = OVER;
        *by = (float)divisor;
    }
    return way;
}

static void scale_float32(void *out, const void *in, double factor, double divisor, int64_t count)
{
    enum hvd_reduce_variant v = hvd_reduce_variant();
    float by = 1;

    switch (choose_way(factor, divisor, &by)) {
    case TIMES:
        floats[v].times32(out, in, by, 1, count);
        break;
    case OVER:
        floats[v].over32(out, in, 1, by, count);
        break;
    case BOTH:
        floats[v].scale32(out, in, factor, divisor, count);
        break;
    }
}

bool hvd_reduce_finishes_by_factor(enum hvd_dtype dtype, const struct hvd_scaling *scaling,
                                   double *factor)
{
    bool is_one = scaling->divisor == 1 ||
                  (scaling->postscale == 1 && is_power_of_two((double)scaling->divisor));
    double product = scaling->postscale / (double)scaling->divisor;

    if (!is_one || (dtype == HVD_FLOAT32 && !is_float(product)) ||
        (dtype != HVD_FLOAT32 && dtype != HVD_FLOAT64))
        return false;
    *factor = product;
    return true;
}

static void scale_float64(void *out, const void *in, double factor, double divisor, int64_t count)
{
    enum hvd_reduce_variant v = hvd_reduce_variant();

    if (divisor == 1)
        floats[v].times64(out, in, factor, 1, count);
    else if (factor == 1 && is_power_of_two(divisor))
        floats[v].times64(out, in, 1 / divisor, 1, count);
    else
        floats[v].scale64(out, in, factor, divisor, count);
}

/* By way of float32, a part at a time. */
static void scale_widened(const struct hvd_half_kernels *half, uint16_t *out, const uint16_t *in,
                          const double by[2], int64_t count)
{
    float wide[HALVES];

    for (int64_t at = 0; at < count; at += HALVES) {
        int64_t n = count - at < HALVES ? count - at : HALVES;

        half->widen(wide, in + at, n);
        scale_float32(wide, wide, by[0], by[1], n);
        half->narrow(out + at, wide, n);
    }
}

static void scale_halves(const struct hvd_half_kernels *half, void *out, const void *in,
                         double factor, double divisor, int64_t count)
{
    float by = 1;

    switch (choose_way(factor, divisor, &by)) {
    case TIMES:
        half->times(out, in, by, count);
        break;
    case OVER:
        half->over(out, in, by, count);
        break;
    case BOTH:
        scale_widened(half, out, in, (const double[2]){factor, divisor}, count);
        break;
    }
}

static void scale_integers(enum hvd_dtype dtype, const struct hvd_scaling *s, void *data,
                           int64_t count)
{
    if (s->postscale != 1)
        integers[dtype].multiply(data, data, s->postscale, count);
    if (s->divisor != 1)
        integers[dtype].divide(data, s->divisor, count);
}

bool hvd_scaling_is_identity(const struct hvd_scaling *scaling)
{
    return scaling->prescale == 1 && scaling->postscale == 1 && scaling->divisor == 1;
}

void hvd_reduce_prescale(enum hvd_dtype dtype, const struct hvd_scaling *scaling, void *out,
                         const void *in, int64_t count)
{
    const struct hvd_half_kernels *half = hvd_reduce_half(dtype);

    if (scaling->prescale == 1 || dtype == HVD_BOOL) {
        if (out != in && count > 0)
            memcpy(out, in, (size_t)count * hvd_dtype_size((int)dtype));
    } else if (half) {
        scale_halves(half, out, in, scaling->prescale, 1, count);
    } else if (dtype == HVD_FLOAT32) {
        scale_float32(out, in, scaling->prescale, 1, count);
    } else if (dtype == HVD_FLOAT64) {
        scale_float64(out, in, scaling->prescale, 1, count);
    } else {
        integers[dtype].multiply(out, in, scaling->prescale, count);
    }
}

void hvd_reduce_finish(enum hvd_dtype dtype, const struct hvd_scaling *scaling, void *data,
                       int64_t count)
{
    const struct hvd_half_kernels *half = hvd_reduce_half(dtype);

    if ((scaling->postscale == 1 && scaling->divisor == 1) || dtype == HVD_BOOL)
        return;
    if (half)
        scale_halves(half, data, data, scaling->postscale, scaling->divisor, count);
    else if (dtype == HVD_FLOAT32)
        scale_float32(data, data, scaling->postscale, scaling->divisor, count);
    else if (dtype == HVD_FLOAT64)
        scale_float64(data, data, scaling->postscale, scaling->divisor, count);
    else
        scale_integers(dtype, scaling, data, count);
}
