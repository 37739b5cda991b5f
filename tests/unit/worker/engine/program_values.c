/* Numbers in every element type: halves are put together from sign, exponent and fraction. */
#include "tests/unit/worker/engine/program_values.h"

#include <math.h>
#include <string.h>

/* The bits of a small whole number in a type of 16 bits with so many bits of fraction. */
static uint16_t half_of(int value, int fraction_bits, int bias)
{
    int exponent = 0;

    if (value == 0)
        return 0;
    while (value >> (exponent + 1))
        exponent++;
    const int fraction = value - (1 << exponent);
    const int shifted = exponent <= fraction_bits ? fraction << (fraction_bits - exponent)
                                                  : fraction >> (exponent - fraction_bits);
    return (uint16_t)(((exponent + bias) << fraction_bits) | shifted);
}

static double half_value(uint16_t bits, int fraction_bits, int bias)
{
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

void value_store(enum hvd_dtype dtype, void *data, int64_t i, int value)
{
    const size_t size = hvd_dtype_size((int)dtype);
    const float single = (float)value;
    const double twice = value;
    char *at = (char *)data + (size_t)i * size;
    uint16_t half;
    int64_t whole = value; /* little endian: the first bytes are those of a shorter type */

    switch ((int)dtype) {
    case HVD_FLOAT32:
        memcpy(at, &single, size);
        break;
    case HVD_FLOAT64:
        memcpy(at, &twice, size);
        break;
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
        half = dtype == HVD_FLOAT16 ? half_of(value, 10, 15) : half_of(value, 7, 127);
        memcpy(at, &half, size);
        break;
    default:
        memcpy(at, &whole, size);
        break;
    }
}

double value_load(enum hvd_dtype dtype, const void *data, int64_t i)
{
    switch ((int)dtype) {
    case HVD_INT8:
        return ((const int8_t *)data)[i];
    case HVD_UINT16:
        return ((const uint16_t *)data)[i];
    case HVD_INT16:
        return ((const int16_t *)data)[i];
    case HVD_INT32:
        return ((const int32_t *)data)[i];
    case HVD_INT64:
        return (double)((const int64_t *)data)[i];
    case HVD_UINT32:
        return ((const uint32_t *)data)[i];
    case HVD_UINT64:
        return (double)((const uint64_t *)data)[i];
    case HVD_FLOAT16:
        return half_value(((const uint16_t *)data)[i], 10, 15);
    case HVD_BFLOAT16:
        return half_value(((const uint16_t *)data)[i], 7, 127);
    case HVD_FLOAT32:
        return ((const float *)data)[i];
    case HVD_FLOAT64:
        return ((const double *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

bool value_is_whole(enum hvd_dtype dtype)
{
    return dtype != HVD_FLOAT16 && dtype != HVD_BFLOAT16 && dtype != HVD_FLOAT32 &&
           dtype != HVD_FLOAT64;
}

double value_slack(enum hvd_dtype dtype)
{
    if (value_is_whole(dtype))
        return 0;
    return dtype == HVD_BFLOAT16 ? 0.02 : dtype == HVD_FLOAT16 ? 0.003 : 1e-6;
}
