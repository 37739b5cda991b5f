#ifndef HVD_WORKER_REDUCE_REDUCE_INTERNAL_H
#define HVD_WORKER_REDUCE_REDUCE_INTERNAL_H

/*
 * Declarations that the files of this folder share, and the seam for its tests. Every kernel exists
 * once for each variant: mostly the same source, compiled for another instruction set. Nothing here
 * allocates or fails; any thread may call it.
 */
#include <math.h>
#include <string.h>

#include "worker/reduce/reduce.h"

/* Instruction sets. The portable variant is plain C, compiled for the oldest processor of the
 * architecture. It is the reference for the others. */
enum hvd_reduce_variant {
    HVD_REDUCE_PORTABLE,
    HVD_REDUCE_AVX2,
    HVD_REDUCE_AVX512,
    HVD_REDUCE_NEON,
};

#define HVD_REDUCE_VARIANTS 4

/* Columns of the kernel tables. */
enum hvd_reduce_kernel {
    HVD_KERNEL_SUM,
    HVD_KERNEL_MIN,
    HVD_KERNEL_MAX,
    HVD_KERNEL_PRODUCT,
};

#define HVD_REDUCE_KERNELS 4

/* HVD_REDUCE_EACH_VARIANT(X) expands X(name, attribute) for every variant of this architecture that
 * is made from the same source; HVD_REDUCE_TABLE(X) expands X(index, name) likewise. */
#if defined(__x86_64__)
#define HVD_TARGET_AVX2 __attribute__((target("avx2,f16c")))
#define HVD_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")))
#define HVD_REDUCE_EACH_VARIANT(X)                                                                 \
    X(portable, ) X(avx2, HVD_TARGET_AVX2) X(avx512, HVD_TARGET_AVX512)
#define HVD_REDUCE_TABLE(X)                                                                        \
    X(HVD_REDUCE_PORTABLE, portable) X(HVD_REDUCE_AVX2, avx2) X(HVD_REDUCE_AVX512, avx512)
#else
#define HVD_REDUCE_EACH_VARIANT(X) X(portable, )
#define HVD_REDUCE_TABLE(X) X(HVD_REDUCE_PORTABLE, portable) X(HVD_REDUCE_NEON, portable)
#endif

/* Asserts that no iteration of the following loop depends on another: an output is the same memory
 * as an input, or does not overlap it. */
#define HVD_REDUCE_LOOP _Pragma("omp simd")

/* out[i] = a[i] op b[i] */
typedef void (*hvd_combine_fn)(void *out, const void *a, const void *b, int64_t count);

/* float16 or bfloat16 to float32 and back, rounded to the nearest, ties to even. A NaN stays a NaN
 * with its sign and the upper bits of its payload. */
typedef void (*hvd_widen_fn)(float *out, const uint16_t *in, int64_t count);
typedef void (*hvd_narrow_fn)(uint16_t *out, const float *in, int64_t count);

/* out[i] = in[i] * by */
typedef void (*hvd_half_scale_fn)(uint16_t *out, const uint16_t *in, float by, int64_t count);

struct hvd_half_kernels {
    hvd_widen_fn widen;
    hvd_narrow_fn narrow;
    hvd_half_scale_fn times;
    hvd_combine_fn combine[HVD_REDUCE_KERNELS];
};

/* Rows of types that a file does not compute are NULL. */
typedef const hvd_combine_fn hvd_combine_table[HVD_REDUCE_VARIANTS][HVD_DTYPES][HVD_REDUCE_KERNELS];
extern hvd_combine_table hvd_reduce_integers;
extern hvd_combine_table hvd_reduce_floats;
extern const struct hvd_half_kernels hvd_reduce_float16[HVD_REDUCE_VARIANTS];
extern const struct hvd_half_kernels hvd_reduce_bfloat16[HVD_REDUCE_VARIANTS];

/* The variant in use: the best one that the processor runs, or the forced one. */
enum hvd_reduce_variant hvd_reduce_variant(void);

/* Whether this processor, and the build, can run the variant. */
bool hvd_reduce_has_variant(enum hvd_reduce_variant variant);

/* For tests: use this variant, which the processor must have, from now on in all threads. */
void hvd_reduce_force_variant(enum hvd_reduce_variant variant);

/* The kernel in use for a type and reduction. */
hvd_combine_fn hvd_reduce_kernel(enum hvd_dtype dtype, enum hvd_reduce op);

/* The kernels in use for float16 or bfloat16; NULL for other types. */
const struct hvd_half_kernels *hvd_reduce_half(enum hvd_dtype dtype);

/* Whether a sum of the type can be finished by the factor that the kernels of sums take; sets
 * *factor if so. */
bool hvd_reduce_finishes_by_factor(enum hvd_dtype dtype, const struct hvd_scaling *scaling,
                                   double *factor);

/* The one NaN that results may be. */
static inline float hvd_canonical32(float x)
{
    return isnan(x) ? NAN : x;
}

/* The same for double. */
static inline double hvd_canonical64(double x)
{
    return isnan(x) ? (double)NAN : x;
}

#endif
