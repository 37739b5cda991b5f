/*
 * Element-wise kernels, one loop per type and operation, written so that the compiler vectorises
 * them. Any thread; no state. Integer sums are computed unsigned, so wrapping is defined.
 */
#include "worker/reduce/reduce.h"

#define ADD(a, b) ((a) + (b))
#define LESS(a, b) ((b) < (a) ? (b) : (a))
#define MORE(a, b) ((b) > (a) ? (b) : (a))

/* A kernel: TYPE is what is stored, CALC what it is computed as. */
#define KERNEL(NAME, TYPE, CALC, COMBINE)                                                          \
    static void NAME(void *into, const void *from, int64_t count)                                  \
    {                                                                                              \
        TYPE *restrict a = into;                                                                   \
        const TYPE *restrict b = from;                                                             \
        for (int64_t i = 0; i < count; i++)                                                        \
            a[i] = (TYPE)COMBINE((CALC)a[i], (CALC)b[i]);                                          \
    }

#define KERNELS(NAME, TYPE, CALC)                                                                  \
    KERNEL(add_##NAME, TYPE, CALC, ADD)                                                            \
    KERNEL(min_##NAME, TYPE, TYPE, LESS)                                                           \
    KERNEL(max_##NAME, TYPE, TYPE, MORE)                                                           \
    static void divide_##NAME(void *data, int64_t count, int n_ranks)                              \
    {                                                                                              \
        TYPE *a = data;                                                                            \
        for (int64_t i = 0; i < count; i++)                                                        \
            a[i] = (TYPE)(a[i] / (TYPE)n_ranks);                                                   \
    }

/* A byte cannot hold every number of ranks, so it is divided as an int. */
KERNEL(add_uint8, uint8_t, unsigned, ADD)
KERNEL(min_uint8, uint8_t, uint8_t, LESS)
KERNEL(max_uint8, uint8_t, uint8_t, MORE)
static void divide_uint8(void *data, int64_t count, int n_ranks)
{
    uint8_t *a = data;

    for (int64_t i = 0; i < count; i++)
        a[i] = (uint8_t)(a[i] / n_ranks);
}
KERNELS(int32, int32_t, uint32_t)
KERNELS(int64, int64_t, uint64_t)
KERNELS(float32, float, float)
KERNELS(float64, double, double)

typedef void (*combine_fn)(void *into, const void *from, int64_t count);
typedef void (*divide_fn)(void *data, int64_t count, int n_ranks);

struct row {
    combine_fn add;
    combine_fn min;
    combine_fn max;
    divide_fn divide;
};

#define ROW(NAME)                                                                                  \
    {                                                                                              \
        add_##NAME, min_##NAME, max_##NAME, divide_##NAME                                          \
    }

static const struct row rows[] = {
    [HVD_UINT8] = ROW(uint8),     [HVD_INT32] = ROW(int32),     [HVD_INT64] = ROW(int64),
    [HVD_FLOAT32] = ROW(float32), [HVD_FLOAT64] = ROW(float64),
};

void hvd_reduce_combine(enum hvd_dtype dtype, enum hvd_reduce op, void *into, const void *from,
                        int64_t count)
{
    const struct row *row = &rows[dtype];

    switch ((int)op) {
    default:
        row->add(into, from, count);
        break;
    case HVD_MIN:
        row->min(into, from, count);
        break;
    case HVD_MAX:
        row->max(into, from, count);
        break;
    }
}

void hvd_reduce_divide(enum hvd_dtype dtype, void *data, int64_t count, int n_ranks)
{
    rows[dtype].divide(data, count, n_ranks);
}
