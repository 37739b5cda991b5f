#include "tests/fake/gpu/nccl/arithmetic.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A float of less than 32 bits. */
struct format {
    int exponent_bits;
    int mantissa_bits;
    bool has_infinity; /* else the largest exponent has numbers, and all ones is not a number */
};

static const struct format float16 = {5, 10, true};
static const struct format bfloat16 = {8, 7, true};
static const struct format e4m3 = {4, 3, false};
static const struct format e5m2 = {5, 2, true};

static int bias_of(const struct format *f)
{
    return (1 << (f->exponent_bits - 1)) - 1;
}

static double widen(uint32_t bits, const struct format *f)
{
    const uint32_t mantissa = bits & ((1U << f->mantissa_bits) - 1);
    const uint32_t all = (1U << f->exponent_bits) - 1;
    const uint32_t exponent = bits >> f->mantissa_bits & all;
    const double sign = bits >> (f->mantissa_bits + f->exponent_bits) ? -1 : 1;
    const uint32_t all_mantissa = (1U << f->mantissa_bits) - 1;

    if (exponent == all && f->has_infinity)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == all && mantissa == all_mantissa)
        return (double)NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias_of(f) - f->mantissa_bits);
    return sign * ldexp(mantissa + (1U << f->mantissa_bits),
                        (int)exponent - bias_of(f) - f->mantissa_bits);
}

/* To the nearest, ties to even. What is too large becomes infinite, or the largest number. */
static uint32_t narrow(double x, const struct format *f)
{
    const uint32_t all = (1U << f->exponent_bits) - 1;
    const uint32_t sign = (signbit(x) ? 1U : 0U) << (f->mantissa_bits + f->exponent_bits);
    const uint32_t infinity = all << f->mantissa_bits;
    const uint32_t last =
        f->has_infinity ? infinity - 1 : (infinity | (1U << f->mantissa_bits)) - 2;
    int exponent = 0;

    if (isnan(x))
        return f->has_infinity ? infinity | 1U << (f->mantissa_bits - 1) : last + 1;
    if (isinf(x))
        return sign | (f->has_infinity ? infinity : last);
    frexp(x, &exponent);
    int unit = exponent - 1 - f->mantissa_bits; /* of the last bit */
    if (unit < 1 - bias_of(f) - f->mantissa_bits)
        unit = 1 - bias_of(f) - f->mantissa_bits;
    const double rounded = ldexp(nearbyint(ldexp(fabs(x), -unit)), unit);
    if (rounded > widen(last, f))
        return sign | (f->has_infinity ? infinity : last);
    if (rounded == 0)
        return sign;
    frexp(rounded, &exponent);
    if (exponent - 1 < 1 - bias_of(f)) /* has no leading one */
        return sign | (uint32_t)ldexp(rounded, bias_of(f) - 1 + f->mantissa_bits);
    const uint32_t mantissa =
        (uint32_t)ldexp(rounded, f->mantissa_bits - (exponent - 1)) - (1U << f->mantissa_bits);
    return sign | (uint32_t)(exponent - 1 + bias_of(f)) << f->mantissa_bits | mantissa;
}

size_t arithmetic_size(hvd_nccl_type_t type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return type < sizeof(sizes) / sizeof(*sizes) ? sizes[type] : 0;
}

/* --- Elements --------------------------------------------------------------------------------- */

static const struct format *format_of(hvd_nccl_type_t type)
{
    switch (type) {
    case HVD_NCCL_FLOAT16:
        return &float16;
    case HVD_NCCL_BFLOAT16:
        return &bfloat16;
    case HVD_NCCL_FLOAT8_E4M3:
        return &e4m3;
    case HVD_NCCL_FLOAT8_E5M2:
        return &e5m2;
    default:
        return NULL;
    }
}

static bool is_float(hvd_nccl_type_t type)
{
    return type >= HVD_NCCL_FLOAT16;
}

static double load_float(hvd_nccl_type_t type, const void *at)
{
    float f = 0;
    double d = 0;
    uint16_t half = 0;

    if (type == HVD_NCCL_FLOAT64) {
        memcpy(&d, at, sizeof(d));
        return d;
    }
    if (type == HVD_NCCL_FLOAT32) {
        memcpy(&f, at, sizeof(f));
        return (double)f;
    }
    memcpy(&half, at, arithmetic_size(type));
    return widen(half, format_of(type));
}

static void store_float(hvd_nccl_type_t type, void *at, double value)
{
    const float f = (float)value;

    if (type == HVD_NCCL_FLOAT64) {
        memcpy(at, &value, sizeof(value));
    } else if (type == HVD_NCCL_FLOAT32) {
        memcpy(at, &f, sizeof(f));
    } else {
        const uint16_t half = (uint16_t)narrow(value, format_of(type));
        memcpy(at, &half, arithmetic_size(type));
    }
}

/* Integers are computed in 64 bits; what is stored of them wraps. */
static int64_t load_integer(hvd_nccl_type_t type, const void *at)
{
    int8_t i8 = 0;
    int32_t i32 = 0;
    uint64_t u64 = 0;

    if (arithmetic_size(type) == 1) {
        memcpy(&i8, at, 1);
        return type == HVD_NCCL_INT8 ? i8 : (uint8_t)i8;
    }
    if (arithmetic_size(type) == 4) {
        memcpy(&i32, at, 4);
        return type == HVD_NCCL_INT32 ? i32 : (int64_t)(uint32_t)i32;
    }
    memcpy(&u64, at, 8);
    return (int64_t)u64;
}

static void store_integer(hvd_nccl_type_t type, void *at, int64_t value)
{
    memcpy(at, &value, arithmetic_size(type)); /* this machine is little endian */
}

static int64_t combine_integers(hvd_nccl_type_t type, hvd_nccl_op_t op, int64_t a, int64_t b)
{
    const bool is_less = type == HVD_NCCL_UINT64 ? (uint64_t)a < (uint64_t)b : a < b;

    switch (op) {
    case HVD_NCCL_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case HVD_NCCL_MAX:
        return is_less ? b : a;
    case HVD_NCCL_MIN:
        return is_less ? a : b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static double combine_floats(hvd_nccl_op_t op, double a, double b)
{
    switch (op) {
    case HVD_NCCL_PROD:
        return a * b;
    case HVD_NCCL_MAX:
        return fmax(a, b);
    case HVD_NCCL_MIN:
        return fmin(a, b);
    default:
        return a + b;
    }
}

/* --- Arrays ----------------------------------------------------------------------------------- */

void arithmetic_reduce(hvd_nccl_type_t type, hvd_nccl_op_t op, void *to, const void *from, size_t n)
{
    const size_t size = arithmetic_size(type);

    for (size_t i = 0; i < n; i++) {
        char *a = (char *)to + i * size;
        const char *b = (const char *)from + i * size;
        if (is_float(type))
            store_float(type, a, combine_floats(op, load_float(type, a), load_float(type, b)));
        else
            store_integer(type, a,
                          combine_integers(type, op, load_integer(type, a), load_integer(type, b)));
    }
}

void arithmetic_scale(hvd_nccl_type_t type, void *at, size_t n, const void *scalar)
{
    const size_t size = arithmetic_size(type);

    for (size_t i = 0; i < n; i++) {
        char *a = (char *)at + i * size;
        if (is_float(type))
            store_float(type, a, load_float(type, a) * load_float(type, scalar));
        else
            store_integer(type, a,
                          combine_integers(type, HVD_NCCL_PROD, load_integer(type, a),
                                           load_integer(type, scalar)));
    }
}

bool arithmetic_reciprocal(hvd_nccl_type_t type, int n_ranks, void *scalar)
{
    if (!is_float(type))
        return false;
    store_float(type, scalar, 1.0 / n_ranks);
    return true;
}

void arithmetic_divide(hvd_nccl_type_t type, void *at, size_t n, int n_ranks)
{
    const size_t size = arithmetic_size(type);

    for (size_t i = 0; i < n; i++) {
        char *a = (char *)at + i * size;
        const int64_t value = load_integer(type, a);
        store_integer(type, a,
                      type == HVD_NCCL_UINT64 ? (int64_t)((uint64_t)value / (uint64_t)n_ranks)
                                              : value / n_ranks);
    }
}
