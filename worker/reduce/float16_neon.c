/*
 * float16 with the conversion instructions that every AArch64 processor has, eight at a time. Any
 * thread; no state. The portable kernels compute the rest of a buffer that fills no vector; they
 * give the same bits. The other types need no file: the compiler vectorises the portable kernels
 * for NEON.
 */
#include "worker/reduce/float16.h"

#if defined(__aarch64__)
#include <arm_neon.h>

static float32x4_t load4(const uint16_t *in)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(in)));
}

static void store4(uint16_t *out, float32x4_t x)
{
    vst1_u16(out, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

static float32x4_t canonical4(float32x4_t x)
{
    return vbslq_f32(vceqq_f32(x, x), x, vdupq_n_f32(NAN));
}

#define COMBINE(NAME, KERNEL, OPERATION)                                                           \
    void NAME(void *out, const void *a, const void *b, int64_t count)                              \
    {                                                                                              \
        uint16_t *o = out;                                                                         \
        const uint16_t *x = a;                                                                     \
        const uint16_t *y = b;                                                                     \
        int64_t i = 0;                                                                             \
        for (; i + 8 <= count; i += 8) {                                                           \
            float32x4_t low = OPERATION(load4(x + i), load4(y + i));                               \
            float32x4_t high = OPERATION(load4(x + i + 4), load4(y + i + 4));                      \
            store4(o + i, canonical4(low));                                                        \
            store4(o + i + 4, canonical4(high));                                                   \
        }                                                                                          \
        hvd_reduce_float16[HVD_REDUCE_PORTABLE].combine[KERNEL](o + i, x + i, y + i, count - i);   \
    }

COMBINE(hvd_float16_sum_neon, HVD_KERNEL_SUM, vaddq_f32)
COMBINE(hvd_float16_product_neon, HVD_KERNEL_PRODUCT, vmulq_f32)

void hvd_float16_times_neon(uint16_t *out, const uint16_t *in, float by, int64_t count)
{
    int64_t i = 0;

    for (; i + 4 <= count; i += 4)
        store4(out + i, canonical4(vmulq_f32(load4(in + i), vdupq_n_f32(by))));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].times(out + i, in + i, by, count - i);
}

void hvd_float16_widen_neon(float *out, const uint16_t *in, int64_t count)
{
    int64_t i = 0;

    for (; i + 4 <= count; i += 4)
        vst1q_f32(out + i, load4(in + i));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].widen(out + i, in + i, count - i);
}

void hvd_float16_narrow_neon(uint16_t *out, const float *in, int64_t count)
{
    int64_t i = 0;

    for (; i + 4 <= count; i += 4)
        store4(out + i, vld1q_f32(in + i));
    hvd_reduce_float16[HVD_REDUCE_PORTABLE].narrow(out + i, in + i, count - i);
}
#endif
