/*
 * The vocabulary of the runtime: element types, reductions, operations, and what makes a request
 * legal. Pure: tables and arithmetic. The same check serves the API (arguments of the program) and
 * the coordinator (bytes of a peer).
 */
#include "worker/core/types.h"

#include <inttypes.h>
#include <string.h>

size_t hvd_dtype_size(int dtype)
{
    switch (dtype) {
    case HVD_UINT8:
        return 1;
    case HVD_INT32:
    case HVD_FLOAT32:
        return 4;
    case HVD_INT64:
    case HVD_FLOAT64:
        return 8;
    default:
        return 0;
    }
}

const char *hvd_dtype_name(int dtype)
{
    switch (dtype) {
    case HVD_UINT8:
        return "uint8";
    case HVD_INT32:
        return "int32";
    case HVD_INT64:
        return "int64";
    case HVD_FLOAT32:
        return "float32";
    case HVD_FLOAT64:
        return "float64";
    default:
        return "unknown";
    }
}

const char *hvd_op_name(int op)
{
    switch (op) {
    case HVD_ALLREDUCE:
        return "ALLREDUCE";
    case HVD_ALLGATHER:
        return "ALLGATHER";
    case HVD_BROADCAST:
        return "BROADCAST";
    case HVD_BARRIER:
        return "BARRIER";
    default:
        return "UNKNOWN";
    }
}

const char *hvd_reduce_name(int reduce)
{
    switch (reduce) {
    case HVD_AVERAGE:
        return "AVERAGE";
    case HVD_SUM:
        return "SUM";
    case HVD_MIN:
        return "MIN";
    case HVD_MAX:
        return "MAX";
    default:
        return "UNKNOWN";
    }
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

/* The part of the check that differs between operations. */
static hvd_status_t check_op(const struct hvd_request *req, int size, struct hvd_err *err)
{
    switch ((int)req->op) {
    case HVD_ALLREDUCE:
        if (strcmp(hvd_reduce_name((int)req->reduce), "UNKNOWN") == 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "reduction %d is not supported: use average 0, sum 1, min 3 or max 4",
                            (int)req->reduce);
        return HVD_OK;
    case HVD_ALLGATHER:
        if (req->ndim == 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "allgather needs at least one dimension, to gather along");
        return HVD_OK;
    case HVD_BROADCAST:
        if (req->root < 0 || req->root >= size)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "broadcast received invalid root rank %d: ranks are 0 to %d", req->root,
                            size - 1);
        return HVD_OK;
    case HVD_BARRIER:
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
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "data type %d is not supported: use uint8 0, int32 4, int64 5, float32 7 "
                        "or float64 8",
                        (int)req->dtype);
    if (req->ndim < 0 || req->ndim > HVD_NDIM_MAX)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%d dimensions: 0 to %d are allowed", req->ndim,
                        HVD_NDIM_MAX);
    for (int i = 0; i < req->ndim; i++)
        if (req->shape[i] < 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "dimension %d has the size %" PRId64, i,
                            req->shape[i]);
    if (!hvd_shape_count(req->shape, req->ndim, &count))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the shape has more elements than memory can");
    return check_op(req, size, err);
}
