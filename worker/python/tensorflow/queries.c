/*
 * Kernels without tensors: each has one result, a number. Those of ranks and sizes read it anew in
 * each run, because a process may join another job. That of HorovodJoin waits in TensorFlow's
 * thread: this rank may submit nothing else meanwhile.
 */
#include "worker/python/tensorflow/queries.h"

#include <stdio.h>

#include "base/mem.h"
#include "horovod/horovod.h"
#include "worker/python/tensorflow/core/codes.h"
#include "worker/python/tensorflow/core/elements.h"

struct query {
    enum hvd_tf_kind kind;
    int process_set;
};

static void destroy(void *query)
{
    hvd_free(query);
}

static void *create(struct tf_construction *construction, enum hvd_tf_kind kind)
{
    struct query *query = hvd_calloc(1, sizeof(*query));
    struct tf_status *status = hvd_tf.NewStatus();
    int64_t id = 0;

    if (!query)
        hvd_tf.SetStatus(status, HVD_TF_RESOURCE_EXHAUSTED, "out of memory");
    else if (kind == HVD_TF_SIZE || kind == HVD_TF_INCLUDED)
        hvd_tf.OpKernelConstruction_GetAttrInt64(construction, "process_set_id", &id, status);
    if (hvd_tf.GetCode(status) != 0) {
        hvd_tf.OpKernelConstruction_Failure(construction, status);
        hvd_free(query);
        query = NULL;
    }
    if (query) {
        query->kind = kind;
        query->process_set = id >= 0 && id <= INT32_MAX ? (int)id : -1;
    }
    hvd_tf.DeleteStatus(status);
    return query;
}

/* Stores why a number of horovod.h is no result. */
static void explain(const struct query *query, int error, horovod_error_t *err)
{
    static const char *const unknown = "There is no process set of this number.";
    static const char *const not_initialized = "Horovod has not been initialized; use hvd.init().";
    const bool is_set_unknown =
        query->process_set != 0 && error == HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;

    err->status = is_set_unknown ? HOROVOD_INVALID_ARGUMENT : HOROVOD_PRECONDITION_ERROR;
    snprintf(err->message, sizeof(err->message), "%s", is_set_unknown ? unknown : not_initialized);
}

static horovod_status_t answer(const struct query *query, int *out, horovod_error_t *err)
{
    switch (query->kind) {
    case HVD_TF_JOIN:
        return horovod_join(out, err);
    case HVD_TF_RANK:
        *out = horovod_rank();
        break;
    case HVD_TF_LOCAL_RANK:
        *out = horovod_local_rank();
        break;
    case HVD_TF_LOCAL_SIZE:
        *out = horovod_local_size();
        break;
    case HVD_TF_SIZE:
        *out = horovod_process_set_size(query->process_set);
        break;
    default: /* an error is a result, as in Horovod */
        *out = horovod_process_set_included(query->process_set);
        return HOROVOD_OK;
    }
    if (*out >= 0)
        return HOROVOD_OK;
    explain(query, *out, err);
    return err->status;
}

static void run(void *arg, struct tf_context *context)
{
    const struct query *query = arg;
    struct tf_status *status = hvd_tf.NewStatus();
    struct tf_tensor *output = NULL;
    horovod_error_t err = {0};
    int32_t value = 0;

    const horovod_status_t failure = answer(query, &value, &err);
    if (failure != HOROVOD_OK)
        hvd_tf.SetStatus(status, hvd_tf_code_of(failure), err.message);
    else
        output = hvd_tf.AllocateOutput(context, 0, HVD_TF_INT32, NULL, 0, sizeof(value), status);
    if (output)
        *(int32_t *)hvd_tf.TensorData(output) = value;
    else
        hvd_tf.OpKernelContext_Failure(context, status);
    hvd_tf.DeleteTensor(output);
    hvd_tf.DeleteStatus(status);
}

/* TensorFlow's C API has no function that reaches a variable. */
static void refuse_inplace(void *query, struct tf_context *context)
{
    struct tf_status *status = hvd_tf.NewStatus();

    (void)query;
    hvd_tf.SetStatus(
        status, HVD_TF_UNIMPLEMENTED,
        "This version of Horovod broadcasts variables by hvd.broadcast_variables, which "
        "reads and assigns them; it has no kernel that writes to them in place. Build "
        "the graph anew.");
    hvd_tf.OpKernelContext_Failure(context, status);
    hvd_tf.DeleteStatus(status);
}

/* TensorFlow passes nothing to a creating function but the node. */
#define CREATE(function, kind)                                                                     \
    static void *function(struct tf_construction *construction)                                    \
    {                                                                                              \
        return create(construction, kind);                                                         \
    }
CREATE(create_join, HVD_TF_JOIN)
CREATE(create_rank, HVD_TF_RANK)
CREATE(create_local_rank, HVD_TF_LOCAL_RANK)
CREATE(create_size, HVD_TF_SIZE)
CREATE(create_local_size, HVD_TF_LOCAL_SIZE)
CREATE(create_included, HVD_TF_INCLUDED)
CREATE(create_inplace, HVD_TF_INPLACE)

static const tf_create_fn creators[] = {
    [HVD_TF_JOIN] = create_join,
    [HVD_TF_RANK] = create_rank,
    [HVD_TF_LOCAL_RANK] = create_local_rank,
    [HVD_TF_SIZE] = create_size,
    [HVD_TF_LOCAL_SIZE] = create_local_size,
    [HVD_TF_INCLUDED] = create_included,
    [HVD_TF_INPLACE] = create_inplace,
};

bool hvd_tf_queries_register(const struct hvd_tf_definition *definition, struct tf_status *status)
{
    const tf_create_fn creator = creators[definition->kind];
    const tf_compute_fn compute = definition->kind == HVD_TF_INPLACE ? refuse_inplace : run;

    if (creator)
        hvd_tf.RegisterKernelBuilder(
            definition->type,
            hvd_tf.NewKernelBuilder(definition->type, "CPU", creator, compute, destroy), status);
    return hvd_tf.GetCode(status) == 0;
}
