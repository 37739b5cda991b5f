/*
 * The start of the library: registers operations and kernels while the loader opens it, because
 * TensorFlow makes Python functions of what is registered by then. A failure is kept for
 * horovod.tensorflow.library, which raises it.
 */
#include "worker/python/tensorflow/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/python/tensorflow/api.h"
#include "worker/python/tensorflow/core/definitions.h"
#include "worker/python/tensorflow/kernel.h"
#include "worker/python/tensorflow/queries.h"
#include "worker/python/tensorflow/shapes.h"

static bool is_blocking;
static char problem[512];

bool hvd_tf_library_is_blocking(void)
{
    return is_blocking;
}

const char *hvd_tf_library_problem(void)
{
    return problem[0] ? problem : NULL;
}

int hvd_tf_library_blocks(void)
{
    return is_blocking;
}

/* All are stateful: TensorFlow merges or drops an operation without state. */
static bool define(const struct hvd_tf_definition *from, struct tf_status *status)
{
    struct tf_definition_builder *builder = hvd_tf.NewOpDefinitionBuilder(from->type);

    for (int i = 0; from->inputs[i]; i++)
        hvd_tf.OpDefinitionBuilderAddInput(builder, from->inputs[i]);
    for (int i = 0; from->outputs[i]; i++)
        hvd_tf.OpDefinitionBuilderAddOutput(builder, from->outputs[i]);
    for (int i = 0; from->attributes[i]; i++)
        hvd_tf.OpDefinitionBuilderAddAttr(builder, from->attributes[i]);
    hvd_tf.OpDefinitionBuilderSetIsStateful(builder, true);
    hvd_tf.OpDefinitionBuilderSetShapeInferenceFunction(builder,
                                                        hvd_tf_shapes_function(from->shapes));
    hvd_tf.RegisterOpDefinition(builder, status);
    return hvd_tf.GetCode(status) == 0;
}

static void register_all(void)
{
    struct tf_status *status = hvd_tf.NewStatus();

    for (size_t i = 0; i < hvd_tf_n_definitions; i++) {
        const struct hvd_tf_definition *definition = &hvd_tf_definitions[i];
        if (define(definition, status) && hvd_tf_kernel_register(definition, status) &&
            hvd_tf_queries_register(definition, status))
            continue;
        snprintf(problem, sizeof(problem), "TensorFlow refuses the operation %s: %s",
                 definition->type, hvd_tf.Message(status));
        break;
    }
    hvd_tf.DeleteStatus(status);
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && value[0] && strcmp(value, "0") != 0;
}

/* With HOROVOD_MPI_THREADS_DISABLE, tensors make progress only while the thread of horovod_init
 * waits. A wait in another thread fails with that reason, where a callback would never come. */
__attribute__((constructor)) static void begin(void)
{
    const char *why = hvd_tf_api_load();

    if (why) {
        snprintf(problem, sizeof(problem), "%s", why);
        return;
    }
    is_blocking = !hvd_tf_api_has_libstdcxx() || is_set("HOROVOD_TENSORFLOW_BLOCKING") ||
                  is_set("HOROVOD_MPI_THREADS_DISABLE");
    register_all();
}
