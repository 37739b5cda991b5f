/*
 * The vocabulary of the runtime: element types, reductions, operations, and the check of a request.
 * Pure: tables and arithmetic. One check serves both the API, for arguments of the program, and the
 * coordinator, for bytes from a peer.
 */
#include "worker/core/types.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[HVD_DTYPES] = {
    [HVD_UINT8] = {"uint8", 1},       [HVD_INT8] = {"int8", 1},
    [HVD_UINT16] = {"uint16", 2},     [HVD_INT16] = {"int16", 2},
    [HVD_INT32] = {"int32", 4},       [HVD_INT64] = {"int64", 8},
    [HVD_FLOAT16] = {"float16", 2},   [HVD_FLOAT32] = {"float32", 4},
    [HVD_FLOAT64] = {"float64", 8},   [HVD_BOOL] = {"bool", 1},
    [HVD_BFLOAT16] = {"bfloat16", 2}, [HVD_UINT32] = {"uint32", 4},
    [HVD_UINT64] = {"uint64", 8},
};

/* Gaps are values that do not exist. */
static const char *const ops[] = {
    [HVD_ALLREDUCE] = "ALLREDUCE",         [HVD_ALLGATHER] = "ALLGATHER",
    [HVD_BROADCAST] = "BROADCAST",         [HVD_JOIN] = "JOIN",
    [HVD_ALLTOALL] = "ALLTOALL",           [HVD_BARRIER] = "BARRIER",
    [HVD_REDUCESCATTER] = "REDUCESCATTER",
};

static const char *const reductions[] = {
    [HVD_AVERAGE] = "AVERAGE", [HVD_SUM] = "SUM", [HVD_ADASUM] = "ADASUM",
    [HVD_MIN] = "MIN",         [HVD_MAX] = "MAX", [HVD_PRODUCT] = "PRODUCT",
};

size_t hvd_dtype_size(int dtype)
{
    return dtype >= 0 && dtype < HVD_DTYPES ? dtypes[dtype].size : 0;
}

const char *hvd_dtype_name(int dtype)
{
    return dtype >= 0 && dtype < HVD_DTYPES ? dtypes[dtype].name : "unknown";
}

bool hvd_dtype_is_real(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_FLOAT32 || dtype == HVD_FLOAT64 ||
           dtype == HVD_BFLOAT16;
}

const char *hvd_op_name(int op)
{
    const bool exists = op >= 0 && op < (int)(sizeof(ops) / sizeof(ops[0])) && ops[op];

    return exists ? ops[op] : "UNKNOWN";
}

const char *hvd_reduce_name(int reduce)
{
    const bool exists = reduce >= 0 && reduce < (int)(sizeof(reductions) / sizeof(reductions[0]));

    return exists ? reductions[reduce] : "UNKNOWN";
}

bool hvd_op_keeps_shape(enum hvd_op op)
{
    return op == HVD_ALLREDUCE || op == HVD_BROADCAST;
}

bool hvd_op_is_uneven(enum hvd_op op)
{
    return op == HVD_ALLGATHER || op == HVD_ALLTOALL;
}

bool hvd_factor_equal(double a, double b)
{
    uint64_t bits_of_a, bits_of_b;

    memcpy(&bits_of_a, &a, sizeof(a));
    memcpy(&bits_of_b, &b, sizeof(b));
    return bits_of_a == bits_of_b;
}

bool hvd_request_equal(const struct hvd_request *a, const struct hvd_request *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->reduce == b->reduce &&
           a->device == b->device && a->root == b->root && a->ndim == b->ndim &&
           hvd_factor_equal(a->prescale, b->prescale) &&
           hvd_factor_equal(a->postscale, b->postscale) &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

int64_t hvd_request_row_elements(const struct hvd_request *req)
{
    int64_t n = 1;

    /* The product may not fit where the first dimension is 0, which makes the whole shape legal. */
    return hvd_shape_count(req->shape + 1, req->ndim - 1, &n) ? n : 0;
}

int64_t hvd_rows_of(int64_t rows, int rank, int size)
{
    return rows / size + (rank < rows % size);
}

bool hvd_shape_count(const int64_t *shape, int ndim, int64_t *count)
{
    int64_t n = 1;
    int64_t bytes;
    bool empty = false;

    /* A zero anywhere makes the product zero, however large the other sizes are. */
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return false;
        empty = empty || shape[i] == 0;
    }
    for (int i = 0; i < ndim && !empty; i++)
        if (__builtin_mul_overflow(n, shape[i], &n))
            return false;
    if (__builtin_mul_overflow(n, (int64_t)8, &bytes))
        return false;
    *count = empty ? 0 : n;
    return true;
}

static hvd_status_t check_reduction(const struct hvd_request *req, struct hvd_err *err)
{
    const bool is_scatter = req->op == HVD_REDUCESCATTER;

    if (is_scatter && req->reduce != HVD_SUM && req->reduce != HVD_AVERAGE)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "Reducescatter currently only supports AVERAGE and SUM.");
    if (strcmp(hvd_reduce_name((int)req->reduce), "UNKNOWN") == 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "reduction %d does not exist: use average 0, sum 1, Adasum 2, min 3, max 4 "
                        "or product 5",
                        (int)req->reduce);
    if (req->reduce == HVD_ADASUM && !hvd_dtype_is_real(req->dtype))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "Adasum is for float16, float32, float64 and bfloat16, not for %s",
                        hvd_dtype_name((int)req->dtype));
    return HVD_OK;
}

/* Checks what differs between operations. */
static hvd_status_t check_op(const struct hvd_request *req, int size, struct hvd_err *err)
{
    switch ((int)req->op) {
    case HVD_ALLREDUCE:
    case HVD_REDUCESCATTER:
        return check_reduction(req, err);
    case HVD_BROADCAST:
        if (req->root < 0 || req->root >= size)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "broadcast received invalid root rank %d for provided process set: "
                            "ranks are 0 to %d",
                            req->root, size - 1);
        return HVD_OK;
    case HVD_ALLGATHER:
    case HVD_ALLTOALL:
    case HVD_BARRIER:
    case HVD_JOIN:
        return HVD_OK;
    default:
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "operation %d does not exist", (int)req->op);
    }
}

hvd_status_t hvd_request_check(const struct hvd_request *req, int size, struct hvd_err *err)
{
    int64_t count = 0;

    if (req->name.len == 0 || req->name.len > HVD_NAME_MAX ||
        memchr(req->name.data, '\0', req->name.len))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the name has %zu bytes: 1 to %d are allowed",
                        req->name.len, HVD_NAME_MAX);
    if (hvd_dtype_size((int)req->dtype) == 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "data type %d does not exist: types are 0 to %d",
                        (int)req->dtype, HVD_DTYPES - 1);
    if (req->ndim < 0 || req->ndim > HVD_NDIM_MAX)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%d dimensions: 0 to %d are allowed", req->ndim,
                        HVD_NDIM_MAX);
    for (int i = 0; i < req->ndim; i++)
        if (req->shape[i] < 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "dimension %d has the size %" PRId64, i,
                            req->shape[i]);
    if (!hvd_shape_count(req->shape, req->ndim, &count))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the shape has more elements than memory can");
    if ((req->group == 0) != (req->group_size == 0))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "group %u of %u tensors", req->group,
                        req->group_size);
    return check_op(req, size, err);
}
