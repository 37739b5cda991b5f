/*
 * Kernels of the collectives: reads the attributes of a node once, when TensorFlow creates its
 * kernel, and makes of them what its runs need.
 */
#include "worker/python/tensorflow/kernel.h"

#include <string.h>

#include "base/mem.h"
#include "worker/python/tensorflow/call.h"
#include "worker/python/tensorflow/core/codes.h"
#include "worker/python/tensorflow/core/elements.h"
#include "worker/python/tensorflow/core/names.h"
#include "worker/python/tensorflow/library.h"

static const char *const words[] = {
    [HVD_TF_ALLREDUCE] = "allreduce",         [HVD_TF_ALLGATHER] = "allgather",
    [HVD_TF_BROADCAST] = "broadcast",         [HVD_TF_ALLTOALL] = "alltoall",
    [HVD_TF_REDUCESCATTER] = "reducescatter",
};

const char *hvd_tf_kernel_word(const struct hvd_tf_kernel *kernel)
{
    return words[kernel->kind];
}

const char *hvd_tf_kernel_name(const struct hvd_tf_kernel *kernel, int i)
{
    return kernel->names ? kernel->names + (size_t)i * kernel->name_size : NULL;
}

/* The node that a kernel is created for, while its attributes are read. After a failure the
 * functions below do nothing. */
struct node {
    struct tf_construction *construction;
    struct tf_status *status;
};

static bool is_ok(const struct node *node)
{
    return hvd_tf.GetCode(node->status) == 0;
}

static int64_t read_int(const struct node *node, const char *name)
{
    int64_t value = 0;

    if (is_ok(node))
        hvd_tf.OpKernelConstruction_GetAttrInt64(node->construction, name, &value, node->status);
    return value;
}

static int read_small_int(const struct node *node, const char *name)
{
    const int64_t value = read_int(node, name);

    if (value >= INT32_MIN && value <= INT32_MAX)
        return (int)value;
    hvd_tf.SetStatus(node->status, HVD_TF_INVALID_ARGUMENT, name);
    return 0;
}

static bool read_bool(const struct node *node, const char *name)
{
    unsigned char value = 0;

    if (is_ok(node))
        hvd_tf.OpKernelConstruction_GetAttrBool(node->construction, name, &value, node->status);
    return value != 0;
}

static double read_float(const struct node *node, const char *name)
{
    float value = 0;

    if (is_ok(node))
        hvd_tf.OpKernelConstruction_GetAttrFloat(node->construction, name, &value, node->status);
    return (double)value;
}

/* Returns the attribute's text, which the caller frees; NULL after a failure. */
static char *read_text(const struct node *node, const char *name, size_t *len)
{
    int32_t n_items = 0;
    int32_t n_bytes = 0;
    char *text = NULL;

    if (is_ok(node))
        hvd_tf.OpKernelConstruction_GetAttrSize(node->construction, name, &n_items, &n_bytes,
                                                node->status);
    if (!is_ok(node) || n_bytes < 0)
        return NULL;
    text = hvd_calloc((size_t)n_bytes + 1, 1);
    if (!text)
        hvd_tf.SetStatus(node->status, HVD_TF_RESOURCE_EXHAUSTED, "out of memory");
    else if (n_bytes > 0)
        hvd_tf.OpKernelConstruction_GetAttrString(node->construction, name, text, (size_t)n_bytes,
                                                  node->status);
    *len = (size_t)n_bytes;
    return text;
}

static void make_names(struct hvd_tf_kernel *kernel, const struct node *node,
                       struct hvd_strview name)
{
    const int of = kernel->is_group ? kernel->n : 0;

    if (name.len == 0)
        return;
    kernel->name_size = hvd_tf_name_member_size(name, of);
    if (kernel->name_size == 0 || memchr(name.data, '\0', name.len)) {
        hvd_tf.SetStatus(node->status, HVD_TF_INVALID_ARGUMENT,
                         "The name of a tensor has at most 1,023 bytes, and no zero among them.");
        return;
    }
    kernel->names = hvd_malloc((size_t)kernel->n, kernel->name_size);
    if (!kernel->names) {
        hvd_tf.SetStatus(node->status, HVD_TF_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    for (int i = 0; i < kernel->n; i++)
        hvd_tf_name_write(name, i, of, kernel->names + (size_t)i * kernel->name_size,
                          kernel->name_size);
}

static void read_name(struct hvd_tf_kernel *kernel, const struct node *node)
{
    struct hvd_tf_naming naming = {.is_eager = kernel->is_blocking};
    char *given = read_text(node, "tensor_name", &naming.given.len);

    naming.given.data = given;
    naming.is_scope_ignored = read_bool(node, "ignore_name_scope");
    if (given && is_ok(node)) {
        const struct tf_text text = hvd_tf.OpKernelConstruction_GetName(node->construction);
        naming.node = (struct hvd_strview){.data = text.data, .len = text.len};
        make_names(kernel, node, hvd_tf_name_of(&naming));
    }
    hvd_free(given);
}

static void read_element(struct hvd_tf_kernel *kernel, const struct node *node)
{
    if (is_ok(node))
        hvd_tf.OpKernelConstruction_GetAttrType(node->construction, "T", &kernel->tf_type,
                                                node->status);
    if (!is_ok(node))
        return;
    if (!hvd_tf_element_of(kernel->tf_type, &kernel->tensor.dtype))
        hvd_tf.SetStatus(node->status, HVD_TF_INVALID_ARGUMENT,
                         "The runtime does not support this element type.");
    kernel->element_size = hvd_tf_element_size(kernel->tensor.dtype);
}

static void read_attributes(struct hvd_tf_kernel *kernel, const struct node *node)
{
    horovod_tensor_t *tensor = &kernel->tensor;

    read_element(kernel, node);
    kernel->n = kernel->is_group ? read_small_int(node, "num_tensors") : 1;
    tensor->process_set = read_small_int(node, "process_set_id");
    if (kernel->kind == HVD_TF_ALLREDUCE || kernel->kind == HVD_TF_REDUCESCATTER) {
        tensor->op = (horovod_reduce_op_t)read_small_int(node, "reduce_op");
        tensor->prescale_factor = read_float(node, "prescale_factor");
        tensor->postscale_factor = read_float(node, "postscale_factor");
        kernel->is_zero = tensor->prescale_factor == 0 || tensor->postscale_factor == 0;
    }
    if (kernel->kind == HVD_TF_BROADCAST)
        tensor->root_rank = read_small_int(node, "root_rank");
    kernel->is_blocking = read_bool(node, "blocking");
    read_name(kernel, node);
    kernel->is_blocking = kernel->is_blocking || hvd_tf_library_is_blocking();
}

static void destroy(void *arg)
{
    struct hvd_tf_kernel *kernel = arg;

    if (kernel) {
        hvd_tf_call_release_spare(kernel);
        hvd_free(kernel->names);
    }
    hvd_free(kernel);
}

static void *create(struct tf_construction *construction, enum hvd_tf_kind kind, bool is_group)
{
    const struct node node = {.construction = construction, .status = hvd_tf.NewStatus()};
    struct hvd_tf_kernel *kernel = hvd_calloc(1, sizeof(*kernel));

    if (!kernel) {
        hvd_tf.SetStatus(node.status, HVD_TF_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        kernel->kind = kind;
        kernel->is_group = is_group;
        kernel->tensor.size = sizeof(kernel->tensor);
        read_attributes(kernel, &node);
    }
    if (!is_ok(&node)) {
        hvd_tf.OpKernelConstruction_Failure(construction, node.status);
        destroy(kernel);
        kernel = NULL;
    }
    hvd_tf.DeleteStatus(node.status);
    return kernel;
}

static void run(void *arg, struct tf_context *context, struct tf_done *done)
{
    hvd_tf_call_run(arg, context, done);
}

/* TensorFlow passes nothing to a creating function but the node. */
#define CREATE(function, kind, is_group)                                                           \
    static void *function(struct tf_construction *construction)                                    \
    {                                                                                              \
        return create(construction, kind, is_group);                                               \
    }
CREATE(create_allreduce, HVD_TF_ALLREDUCE, false)
CREATE(create_grouped_allreduce, HVD_TF_ALLREDUCE, true)
CREATE(create_allgather, HVD_TF_ALLGATHER, false)
CREATE(create_grouped_allgather, HVD_TF_ALLGATHER, true)
CREATE(create_broadcast, HVD_TF_BROADCAST, false)
CREATE(create_reducescatter, HVD_TF_REDUCESCATTER, false)
CREATE(create_grouped_reducescatter, HVD_TF_REDUCESCATTER, true)
CREATE(create_alltoall, HVD_TF_ALLTOALL, false)

static const struct {
    const char *type;
    tf_create_fn create;
} creators[] = {
    {"HorovodAllreduce", create_allreduce},
    {"HorovodGroupedAllreduce", create_grouped_allreduce},
    {"HorovodAllgather", create_allgather},
    {"HorovodGroupedAllgather", create_grouped_allgather},
    {"HorovodBroadcast", create_broadcast},
    {"HorovodReducescatter", create_reducescatter},
    {"HorovodGroupedReducescatter", create_grouped_reducescatter},
    {"HorovodAlltoall", create_alltoall},
};

bool hvd_tf_kernel_register(const struct hvd_tf_definition *definition, struct tf_status *status)
{
    const char *type = definition->type;

    for (size_t i = 0; i < sizeof(creators) / sizeof(creators[0]); i++)
        if (strcmp(creators[i].type, type) == 0)
            hvd_tf.RegisterKernelBuilder(
                type, hvd_tf.NewAsyncKernelBuilder(type, "CPU", creators[i].create, run, destroy),
                status);
    return hvd_tf.GetCode(status) == 0;
}
