#ifndef HVD_WORKER_REDUCE_HALF_LOOPS_H
#define HVD_WORKER_REDUCE_HALF_LOOPS_H

/*
 * The loops that float16 and bfloat16 share: plain C around functions of one value, which the
 * compiler vectorises for TARGET. Each macro defines a static function.
 */
#include "worker/reduce/reduce_internal.h"

/* A hvd_combine_fn: out[i] = EXPRESSION(a[i], b[i]) */
#define HVD_HALF_COMBINE(NAME, TARGET, EXPRESSION)                                                 \
    TARGET static void NAME(void *out, const void *a, const void *b, int64_t count)                \
    {                                                                                              \
        uint16_t *o = out;                                                                         \
        const uint16_t *x = a;                                                                     \
        const uint16_t *y = b;                                                                     \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) o[i] = EXPRESSION(x[i], y[i]);         \
    }

/* A hvd_widen_fn or hvd_narrow_fn: out[i] = FUNCTION(in[i]) */
#define HVD_HALF_CONVERT(NAME, TARGET, TO, FROM, FUNCTION)                                         \
    TARGET static void NAME(TO *out, const FROM *in, int64_t count)                                \
    {                                                                                              \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) out[i] = FUNCTION(in[i]);              \
    }

/* A hvd_half_scale_fn: out[i] = RESULT(WIDEN(in[i]) * by) */
#define HVD_HALF_SCALE(NAME, TARGET, WIDEN, RESULT)                                                \
    TARGET static void NAME(uint16_t *out, const uint16_t *in, float by, int64_t count)            \
    {                                                                                              \
        HVD_REDUCE_LOOP for (int64_t i = 0; i < count; i++) out[i] = RESULT(WIDEN(in[i]) * by);    \
    }

#endif
