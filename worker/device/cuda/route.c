/* What NCCL computes; see route.h. Pure. */
#include "worker/device/cuda/route.h"

static bool is_reduced(enum hvd_op op)
{
    return op == HVD_ALLREDUCE || op == HVD_REDUCESCATTER;
}

bool hvd_route_moves(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce)
{
    if (!is_reduced(op))
        return true;
    switch ((int)dtype) {
    case HVD_UINT16:
    case HVD_INT16:
    case HVD_BOOL:
        return false;
    default:
        break;
    }
    if (reduce == HVD_MIN || reduce == HVD_MAX)
        return !hvd_dtype_is_real(dtype);
    return reduce == HVD_SUM || reduce == HVD_AVERAGE || reduce == HVD_PRODUCT;
}

hvd_nccl_type_t hvd_route_type(enum hvd_op op, enum hvd_dtype dtype, size_t *scale)
{
    static const hvd_nccl_type_t types[HVD_DTYPES] = {
        [HVD_UINT8] = HVD_NCCL_UINT8,       [HVD_INT8] = HVD_NCCL_INT8,
        [HVD_UINT16] = HVD_NCCL_UINT8,      [HVD_INT16] = HVD_NCCL_UINT8,
        [HVD_INT32] = HVD_NCCL_INT32,       [HVD_INT64] = HVD_NCCL_INT64,
        [HVD_FLOAT16] = HVD_NCCL_FLOAT16,   [HVD_FLOAT32] = HVD_NCCL_FLOAT32,
        [HVD_FLOAT64] = HVD_NCCL_FLOAT64,   [HVD_BOOL] = HVD_NCCL_UINT8,
        [HVD_BFLOAT16] = HVD_NCCL_BFLOAT16, [HVD_UINT32] = HVD_NCCL_UINT32,
        [HVD_UINT64] = HVD_NCCL_UINT64};

    (void)op;
    *scale = dtype == HVD_UINT16 || dtype == HVD_INT16 ? 2 : 1;
    return types[dtype];
}

hvd_nccl_op_t hvd_route_reduce(const struct hvd_collective *c, bool *is_scaled)
{
    const struct hvd_scaling *s = &c->scaling;
    const bool has_factors =
        !hvd_factor_equal(s->prescale, 1) || !hvd_factor_equal(s->postscale, 1);

    *is_scaled = is_reduced(c->op) && (has_factors || s->divisor != 1);
    switch ((int)c->reduce) {
    case HVD_MIN:
        return HVD_NCCL_MIN;
    case HVD_MAX:
        return HVD_NCCL_MAX;
    case HVD_PRODUCT:
        return HVD_NCCL_PROD;
    default:
        break;
    }
    if (!*is_scaled || has_factors)
        return HVD_NCCL_SUM;
    *is_scaled = false; /* the divisor is the number of ranks */
    return HVD_NCCL_AVG;
}
