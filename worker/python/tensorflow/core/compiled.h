#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_COMPILED_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_COMPILED_H

#include <stdbool.h>

#include "base/str.h"
#include "horovod/horovod.h"

#define HVD_TF_COMPILED_NDIM_MAX 16 /* of the runtime */

/*
 * An allreduce in a program that XLA has compiled. XLA passes memory and a text; the text describes
 * the rest. horovod.tensorflow.xla writes it, as words with a space between them:
 *
 *     is_group op process_set prescale postscale n {type ndim size...} name
 *
 * Factors are the bits of a double as an integer, because a decimal text depends on the locale.
 * type is TensorFlow's number. The name is last, and may contain spaces. Pure.
 */
struct hvd_tf_compiled {
    bool is_group;
    int n;                   /* tensors */
    horovod_tensor_t tensor; /* without name, type and shape */
    struct hvd_strview rest; /* of the text: the tensors, and then the name; borrowed */
};

/* Reads the part before the tensors. False for a text that is none of these. */
bool hvd_tf_compiled_parse(struct hvd_strview text, struct hvd_tf_compiled *out);

/* Reads the type and the shape of the next tensor of the call into *tensor. `shape` has room for
 * HVD_TF_COMPILED_NDIM_MAX sizes, and becomes that of the tensor. False for a bad text. After n
 * tensors, call->rest is the name. */
bool hvd_tf_compiled_next(struct hvd_tf_compiled *call, horovod_tensor_t *tensor, int64_t *shape);

/* Returns the number of elements of a tensor. */
size_t hvd_tf_compiled_count(const horovod_tensor_t *tensor);

#endif
