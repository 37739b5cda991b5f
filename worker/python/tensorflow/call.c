/*
 * One run of a collective's kernel. TensorFlow's thread reads the inputs, gets memory for the
 * outputs, and submits. The end is reported
 *
 *     in TensorFlow's thread,     if the kernel blocks, was refused, or the tensors had ended
 * before their submission returned; in the completion thread,   else: the runtime's progress thread
 * hands the call over.
 *
 * n_pending counts the tensors that have not ended, and the submission as one more. Who brings it
 * to 0 owns the call. The inputs belong to the context, which TensorFlow keeps until the end.
 */
#include "worker/python/tensorflow/call.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/python/tensorflow/completion/completion.h"
#include "worker/python/tensorflow/core/codes.h"
#include "worker/python/tensorflow/core/done.h"
#include "worker/python/tensorflow/core/elements.h"

#define NDIM_MAX 16 /* of the runtime */

struct call;

struct member {
    struct call *call;
    int i;
    const void *in;
    void *out;
    struct tf_tensor *output;   /* owned; NULL: not allocated yet */
    horovod_output_t *received; /* owned; of an alltoall */
    horovod_tensor_t tensor;
    int64_t shape[NDIM_MAX];
};

struct call {
    struct hvd_tf_completion completion;
    struct hvd_tf_kernel *kernel;
    struct tf_context *context;
    struct tf_status *status; /* owned */
    struct hvd_tf_done done;  /* owned, if the call is asynchronous */
    atomic_int n_pending;
    horovod_error_t err; /* the first failure */
    int64_t *splits;     /* owned; of an alltoall */
    void *zeros;         /* owned; the inputs of a reducescatter with a factor of 0 */
    /* The arguments of a group's submission, n each, in the same allocation as the call. */
    const void **ins;
    void **outs;
    const horovod_tensor_t **tensors;
    horovod_handle_t *handles;
    struct member members[];
};

/* Returns the memory and the status of a call that has ended, or new ones; NULL: out of memory. */
static struct call *allocate(struct hvd_tf_kernel *kernel)
{
    const size_t n = (size_t)kernel->n;
    const size_t pointers = 3 * sizeof(void *) + sizeof(horovod_handle_t);
    struct call *call = atomic_exchange(&kernel->spare, NULL);

    if (call)
        return call;
    call = hvd_malloc(1, sizeof(*call) +
                             n * (sizeof(struct member) + (kernel->is_group ? pointers : 0)));
    if (call)
        call->status = hvd_tf.NewStatus();
    return call;
}

static void release(struct call *call)
{
    hvd_tf.DeleteStatus(call->status);
    hvd_free(call);
}

void hvd_tf_call_release_spare(struct hvd_tf_kernel *kernel)
{
    struct call *call = atomic_exchange(&kernel->spare, NULL);

    if (call)
        release(call);
}

static struct call *create(struct hvd_tf_kernel *kernel, struct tf_context *context)
{
    const size_t n = (size_t)kernel->n;
    struct call *call = allocate(kernel);

    if (!call)
        return NULL;
    call->completion = (struct hvd_tf_completion){0};
    call->done = (struct hvd_tf_done){0};
    call->err.status = HOROVOD_OK;
    call->err.message[0] = '\0';
    call->splits = NULL;
    call->zeros = NULL;
    call->kernel = kernel;
    call->context = context;
    call->ins = (const void **)&call->members[n];
    call->outs = (void **)(call->ins + n);
    call->tensors = (const horovod_tensor_t **)(call->outs + n);
    call->handles = (horovod_handle_t *)(call->tensors + n);
    for (int i = 0; i < kernel->n; i++) {
        struct member *member = &call->members[i];
        member->call = call;
        member->i = i;
        member->in = NULL;
        member->out = NULL;
        member->output = NULL;
        member->received = NULL;
        member->tensor = kernel->tensor;
        member->tensor.name = hvd_tf_kernel_name(kernel, i);
    }
    return call;
}

static void destroy(struct call *call)
{
    /* After HOROVOD_ABORTED, MPI may still write to the outputs: they are kept for ever. */
    const bool is_kept = call->err.status == HOROVOD_ABORTED;

    for (int i = 0; i < call->kernel->n; i++) {
        if (call->members[i].output && !is_kept)
            hvd_tf.DeleteTensor(call->members[i].output);
        horovod_output_release(call->members[i].received);
    }
    hvd_free(call->splits);
    hvd_free(call->zeros);
    /* Most operations run once in each step: the next run finds its memory here. */
    if (hvd_tf.GetCode(call->status) == HVD_TF_OK)
        call = atomic_exchange(&call->kernel->spare, call);
    if (call)
        release(call);
}

static void keep_failure(struct call *call, horovod_status_t status, const char *message)
{
    if (call->err.status != HOROVOD_OK)
        return;
    call->err.status = status;
    snprintf(call->err.message, sizeof(call->err.message), "%s", message);
}

/* Keeps a failure of TensorFlow's C API, if there is one; returns whether there is none. */
static bool check(struct call *call)
{
    if (hvd_tf.GetCode(call->status) == HVD_TF_OK)
        return true;
    keep_failure(call,
                 hvd_tf.GetCode(call->status) == HVD_TF_RESOURCE_EXHAUSTED ? HOROVOD_OUT_OF_MEMORY
                                                                           : HOROVOD_UNKNOWN_ERROR,
                 hvd_tf.Message(call->status));
    return false;
}

/* Makes the matching calls of the other ranks fail with the reason of this one. */
static void refuse(struct call *call)
{
    const struct hvd_tf_kernel *kernel = call->kernel;
    const horovod_tensor_t *one = &call->members[0].tensor;

    for (int i = 0; kernel->is_group && i < kernel->n; i++)
        call->tensors[i] = &call->members[i].tensor;
    (void)horovod_refuse(hvd_tf_kernel_word(kernel), kernel->is_group ? kernel->n : 0,
                         kernel->is_group ? call->tensors : &one, call->err.message, NULL);
}

/* --- Inputs and outputs ----------------------------------------------------------------------- */

/* Borrows an input from the context. The tensor of the C API is a second reference, which must not
 * last: TensorFlow forwards the memory of an input only if it has the last one. */
static bool read_input(struct call *call, int i)
{
    struct member *member = &call->members[i];
    horovod_tensor_t *tensor = &member->tensor;
    struct tf_tensor *input = NULL;

    hvd_tf.GetInput(call->context, i, &input, call->status);
    if (!check(call))
        return false;
    tensor->ndim = hvd_tf.NumDims(input);
    const bool fits = tensor->ndim <= NDIM_MAX;
    for (int axis = 0; fits && axis < tensor->ndim; axis++)
        member->shape[axis] = hvd_tf.Dim(input, axis);
    tensor->shape = member->shape;
    member->in = hvd_tf.TensorData(input);
    hvd_tf.DeleteTensor(input);
    if (!fits)
        keep_failure(call, HOROVOD_INVALID_ARGUMENT, "A tensor has at most 16 dimensions.");
    return fits;
}

/* The number of elements of all dimensions from the given one on. */
static size_t count_from(const struct member *member, int axis)
{
    size_t count = 1;

    for (; axis < member->tensor.ndim; axis++)
        count *= (size_t)member->shape[axis];
    return count;
}

/* Allocates the output with the shape of the input but for the number of rows. */
static bool allocate_rows(struct member *member, int64_t rows)
{
    struct call *call = member->call;
    const struct hvd_tf_kernel *kernel = call->kernel;
    int64_t shape[NDIM_MAX];
    const size_t bytes = (size_t)rows * count_from(member, 1) * kernel->element_size;

    memcpy(shape, member->shape, sizeof(shape[0]) * (size_t)member->tensor.ndim);
    shape[0] = rows;
    member->output = hvd_tf.AllocateOutput(call->context, member->i, kernel->tf_type, shape,
                                           member->tensor.ndim, bytes, call->status);
    if (!check(call))
        return false;
    member->out = hvd_tf.TensorData(member->output);
    return true;
}

static bool allocate_part(struct member *member)
{
    struct call *call = member->call;
    const int set = member->tensor.process_set;
    const int rank = horovod_process_set_rank(set);
    const int size = horovod_process_set_size(set);

    if (member->tensor.ndim == 0) {
        keep_failure(call, HOROVOD_INVALID_ARGUMENT,
                     "reducescatter needs a tensor with rows, not a single element.");
        return false;
    }
    if (rank < 0 || size < 1) /* the runtime refuses it and explains why */
        return true;
    return allocate_rows(member, horovod_reducescatter_rows(member->shape[0], rank, size));
}

static bool allocate_same(struct member *member)
{
    struct call *call = member->call;
    const int input = member->i;
    int forwarded = -1;

    member->output =
        hvd_tf.ForwardInputOrAllocateOutput(call->context, &input, 1, member->i, member->shape,
                                            member->tensor.ndim, &forwarded, call->status);
    if (!check(call))
        return false;
    member->out = hvd_tf.TensorData(member->output);
    return true;
}

static void *allocate_received(void *context, int64_t rows, size_t bytes)
{
    struct member *member = context;

    (void)bytes;
    return allocate_rows(member, rows) ? member->out : NULL;
}

/* Replaces the inputs by zeros. */
static bool make_zeros(struct call *call)
{
    const struct hvd_tf_kernel *kernel = call->kernel;
    size_t most = 0;

    for (int i = 0; i < kernel->n; i++) {
        struct member *member = &call->members[i];
        const size_t bytes = count_from(member, 0) * kernel->element_size;
        member->tensor.prescale_factor = 1;
        member->tensor.postscale_factor = 1;
        most = bytes > most ? bytes : most;
        member->in = member->out;
        if (kernel->kind == HVD_TF_ALLREDUCE && member->out && bytes > 0)
            memset(member->out, 0, bytes);
    }
    if (kernel->kind == HVD_TF_ALLREDUCE || most == 0)
        return true;
    call->zeros = hvd_calloc(1, most);
    if (!call->zeros)
        keep_failure(call, HOROVOD_OUT_OF_MEMORY, "There is no memory for zeros.");
    for (int i = 0; i < kernel->n; i++)
        call->members[i].in = call->zeros;
    return call->zeros != NULL;
}

/* Reads how many rows go to each rank; none: the same number to each. */
static bool read_splits(struct call *call)
{
    horovod_tensor_t *tensor = &call->members[0].tensor;
    struct tf_tensor *input = NULL;

    hvd_tf.GetInput(call->context, 1, &input, call->status);
    if (!check(call))
        return false;
    const int64_t n = hvd_tf.NumDims(input) == 1 ? hvd_tf.Dim(input, 0) : -1;
    const int32_t *counts = hvd_tf.TensorData(input);
    if (n > 0 && n <= INT32_MAX)
        call->splits = hvd_malloc((size_t)n, sizeof(*call->splits));
    for (int64_t i = 0; call->splits && i < n; i++)
        call->splits[i] = counts[i];
    hvd_tf.DeleteTensor(input);
    tensor->splits = call->splits;
    tensor->n_splits = call->splits ? (int)n : 0;
    if (n < 0)
        keep_failure(call, HOROVOD_INVALID_ARGUMENT,
                     "alltoall expects splits to be a vector with one number for each rank.");
    else if (n > 0 && !call->splits)
        keep_failure(call, HOROVOD_OUT_OF_MEMORY, "There is no memory for splits.");
    return call->err.status == HOROVOD_OK;
}

static bool open_member(struct call *call, int i)
{
    struct member *member = &call->members[i];

    if (!read_input(call, i))
        return false;
    switch (call->kernel->kind) {
    case HVD_TF_ALLREDUCE:
    case HVD_TF_BROADCAST:
        return allocate_same(member);
    case HVD_TF_REDUCESCATTER:
        return allocate_part(member);
    case HVD_TF_ALLTOALL:
        if (!read_splits(call))
            return false;
        break;
    default:
        break;
    }
    member->tensor.allocate = allocate_received;
    member->tensor.context = member;
    return true;
}

static bool open_call(struct call *call)
{
    for (int i = 0; i < call->kernel->n; i++)
        if (!open_member(call, i))
            return false;
    return !call->kernel->is_zero || make_zeros(call);
}

/* --- Completion ------------------------------------------------------------------------------- */

/* Makes the second output of an alltoall: how many rows came from each rank. */
static void put_received(struct call *call)
{
    const horovod_output_t *received = call->members[0].received;
    struct tf_tensor *output = NULL;
    int64_t n = 0;

    while (horovod_output_rows_of(received, (int)n) >= 0)
        n++;
    output = hvd_tf.AllocateOutput(call->context, 1, HVD_TF_INT32, &n, 1,
                                   (size_t)n * sizeof(int32_t), call->status);
    if (!check(call))
        return;
    int32_t *counts = hvd_tf.TensorData(output);
    for (int rank = 0; rank < n; rank++) {
        const int64_t rows = horovod_output_rows_of(received, rank);
        if (rows > INT32_MAX)
            keep_failure(call, HOROVOD_INVALID_ARGUMENT,
                         "alltoall: a rank sent more rows than an int32 can count.");
        counts[rank] = (int32_t)rows;
    }
    hvd_tf.DeleteTensor(output);
}

/* Reports the end to TensorFlow and destroys the call; the context is gone afterwards. */
static void finish(struct call *call, struct tf_done *done)
{
    struct hvd_tf_done taken = call->done;

    if (call->err.status == HOROVOD_OK && call->kernel->kind == HVD_TF_ALLTOALL)
        put_received(call);
    if (call->err.status != HOROVOD_OK) {
        hvd_tf.SetStatus(call->status, hvd_tf_code_of(call->err.status), call->err.message);
        hvd_tf.OpKernelContext_Failure(call->context, call->status);
    }
    destroy(call);
    hvd_tf.RunAsyncOpKernelDoneCallback(done ? done : (struct tf_done *)&taken);
    hvd_tf_done_destroy(&taken);
}

static void finish_later(struct hvd_tf_completion *completion)
{
    finish((struct call *)completion, NULL);
}

/* The runtime's progress thread calls this. */
static void end_member(void *context, horovod_status_t status, const char *message,
                       horovod_output_t *output)
{
    struct member *member = context;
    struct call *call = member->call;

    member->received = output;
    if (status != HOROVOD_OK)
        keep_failure(call, status, message);
    if (atomic_fetch_sub(&call->n_pending, 1) == 1)
        hvd_tf_completion_put(&call->completion);
}

/* --- Submission ------------------------------------------------------------------------------- */

static horovod_status_t submit_group(struct call *call)
{
    const int n = call->kernel->n;
    horovod_error_t *err = &call->err;

    for (int i = 0; i < n; i++) {
        call->ins[i] = call->members[i].in;
        call->outs[i] = call->members[i].out;
        call->tensors[i] = &call->members[i].tensor;
    }
    switch (call->kernel->kind) {
    case HVD_TF_ALLREDUCE:
        return horovod_grouped_allreduce_async(n, call->ins, call->outs, call->tensors,
                                               call->handles, err);
    case HVD_TF_ALLGATHER:
        return horovod_grouped_allgather_async(n, call->ins, call->tensors, call->handles, err);
    default:
        return horovod_grouped_reducescatter_async(n, call->ins, call->outs, call->tensors,
                                                   call->handles, err);
    }
}

static horovod_status_t submit_one(struct call *call)
{
    struct member *member = &call->members[0];
    const horovod_tensor_t *tensor = &member->tensor;
    horovod_error_t *err = &call->err;

    switch (call->kernel->kind) {
    case HVD_TF_ALLREDUCE:
        return horovod_allreduce_async(member->in, member->out, tensor, NULL, err);
    case HVD_TF_ALLGATHER:
        return horovod_allgather_async(member->in, tensor, NULL, err);
    case HVD_TF_BROADCAST:
        return horovod_broadcast_async(member->in, member->out, tensor, NULL, err);
    case HVD_TF_ALLTOALL:
        return horovod_alltoall_async(member->in, tensor, NULL, err);
    default:
        return horovod_reducescatter_async(member->in, member->out, tensor, NULL, err);
    }
}

static void perform_one(struct call *call)
{
    struct member *member = &call->members[0];
    const horovod_tensor_t *tensor = &member->tensor;
    horovod_error_t *err = &call->err;

    switch (call->kernel->kind) {
    case HVD_TF_ALLREDUCE:
        (void)horovod_allreduce(member->in, member->out, tensor, err);
        break;
    case HVD_TF_ALLGATHER:
        (void)horovod_allgather(member->in, tensor, &member->received, err);
        break;
    case HVD_TF_BROADCAST:
        (void)horovod_broadcast(member->in, member->out, tensor, err);
        break;
    case HVD_TF_ALLTOALL:
        (void)horovod_alltoall(member->in, tensor, &member->received, err);
        break;
    default:
        (void)horovod_reducescatter(member->in, member->out, tensor, err);
        break;
    }
}

/* Submits, and waits in this thread. */
static void perform(struct call *call)
{
    horovod_error_t err;

    if (!call->kernel->is_group) {
        perform_one(call);
        return;
    }
    if (submit_group(call) != HOROVOD_OK)
        return;
    for (int i = 0; i < call->kernel->n; i++)
        if (horovod_wait(call->handles[i], &err) != HOROVOD_OK)
            keep_failure(call, err.status, err.message);
}

static void begin(struct call *call, struct tf_done *done)
{
    const int n = call->kernel->n;

    hvd_tf_done_take(&call->done, done);
    call->completion.run = finish_later;
    for (int i = 0; i < n; i++) {
        call->members[i].tensor.done = end_member;
        call->members[i].tensor.context = &call->members[i];
    }
    atomic_store(&call->n_pending, n + 1);
    const horovod_status_t status = call->kernel->is_group ? submit_group(call) : submit_one(call);
    if (status != HOROVOD_OK || atomic_fetch_sub(&call->n_pending, 1) == 1)
        finish(call, NULL);
}

void hvd_tf_call_run(struct hvd_tf_kernel *kernel, struct tf_context *context, struct tf_done *done)
{
    struct call *call = create(kernel, context);

    if (!call) {
        struct tf_status *status = hvd_tf.NewStatus();
        hvd_tf.SetStatus(status, HVD_TF_RESOURCE_EXHAUSTED, "out of memory");
        hvd_tf.OpKernelContext_Failure(context, status);
        hvd_tf.DeleteStatus(status);
        hvd_tf.RunAsyncOpKernelDoneCallback(done);
        return;
    }
    if (!open_call(call)) {
        refuse(call);
        finish(call, done);
    } else if (kernel->is_blocking || !hvd_tf_done_fits(done, hvd_tf_api_has_code) ||
               !hvd_tf_completion_start()) {
        perform(call);
        finish(call, done);
    } else {
        begin(call, done);
    }
}
