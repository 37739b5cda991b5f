/* Reads the description of an allreduce in a compiled program. Pure. */
#include "worker/python/tensorflow/core/compiled.h"

#include <string.h>

#include "worker/python/tensorflow/core/elements.h"

_Static_assert(sizeof(double) == sizeof(int64_t), "factors are passed as bits");

/* Reads the next word as a number within [min, max]. */
static bool read_number(struct hvd_strview *text, int64_t min, int64_t max, int64_t *out)
{
    const int64_t range[2] = {min, max};

    if (!text->data)
        return false;
    return hvd_str_parse_int64(hvd_strview_cut(text, ' '), range, out, NULL) == HVD_OK;
}

static bool read_factor(struct hvd_strview *text, double *out)
{
    int64_t bits = 0;

    if (!read_number(text, INT64_MIN, INT64_MAX, &bits))
        return false;
    memcpy(out, &bits, sizeof(*out));
    return true;
}

bool hvd_tf_compiled_parse(struct hvd_strview text, struct hvd_tf_compiled *out)
{
    struct hvd_tf_compiled call = {.tensor.size = sizeof(horovod_tensor_t), .rest = text};
    int64_t is_group = 0;
    int64_t op = 0;
    int64_t set = 0;
    int64_t n = 0;

    if (!read_number(&call.rest, 0, 1, &is_group) || !read_number(&call.rest, 0, INT32_MAX, &op) ||
        !read_number(&call.rest, 0, INT32_MAX, &set) ||
        !read_factor(&call.rest, &call.tensor.prescale_factor) ||
        !read_factor(&call.rest, &call.tensor.postscale_factor) ||
        !read_number(&call.rest, 1, INT32_MAX / 4, &n))
        return false;
    call.is_group = is_group == 1;
    call.tensor.op = (horovod_reduce_op_t)op;
    call.tensor.process_set = (int)set;
    call.n = (int)n;
    *out = call;
    return true;
}

bool hvd_tf_compiled_next(struct hvd_tf_compiled *call, horovod_tensor_t *tensor, int64_t *shape)
{
    int64_t type = 0;
    int64_t ndim = 0;

    *tensor = call->tensor;
    if (!read_number(&call->rest, 0, INT32_MAX, &type) ||
        !hvd_tf_element_of((int)type, &tensor->dtype) ||
        !read_number(&call->rest, 0, HVD_TF_COMPILED_NDIM_MAX, &ndim))
        return false;
    for (int64_t axis = 0; axis < ndim; axis++)
        if (!read_number(&call->rest, 0, INT64_MAX, &shape[axis]))
            return false;
    tensor->ndim = (int)ndim;
    tensor->shape = shape;
    return true;
}

size_t hvd_tf_compiled_count(const horovod_tensor_t *tensor)
{
    size_t count = 1;

    for (int axis = 0; axis < tensor->ndim; axis++)
        count *= (size_t)tensor->shape[axis];
    return count;
}
