/*
 * The exported collectives: check the program's arguments, hand them to the engine, convert what
 * comes back. Any thread.
 */
#include <string.h>

#include "worker/api/api_internal.h"

#define BARRIER_NAME "barrier.noname"

/* A call on its way to the engine. */
struct call {
    enum hvd_op op;
    const void *input;
    void *output;
    const horovod_tensor_t *tensor; /* NULL for a barrier */
};

/* Fields this library does not know must be zero: they would ask for something it cannot do. */
static hvd_status_t check_size(const horovod_tensor_t *tensor, struct hvd_err *err)
{
    const char *bytes = (const char *)tensor;

    if (tensor->size < sizeof(*tensor) || tensor->size > 4096)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "horovod_tensor_t.size is %zu: set it to sizeof(horovod_tensor_t), as "
                        "HOROVOD_TENSOR does",
                        tensor->size);
    for (size_t i = sizeof(*tensor); i < tensor->size; i++)
        if (bytes[i] != 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "the program was compiled for a newer Horovod and uses what version %s "
                            "does not have",
                            HVD_VERSION);
    if (tensor->reserved != 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "horovod_tensor_t.reserved is not 0");
    return HVD_OK;
}

/* Copies the public description, dropping what does not belong to the operation. */
static hvd_status_t make_request(const struct call *call, int size, struct hvd_request *req,
                                 struct hvd_err *err)
{
    const horovod_tensor_t *t = call->tensor;

    if (!t)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "tensor is NULL");
    hvd_status_t st = check_size(t, err);
    if (st != HVD_OK)
        return st;
    if (!t->name || (t->ndim > 0 && !t->shape))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s is NULL", t->name ? "shape" : "name");
    *req = (struct hvd_request){
        .op = call->op,
        .dtype = (enum hvd_dtype)t->dtype,
        .reduce = call->op == HVD_ALLREDUCE ? (enum hvd_reduce)t->op : HVD_SUM,
        .root = call->op == HVD_BROADCAST ? t->root_rank : 0,
        .ndim = t->ndim,
        .name = {.data = t->name, .len = strnlen(t->name, HVD_NAME_MAX + 1)},
    };
    /* Of a shape with too many dimensions nothing is read: it is refused right below. */
    for (int i = 0; i < t->ndim && t->ndim <= HVD_NDIM_MAX; i++)
        req->shape[i] = t->shape[i];
    return hvd_request_check(req, size, err);
}

static bool overlap(const void *a, const void *b, size_t bytes)
{
    const uintptr_t x = (uintptr_t)a;
    const uintptr_t y = (uintptr_t)b;

    return x != y && (x < y ? y - x : x - y) < bytes;
}

static hvd_status_t check_memory(const struct call *call, const struct hvd_request *req, int rank,
                                 struct hvd_err *err)
{
    const bool reads = req->op != HVD_BROADCAST || rank == req->root;
    int64_t count = 0;

    if (!hvd_shape_count(req->shape, req->ndim, &count) || count == 0)
        return HVD_OK;
    if (reads && !call->input)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "input is NULL");
    if (req->op == HVD_ALLGATHER)
        return HVD_OK;
    if (!call->output)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "output is NULL");
    if (reads &&
        overlap(call->input, call->output, (size_t)count * hvd_dtype_size((int)req->dtype)))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "input and output overlap in part");
    return HVD_OK;
}

static hvd_status_t check_call(const struct call *call, const struct hvd_topology *top,
                               struct hvd_request *req, struct hvd_err *err)
{
    if (call->op == HVD_BARRIER) {
        *req = (struct hvd_request){.op = HVD_BARRIER,
                                    .reduce = HVD_SUM,
                                    .name = {.data = BARRIER_NAME, .len = strlen(BARRIER_NAME)}};
        return HVD_OK;
    }
    hvd_status_t st = make_request(call, top->size, req, err);
    if (st == HVD_OK)
        st = check_memory(call, req, top->rank, err);
    if (st != HVD_OK && call->tensor && call->tensor->name && req->name.len > 0)
        return HVD_WRAP(err, st, "tensor %.200s", call->tensor->name);
    return st;
}

/* Checks and submits. The engine is entered. */
static hvd_status_t submit(struct hvd_engine *engine, const struct call *call, bool is_waited_now,
                           int64_t *handle, struct hvd_err *err)
{
    struct hvd_submission s = {
        .input = call->input, .output = call->output, .is_waited_now = is_waited_now};
    hvd_status_t st = check_call(call, hvd_engine_topology(engine), &s.request, err);

    return st == HVD_OK ? hvd_engine_submit(engine, &s, handle, err) : st;
}

static horovod_status_t run_async(const struct call *call, horovod_handle_t *handle,
                                  horovod_error_t *err)
{
    struct hvd_err why = {0};
    hvd_status_t st;
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return hvd_api_not_initialized(err);
    if (handle)
        st = submit(engine, call, false, handle, &why);
    else
        st = HVD_FAIL(&why, HVD_ERR_INVALID, 0, "handle is NULL");
    hvd_api_leave();
    return hvd_api_status(st, &why, err);
}

static horovod_status_t run(const struct call *call, struct horovod_output **output,
                            horovod_error_t *err)
{
    struct hvd_err why = {0};
    int64_t handle = 0;
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return hvd_api_not_initialized(err);
    hvd_status_t st = submit(engine, call, true, &handle, &why);
    if (st == HVD_OK)
        st = hvd_engine_wait(engine, handle, output, &why);
    hvd_api_leave();
    return hvd_api_status(st, &why, err);
}

static horovod_status_t wait_handle(horovod_handle_t handle, struct horovod_output **output,
                                    horovod_error_t *err)
{
    struct hvd_err why = {0};
    struct hvd_engine *engine = hvd_api_enter(false);

    if (!engine)
        return hvd_api_not_initialized(err);
    hvd_status_t st = hvd_engine_wait(engine, handle, output, &why);
    hvd_api_leave();
    return hvd_api_status(st, &why, err);
}

horovod_status_t horovod_allreduce_async(const void *input, void *output,
                                         const horovod_tensor_t *tensor, horovod_handle_t *handle,
                                         horovod_error_t *err)
{
    const struct call call = {HVD_ALLREDUCE, input, output, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_allreduce(const void *input, void *output, const horovod_tensor_t *tensor,
                                   horovod_error_t *err)
{
    const struct call call = {HVD_ALLREDUCE, input, output, tensor};

    return run(&call, NULL, err);
}

horovod_status_t horovod_allgather_async(const void *input, const horovod_tensor_t *tensor,
                                         horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {HVD_ALLGATHER, input, NULL, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_allgather(const void *input, const horovod_tensor_t *tensor,
                                   horovod_output_t **output, horovod_error_t *err)
{
    const struct call call = {HVD_ALLGATHER, input, NULL, tensor};

    return run(&call, output, err);
}

horovod_status_t horovod_broadcast_async(const void *input, void *output,
                                         const horovod_tensor_t *tensor, horovod_handle_t *handle,
                                         horovod_error_t *err)
{
    const struct call call = {HVD_BROADCAST, input, output, tensor};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_broadcast(const void *input, void *output, const horovod_tensor_t *tensor,
                                   horovod_error_t *err)
{
    const struct call call = {HVD_BROADCAST, input, output, tensor};

    return run(&call, NULL, err);
}

horovod_status_t horovod_barrier_async(horovod_handle_t *handle, horovod_error_t *err)
{
    const struct call call = {.op = HVD_BARRIER};

    return run_async(&call, handle, err);
}

horovod_status_t horovod_barrier(horovod_error_t *err)
{
    const struct call call = {.op = HVD_BARRIER};

    return run(&call, NULL, err);
}

int horovod_poll(horovod_handle_t handle)
{
    struct hvd_engine *engine = hvd_api_enter(false);

    if (!engine)
        return -1;
    int result = hvd_engine_poll(engine, handle);
    hvd_api_leave();
    return result;
}

horovod_status_t horovod_wait(horovod_handle_t handle, horovod_error_t *err)
{
    return wait_handle(handle, NULL, err);
}

horovod_status_t horovod_wait_output(horovod_handle_t handle, horovod_output_t **output,
                                     horovod_error_t *err)
{
    return wait_handle(handle, output, err);
}

const void *horovod_output_data(const horovod_output_t *output)
{
    return output->data;
}

int64_t horovod_output_rows(const horovod_output_t *output)
{
    return output->n_rows;
}

int64_t horovod_output_rows_of(const horovod_output_t *output, int rank)
{
    return rank >= 0 && rank < output->n_ranks ? output->rows[rank] : -1;
}

size_t horovod_output_bytes(const horovod_output_t *output)
{
    return output->bytes;
}

void horovod_output_release(horovod_output_t *output)
{
    hvd_output_destroy(output);
}
