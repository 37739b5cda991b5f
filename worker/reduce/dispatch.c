/*
 * Chooses the instruction set once, at the first use, and looks up kernels. Any thread: the choice
 * is an atomic number, and all threads would store the same value.
 */
#include <stdatomic.h>

#include "worker/reduce/reduce_internal.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports of clang 14 rejects "f16c". */
static bool has_f16c(void)
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool hvd_reduce_has_variant(enum hvd_reduce_variant variant)
{
    bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();

    switch (variant) {
    case HVD_REDUCE_PORTABLE:
        return true;
    case HVD_REDUCE_AVX2:
        return avx2;
    case HVD_REDUCE_AVX512:
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case HVD_REDUCE_NEON:
        break;
    }
    return false;
}
#elif defined(__aarch64__)
bool hvd_reduce_has_variant(enum hvd_reduce_variant variant)
{
    return variant == HVD_REDUCE_PORTABLE || variant == HVD_REDUCE_NEON;
}
#else
bool hvd_reduce_has_variant(enum hvd_reduce_variant variant)
{
    return variant == HVD_REDUCE_PORTABLE;
}
#endif

static _Atomic int chosen = -1;

enum hvd_reduce_variant hvd_reduce_variant(void)
{
    int variant = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (variant < 0) {
        for (variant = HVD_REDUCE_VARIANTS - 1; variant > HVD_REDUCE_PORTABLE; variant--)
            if (hvd_reduce_has_variant((enum hvd_reduce_variant)variant))
                break;
        atomic_store_explicit(&chosen, variant, memory_order_relaxed);
    }
    return (enum hvd_reduce_variant)variant;
}

void hvd_reduce_force_variant(enum hvd_reduce_variant variant)
{
    atomic_store_explicit(&chosen, (int)variant, memory_order_relaxed);
}

static enum hvd_reduce_kernel kernel_of(enum hvd_reduce op)
{
    switch (op) {
    case HVD_MIN:
        return HVD_KERNEL_MIN;
    case HVD_MAX:
        return HVD_KERNEL_MAX;
    case HVD_PRODUCT:
        return HVD_KERNEL_PRODUCT;
    case HVD_AVERAGE:
    case HVD_SUM:
    case HVD_ADASUM:
        break;
    }
    return HVD_KERNEL_SUM;
}

const struct hvd_half_kernels *hvd_reduce_half(enum hvd_dtype dtype)
{
    if (dtype == HVD_FLOAT16)
        return &hvd_reduce_float16[hvd_reduce_variant()];
    return dtype == HVD_BFLOAT16 ? &hvd_reduce_bfloat16[hvd_reduce_variant()] : NULL;
}

hvd_combine_fn hvd_reduce_kernel(enum hvd_dtype dtype, enum hvd_reduce op)
{
    const struct hvd_half_kernels *half = hvd_reduce_half(dtype);
    enum hvd_reduce_kernel kernel = kernel_of(op);

    if (half)
        return half->combine[kernel];
    if (dtype == HVD_FLOAT32 || dtype == HVD_FLOAT64)
        return hvd_reduce_floats[hvd_reduce_variant()][dtype][kernel];
    return hvd_reduce_integers[hvd_reduce_variant()][dtype][kernel];
}
