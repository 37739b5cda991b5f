#ifndef HVD_WORKER_REDUCE_HALF_BITS_H
#define HVD_WORKER_REDUCE_HALF_BITS_H

/*
 * float16 and bfloat16 in plain C, one value at a time and without branches, so that loops over
 * them vectorise. A NaN stays a NaN with its sign and the upper bits of its payload. Narrowing
 * makes it quiet, as the conversion instructions of x86-64 and AArch64 do.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t hvd_float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float hvd_float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/*  float16   s eeeee mmmmmmmmmm       exponent bias 15
 *  float32   s eeeeeeee m(23)         exponent bias 127, so normal exponents grow by 112  */
static inline float hvd_float16_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = half & 0x7fffu;
    uint32_t normal = (rest << 13) + (112u << 23);
    uint32_t special = (rest << 13) | 0x7f800000u | (rest > 0x7c00u ? 0x400000u : 0);
    uint32_t tiny = hvd_float_bits((float)(int32_t)rest * 0x1p-24f); /* subnormal and 0: exact */
    uint32_t bits = rest >= 0x7c00u ? special : rest >= 0x400u ? normal : tiny;

    return hvd_float_of(sign | bits);
}

static inline uint16_t hvd_float16_narrow(float x)
{
    uint32_t all = hvd_float_bits(x);
    uint32_t bits = all & 0x7fffffffu;
    uint32_t rounded = (bits + 0xfffu + ((bits >> 13) & 1u) - (112u << 23)) >> 13;
    /* Adding 1/2 rounds to multiples of 2^-24 and leaves their number in the last bits. */
    uint32_t tiny = hvd_float_bits(hvd_float_of(bits) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | ((bits >> 13) & 0x3ffu);
    uint32_t half = bits < 0x38800000u   ? tiny    /* below 2^-14 */
                    : bits < 0x477ff000u ? rounded /* below 65520, half way to 2^16 */
                    : bits > 0x7f800000u ? nan
                                         : 0x7c00u;

    return (uint16_t)(((all >> 16) & 0x8000u) | half);
}

/* A bfloat16 is the upper half of a float32. */
static inline float hvd_bfloat16_widen(uint16_t half)
{
    return hvd_float_of((uint32_t)half << 16);
}

static inline uint16_t hvd_bfloat16_narrow(float x)
{
    uint32_t bits = hvd_float_bits(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40u;

    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* Narrows the result of a calculation: a NaN always becomes the same one. */
static inline uint16_t hvd_bfloat16_result(float x)
{
    uint32_t bits = hvd_float_bits(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;

    return (uint16_t)(isnan(x) ? 0x7fc0u : rounded);
}

/* The rank of a float16 or bfloat16, not NaN, in the order of all numbers: -inf .. -0, +0 ..
 * +inf. */
static inline int16_t hvd_half_rank(uint16_t half)
{
    int16_t bits = (int16_t)half;

    return (int16_t)(bits ^ ((bits >> 15) & INT16_MAX));
}

/* The lesser and the greater of two; the bits of infinity and of the type's one NaN are
 * arguments. */
static inline uint16_t hvd_half_min(uint16_t x, uint16_t y, uint16_t infinity, uint16_t nan)
{
    uint16_t picked = hvd_half_rank(x) < hvd_half_rank(y) ? x : y;

    return (((x & 0x7fff) > infinity) | ((y & 0x7fff) > infinity)) ? nan : picked;
}

static inline uint16_t hvd_half_max(uint16_t x, uint16_t y, uint16_t infinity, uint16_t nan)
{
    uint16_t picked = hvd_half_rank(x) < hvd_half_rank(y) ? y : x;

    return (((x & 0x7fff) > infinity) | ((y & 0x7fff) > infinity)) ? nan : picked;
}

#endif
