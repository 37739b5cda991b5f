/*
 * MPI calls an operation with nothing but two buffers, a count and its own type, so each of our
 * operations has a function. They run inside MPI's progress, in the engine's progress owner. MPI's
 * own operations are not used: their results for an overflow or a NaN are undefined, and differ
 * between MPI's builds (Open MPI's vectorised sums of 8 and 16 bits saturate).
 */
#include "worker/transport/mpi/types.h"

#include "worker/reduce/reduce.h"

#define COMBINE(name, dtype, reduce)                                                               \
    static void name(void *in, void *inout, int *len, MPI_Datatype *type)                          \
    {                                                                                              \
        (void)type;                                                                                \
        hvd_reduce_combine(dtype, reduce, inout, in, *len);                                        \
    }

#define COMBINE_ALL(name, dtype)                                                                   \
    COMBINE(name##_sum, dtype, HVD_SUM)                                                            \
    COMBINE(name##_min, dtype, HVD_MIN)                                                            \
    COMBINE(name##_max, dtype, HVD_MAX)                                                            \
    COMBINE(name##_product, dtype, HVD_PRODUCT)

COMBINE_ALL(uint8, HVD_UINT8)
COMBINE_ALL(int8, HVD_INT8)
COMBINE_ALL(uint16, HVD_UINT16)
COMBINE_ALL(int16, HVD_INT16)
COMBINE_ALL(int32, HVD_INT32)
COMBINE_ALL(int64, HVD_INT64)
COMBINE_ALL(float16, HVD_FLOAT16)
COMBINE_ALL(float32, HVD_FLOAT32)
COMBINE_ALL(float64, HVD_FLOAT64)
COMBINE_ALL(boolean, HVD_BOOL)
COMBINE_ALL(bfloat16, HVD_BFLOAT16)
COMBINE_ALL(uint32, HVD_UINT32)
COMBINE_ALL(uint64, HVD_UINT64)

#define FUNCTIONS(name)                                                                            \
    {                                                                                              \
        [HVD_SUM] = name##_sum, [HVD_MIN] = name##_min, [HVD_MAX] = name##_max,                    \
        [HVD_PRODUCT] = name##_product                                                             \
    }

static MPI_User_function *const functions[HVD_DTYPES][HVD_PRODUCT + 1] = {
    [HVD_UINT8] = FUNCTIONS(uint8),       [HVD_INT8] = FUNCTIONS(int8),
    [HVD_UINT16] = FUNCTIONS(uint16),     [HVD_INT16] = FUNCTIONS(int16),
    [HVD_INT32] = FUNCTIONS(int32),       [HVD_INT64] = FUNCTIONS(int64),
    [HVD_FLOAT16] = FUNCTIONS(float16),   [HVD_FLOAT32] = FUNCTIONS(float32),
    [HVD_FLOAT64] = FUNCTIONS(float64),   [HVD_BOOL] = FUNCTIONS(boolean),
    [HVD_BFLOAT16] = FUNCTIONS(bfloat16), [HVD_UINT32] = FUNCTIONS(uint32),
    [HVD_UINT64] = FUNCTIONS(uint64),
};

int hvd_mpi_ops_init(struct hvd_mpi_ops *ops)
{
    int rc = MPI_SUCCESS;

    for (int d = 0; d < HVD_DTYPES; d++)
        for (int r = 0; r <= HVD_PRODUCT; r++)
            ops->ops[d][r] = MPI_OP_NULL;
    for (int d = 0; d < HVD_DTYPES; d++)
        for (int r = 0; r <= HVD_PRODUCT && rc == MPI_SUCCESS; r++)
            if (functions[d][r])
                rc = MPI_Op_create(functions[d][r], 1, &ops->ops[d][r]);
    if (rc != MPI_SUCCESS)
        hvd_mpi_ops_fini(ops);
    return rc;
}

void hvd_mpi_ops_fini(struct hvd_mpi_ops *ops)
{
    for (int d = 0; d < HVD_DTYPES; d++)
        for (int r = 0; r <= HVD_PRODUCT; r++)
            if (ops->ops[d][r] != MPI_OP_NULL)
                MPI_Op_free(&ops->ops[d][r]);
}

MPI_Datatype hvd_mpi_type(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_UINT8:
    case HVD_BOOL:
        return MPI_UINT8_T;
    case HVD_INT8:
        return MPI_INT8_T;
    case HVD_UINT16:
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
        return MPI_UINT16_T;
    case HVD_INT16:
        return MPI_INT16_T;
    case HVD_INT32:
        return MPI_INT32_T;
    case HVD_UINT32:
        return MPI_UINT32_T;
    case HVD_INT64:
        return MPI_INT64_T;
    case HVD_UINT64:
        return MPI_UINT64_T;
    case HVD_FLOAT32:
        return MPI_FLOAT;
    case HVD_FLOAT64:
        return MPI_DOUBLE;
    }
    return MPI_DATATYPE_NULL;
}

MPI_Op hvd_mpi_op(const struct hvd_mpi_ops *ops, enum hvd_dtype dtype, enum hvd_reduce reduce)
{
    return ops->ops[dtype][reduce];
}
