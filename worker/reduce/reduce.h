#ifndef HVD_WORKER_REDUCE_REDUCE_H
#define HVD_WORKER_REDUCE_REDUCE_H

#include "worker/core/types.h"

/*
 * Element-wise arithmetic on the caller's memory: all types, all reductions. Any thread; nothing
 * fails, nothing is allocated. The fastest code that the processor can run is chosen at the first
 * call; every choice gives the same bits.
 *
 * op is HVD_SUM, HVD_MIN, HVD_MAX or HVD_PRODUCT. HVD_AVERAGE adds: the division comes last.
 * - Integers wrap around.
 * - float16 and bfloat16 are computed as float32 and rounded to the nearest, ties to even.
 * - A floating point result that is not a number is always the same positive quiet one, minimum and
 *   maximum of anything and a NaN are NaN, and -0 is less than +0: no result depends on the order
 * of the two operands.
 * - bool: SUM and MAX are "or", PRODUCT and MIN are "and". Any byte but 0 is true; results are
 * 0, 1.
 *
 * Buffers are aligned for their type, no more. count may be 0. An output may be the very same
 * memory as an input (out == a), but may not overlap it in part.
 */

/* Whether scaling changes nothing: before the reduction (prescale), and after it (postscale,
 * divisor). */
bool hvd_scale_is_identity(const struct hvd_scaling *scaling);

/* into[i] = into[i] op from[i] for count elements. */
void hvd_reduce_combine(enum hvd_dtype dtype, enum hvd_reduce op, void *into, const void *from,
                        int64_t count);

/* out[i] = a[i] op b[i] for count elements. */
void hvd_reduce_combine_into(enum hvd_dtype dtype, enum hvd_reduce op, void *out, const void *a,
                             const void *b, int64_t count);

/* As above, with stores that bypass the caches, for outputs that are larger than the caches (about
 * 8 MiB) and not read again soon. Release and acquire make them visible to other threads, as
 * usual. */
void hvd_reduce_combine_into_stream(enum hvd_dtype dtype, enum hvd_reduce op, void *out,
                                    const void *a, const void *b, int64_t count);

/* out[0][i] = out[1][i] = a[i] op b[i] for count elements; the two outputs do not overlap. */
void hvd_reduce_combine_into2(enum hvd_dtype dtype, enum hvd_reduce op, void *const out[2],
                              const void *a, const void *b, int64_t count);

/* As above; out[0] is written past the caches, out[1] stays in them. */
void hvd_reduce_combine_into2_stream(enum hvd_dtype dtype, enum hvd_reduce op, void *const out[2],
                                     const void *a, const void *b, int64_t count);

/*
 * A reduction in one pass over the memory, with scaling, one or two outputs, and stores through or
 * past the caches: out = finish(prescale(a) op prescale(b)). Each part is optional.
 */
struct hvd_reduce_pass {
    enum hvd_dtype dtype;
    enum hvd_reduce op;
    const void *a;
    const void *b; /* NULL: no operand to combine, the result depends on a alone */
    void *out;
    void *second; /* receives the same result as out; NULL: none */
    int64_t count;
    const struct hvd_scaling *scaling; /* NULL: no scaling */
    bool prescale_a;
    bool prescale_b;
    bool finish; /* postscale and divisor */
    bool stream; /* out is written past the caches */
    /* The pass also copies count elements of `next` to next_to, unchanged, so that the wait for
     * memory and the wait for another processor's cache overlap. They overlap no other buffer.
     * NULL: no copy. */
    const void *next;
    void *next_to;
    bool next_streams; /* next_to is written past the caches */
    bool is_open;      /* the caller ends a series of passes with hvd_reduce_stream_end */
};

/* Runs the pass. Borrows all buffers until it returns. */
void hvd_reduce_run(const struct hvd_reduce_pass *pass);

/* memcpy with stores that bypass the caches, as above. */
void hvd_reduce_copy_stream(void *out, const void *in, size_t size_bytes);

/* As above, but later stores are not ordered behind it until hvd_reduce_stream_end. Fastest when
 * out is a multiple of 64. */
void hvd_reduce_stream(void *out, const void *in, size_t size_bytes);

/* Orders all stores past the caches before all later stores. */
void hvd_reduce_stream_end(void);

/*
 * out[i] = in[i] * prescale for count elements; out may be in. A factor of 1 copies.
 *
 * Results have Horovod's bits. For float16, bfloat16 and float32 the factor is first rounded to
 * float32, and so is the product. Halves are multiplied as float32 and rounded again. Integers are
 * multiplied as double and truncated towards zero. A product out of range becomes the smallest or
 * largest value of the type, and NaN becomes 0. bool is not scaled.
 */
void hvd_reduce_prescale(enum hvd_dtype dtype, const struct hvd_scaling *scaling, void *out,
                         const void *in, int64_t count);

/*
 * data[i] = data[i] * (postscale / divisor) for count elements. The factor is divided as double and
 * multiplies as above. Exception: integers without a postscale are divided exactly and rounded
 * towards zero. divisor >= 1.
 */
void hvd_reduce_finish(enum hvd_dtype dtype, const struct hvd_scaling *scaling, void *data,
                       int64_t count);

#endif
