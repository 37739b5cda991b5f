#include "tests/unit/worker/reduce/reference.h"

#include <math.h>
#include <string.h>

/* A binary format: digits of the significand, least and greatest exponent of a normal number. */
struct format {
    int digits;
    int least;
    int most;
};

static struct format format_of(enum hvd_dtype dtype)
{
    struct format float16 = {11, -14, 15};
    struct format bfloat16 = {8, -126, 127};

    return dtype == HVD_FLOAT16 ? float16 : bfloat16;
}

double reference_half_value(enum hvd_dtype dtype, uint16_t bits)
{
    struct format f = format_of(dtype);
    int fraction = bits & ((1 << (f.digits - 1)) - 1);
    int exponent = (bits & 0x7fff) >> (f.digits - 1);
    double value;

    if (exponent == f.most - f.least + 2)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, f.least - f.digits + 1);
    else
        value = ldexp(fraction + (1 << (f.digits - 1)), exponent - 1 + f.least - f.digits + 1);
    return bits & 0x8000 ? -value : value;
}

uint16_t reference_half_bits(enum hvd_dtype dtype, double value)
{
    struct format f = format_of(dtype);
    int infinity = (f.most - f.least + 2) << (f.digits - 1);
    int sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent = f.least;

    if (isnan(value))
        return (uint16_t)(infinity | 1 << (f.digits - 2));
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    if (size >= ldexp(1, f.least))
        exponent = ilogb(size);
    if (exponent > f.most)
        return (uint16_t)(sign | infinity);
    /* In units of the last place; a significand that is rounded up carries into the exponent. */
    int units = (int)rint(ldexp(size, f.digits - 1 - exponent));

    return (uint16_t)(sign | (units + ((exponent - f.least) << (f.digits - 1))));
}

/* The lesser in the order -inf .. -0, +0 .. +inf; NaN if there is one. */
static double least(double a, double b)
{
    if (isnan(a) || isnan(b))
        return (double)NAN;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double combine_floating(enum hvd_dtype dtype, enum hvd_reduce op, double a, double b)
{
    bool is_double = dtype == HVD_FLOAT64;

    switch ((int)op) {
    case HVD_MIN:
        return least(a, b);
    case HVD_MAX:
        return -least(-a, -b);
    case HVD_PRODUCT:
        return is_double ? a * b : (double)((float)a * (float)b);
    default:
        return is_double ? a + b : (double)((float)a + (float)b);
    }
}

static double read_floating(enum hvd_dtype dtype, const void *at)
{
    uint16_t half;
    float single;
    double value;

    if (dtype == HVD_FLOAT64) {
        memcpy(&value, at, sizeof(value));
    } else if (dtype == HVD_FLOAT32) {
        memcpy(&single, at, sizeof(single));
        value = (double)single;
    } else {
        memcpy(&half, at, sizeof(half));
        value = reference_half_value(dtype, half);
    }
    return value;
}

static void write_floating(enum hvd_dtype dtype, void *at, double value)
{
    double one_nan = isnan(value) ? (double)NAN : value;
    float single = isnan(value) ? NAN : (float)value;
    uint16_t half;

    if (dtype == HVD_FLOAT64) {
        memcpy(at, &one_nan, sizeof(one_nan));
    } else if (dtype == HVD_FLOAT32) {
        memcpy(at, &single, sizeof(single));
    } else {
        half = reference_half_bits(dtype, (double)single);
        memcpy(at, &half, sizeof(half));
    }
}

static bool is_floating(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 || dtype == HVD_FLOAT32 ||
           dtype == HVD_FLOAT64;
}

static bool is_signed(enum hvd_dtype dtype)
{
    return dtype == HVD_INT8 || dtype == HVD_INT16 || dtype == HVD_INT32 || dtype == HVD_INT64;
}

__extension__ typedef __int128 wide_t;

static wide_t read_integer(enum hvd_dtype dtype, const void *at)
{
    size_t size = hvd_dtype_size((int)dtype);
    uint64_t bits = 0;
    wide_t value;

    memcpy(&bits, at, size);
    value = (wide_t)bits;
    if (is_signed(dtype) && bits >> (8 * size - 1))
        value -= (wide_t)1 << (8 * size);
    return value;
}

static void write_integer(enum hvd_dtype dtype, void *at, wide_t value)
{
    uint64_t bits = (uint64_t)value;

    memcpy(at, &bits, hvd_dtype_size((int)dtype));
}

double reference_get(enum hvd_dtype dtype, const void *data, int64_t i)
{
    const char *at = (const char *)data + (size_t)i * hvd_dtype_size((int)dtype);

    return is_floating(dtype) ? read_floating(dtype, at) : (double)read_integer(dtype, at);
}

void reference_set(enum hvd_dtype dtype, void *data, int64_t i, double value)
{
    char *at = (char *)data + (size_t)i * hvd_dtype_size((int)dtype);

    if (is_floating(dtype))
        write_floating(dtype, at, value);
    else
        write_integer(dtype, at, (wide_t)value);
}

void reference_combine(enum hvd_dtype dtype, enum hvd_reduce op, void *out, const void *a,
                       const void *b)
{
    if (is_floating(dtype)) {
        write_floating(
            dtype, out,
            combine_floating(dtype, op, read_floating(dtype, a), read_floating(dtype, b)));
        return;
    }
    wide_t x = read_integer(dtype, a);
    wide_t y = read_integer(dtype, b);

    if (dtype == HVD_BOOL)
        x = op == HVD_SUM || op == HVD_MAX ? x || y : x && y;
    else if (op == HVD_SUM)
        x = x + y;
    else if (op == HVD_PRODUCT)
        x = (int64_t)((uint64_t)x * (uint64_t)y);
    else
        x = (x < y) == (op == HVD_MIN) ? x : y;
    write_integer(dtype, out, x);
}

static wide_t scale_integer(enum hvd_dtype dtype, wide_t x, double factor)
{
    int bits = 8 * (int)hvd_dtype_size((int)dtype);
    wide_t least_value = is_signed(dtype) ? -((wide_t)1 << (bits - 1)) : 0;
    wide_t most = ((wide_t)1 << (is_signed(dtype) ? bits - 1 : bits)) - 1;
    double exact = (double)x * factor;

    if (isnan(exact))
        return 0;
    if (exact >= (double)most + 1)
        return most;
    if (exact <= (double)least_value)
        return least_value;
    return (wide_t)exact;
}

/* The factor in the type in which it multiplies; the product of two floats is exact as double. */
static double round_factor(enum hvd_dtype dtype, double factor)
{
    return dtype == HVD_FLOAT64 ? factor : (double)(float)factor;
}

void reference_scale(enum hvd_dtype dtype, void *x, double factor, int divisor)
{
    if (dtype == HVD_BOOL)
        return;
    if (is_floating(dtype)) {
        write_floating(dtype, x, read_floating(dtype, x) * round_factor(dtype, factor / divisor));
        return;
    }
    wide_t value = read_integer(dtype, x);

    if (factor != 1)
        value = scale_integer(dtype, value, factor / divisor);
    else
        value /= divisor;
    write_integer(dtype, x, value);
}

uint64_t reference_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void reference_fill(enum hvd_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    static const double numbers[] = {0,
                                     -0.0,
                                     1,
                                     -1,
                                     1.5,
                                     1e-3,
                                     65504,
                                     65519,
                                     65520,
                                     3.3e38,
                                     -3.4e38,
                                     1.7e308,
                                     6e-8,
                                     1e-45,
                                     1e-40,
                                     4.9e-324,
                                     2.2e-308,
                                     127,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN};
    size_t size = hvd_dtype_size((int)dtype);
    uint64_t state = seed * 1000003u + (uint64_t)dtype;

    for (int64_t i = 0; i < count; i++) {
        char *at = (char *)data + (size_t)i * size;
        uint64_t bits = reference_random(&state);
        uint64_t kind = reference_random(&state) % 4;

        if (kind == 0 && is_floating(dtype)) { /* a special one */
            write_floating(dtype, at, numbers[bits % (sizeof(numbers) / sizeof(*numbers))]);
            continue;
        }
        if (kind == 1 && is_floating(dtype)) { /* an ordinary one */
            write_floating(dtype, at, (double)(int64_t)bits * 0x1p-60);
            continue;
        }
        if (kind == 0) /* all bits or none, and one */
            bits = (uint64_t)0 - (bits & 1);
        else if (kind == 1) /* the least signed one, or next to it */
            bits = ((uint64_t)1 << (8 * size - 1)) - (bits & 1);
        memcpy(at, &bits, size);
    }
}
