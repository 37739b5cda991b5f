/*
 * MPI calls an operation with nothing but two buffers, a count and its own type, so there is a
 * function for each of ours. They run inside MPI's progress, in the engine's driver.
 */
#include "worker/transport/mpi_types.h"

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

COMBINE_ALL(float16, HVD_FLOAT16)
COMBINE_ALL(bfloat16, HVD_BFLOAT16)
COMBINE_ALL(float32, HVD_FLOAT32)
COMBINE_ALL(float64, HVD_FLOAT64)
COMBINE_ALL(boolean, HVD_BOOL)

static const struct {
    enum hvd_dtype dtype;
    enum hvd_reduce reduce;
    MPI_User_function *function;
} functions[] = {
    {HVD_FLOAT16, HVD_SUM, float16_sum},   {HVD_FLOAT16, HVD_MIN, float16_min},
    {HVD_FLOAT16, HVD_MAX, float16_max},   {HVD_FLOAT16, HVD_PRODUCT, float16_product},
    {HVD_BFLOAT16, HVD_SUM, bfloat16_sum}, {HVD_BFLOAT16, HVD_MIN, bfloat16_min},
    {HVD_BFLOAT16, HVD_MAX, bfloat16_max}, {HVD_BFLOAT16, HVD_PRODUCT, bfloat16_product},
    {HVD_FLOAT32, HVD_SUM, float32_sum},   {HVD_FLOAT32, HVD_MIN, float32_min},
    {HVD_FLOAT32, HVD_MAX, float32_max},   {HVD_FLOAT32, HVD_PRODUCT, float32_product},
    {HVD_FLOAT64, HVD_SUM, float64_sum},   {HVD_FLOAT64, HVD_MIN, float64_min},
    {HVD_FLOAT64, HVD_MAX, float64_max},   {HVD_FLOAT64, HVD_PRODUCT, float64_product},
    {HVD_BOOL, HVD_SUM, boolean_sum},      {HVD_BOOL, HVD_MIN, boolean_min},
    {HVD_BOOL, HVD_MAX, boolean_max},      {HVD_BOOL, HVD_PRODUCT, boolean_product},
};

int hvd_mpi_ops_init(struct hvd_mpi_ops *ops)
{
    int rc = MPI_SUCCESS;

    for (int d = 0; d < HVD_DTYPES; d++)
        for (int r = 0; r <= HVD_PRODUCT; r++)
            ops->ops[d][r] = MPI_OP_NULL;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && rc == MPI_SUCCESS; i++)
        rc = MPI_Op_create(functions[i].function, 1,
                           &ops->ops[functions[i].dtype][functions[i].reduce]);
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
    if (ops->ops[dtype][reduce] != MPI_OP_NULL)
        return ops->ops[dtype][reduce];
    switch ((int)reduce) {
    case HVD_MIN:
        return MPI_MIN;
    case HVD_MAX:
        return MPI_MAX;
    case HVD_PRODUCT:
        return MPI_PROD;
    default:
        return MPI_SUM;
    }
}
