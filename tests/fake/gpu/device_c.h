#ifndef HVD_TESTS_FAKE_GPU_DEVICE_C_H
#define HVD_TESTS_FAKE_GPU_DEVICE_C_H

/*
 * What worker/device/cuda/kernels.cu takes from CUDA, for compiling it as C. The code that calls a
 * kernel sets blockIdx and threadIdx, as tests/fake/gpu/kernel.h describes.
 */
#include <stdint.h>
#include <stdlib.h>

#include "tests/fake/gpu/kernel.h"
#include "worker/device/cuda/kernels.h"
#include "worker/reduce/half_bits.h"

#define GLOBAL(NAME) static void NAME(const struct hvd_cuda_args args)
#define INLINE static inline
#define UNROLL
#define NO_UNROLL
#define LOAD(TYPE, ADDRESS) load_##TYPE(ADDRESS)
#define STORE(TYPE, ADDRESS, VALUE) store_##TYPE((ADDRESS), (VALUE))

/* The device address as a pointer, which nobody can access. */
static inline void *device_pointer(uint64_t address)
{
    void *p;

    _Static_assert(sizeof(p) == sizeof(address), "addresses of 64 bits");
    memcpy(&p, &address, sizeof(p));
    return p;
}

/* Where the host accesses a device address. As on the device, an address that is not a multiple of
 * the access is an error. */
static inline void *device_at(uint64_t address, size_t bytes)
{
    if (address % bytes != 0)
        abort();
    return FAKE_GPU_AT(device_pointer(address));
}

/* A word of 16 bytes. */
struct word {
    _Alignas(16) uint64_t half[2];
};

/* Accesses of one type. Memory has values of other types as well, so the bytes are copied. */
#define ACCESS(TYPE, NAME)                                                                         \
    static inline TYPE load_##NAME(uint64_t address)                                               \
    {                                                                                              \
        TYPE x;                                                                                    \
        memcpy(&x, device_at(address, sizeof(x)), sizeof(x));                                      \
        return x;                                                                                  \
    }                                                                                              \
    static inline void store_##NAME(uint64_t address, TYPE x)                                      \
    {                                                                                              \
        memcpy(device_at(address, sizeof(x)), &x, sizeof(x));                                      \
    }

ACCESS(uint8_t, uint8_t)
ACCESS(uint16_t, uint16_t)
ACCESS(uint32_t, uint32_t)
ACCESS(uint64_t, uint64_t)
ACCESS(struct word, word)

static inline float float_of(uint32_t bits)
{
    return hvd_float_of(bits);
}

static inline uint32_t float_bits(float x)
{
    return hvd_float_bits(x);
}

static inline double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint64_t double_bits(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float float16_widen(uint16_t half)
{
    return hvd_float16_widen(half);
}

static inline uint16_t float16_narrow(float x)
{
    return hvd_float16_narrow(x);
}

/* Rounded products. No sum follows one in the same expression, so nothing fuses them. */
static inline float __fmul_rn(float x, float y)
{
    return x * y;
}

static inline double __dmul_rn(double x, double y)
{
    return x * y;
}

#endif
