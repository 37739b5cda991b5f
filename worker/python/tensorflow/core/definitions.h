#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_DEFINITIONS_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_DEFINITIONS_H

#include <stddef.h>

/*
 * The operations that TensorFlow learns from this library: their types, inputs, outputs and
 * attributes are those of Horovod, so that saved graphs load. Collectives have two attributes more.
 * `tensor_name` is the runtime's name of the tensor, if it is not empty. `blocking` makes the
 * kernel wait in the thread that calls it. Pure data.
 */
enum hvd_tf_kind {
    HVD_TF_ALLREDUCE,
    HVD_TF_ALLGATHER,
    HVD_TF_BROADCAST,
    HVD_TF_ALLTOALL,
    HVD_TF_REDUCESCATTER,
    HVD_TF_JOIN,
    HVD_TF_RANK,
    HVD_TF_LOCAL_RANK,
    HVD_TF_SIZE,
    HVD_TF_LOCAL_SIZE,
    HVD_TF_INCLUDED,
    HVD_TF_INPLACE, /* broadcast of variables, which the C API of TensorFlow cannot reach */
};

/* What TensorFlow can derive about the outputs before it runs the operation. */
enum hvd_tf_shapes {
    HVD_TF_SHAPES_SAME,     /* output i has the shape of input i */
    HVD_TF_SHAPES_ROWS,     /* the same but for the number of rows */
    HVD_TF_SHAPES_EXCHANGE, /* the first as ROWS; the second is a vector */
    HVD_TF_SHAPES_SCALAR,
    HVD_TF_SHAPES_NONE, /* there is no output */
};

#define HVD_TF_ARGS_MAX 11

struct hvd_tf_definition {
    const char *type;
    enum hvd_tf_kind kind;
    enum hvd_tf_shapes shapes;
    const char *inputs[3]; /* each list ends with NULL */
    const char *outputs[3];
    const char *attributes[HVD_TF_ARGS_MAX];
};

extern const struct hvd_tf_definition hvd_tf_definitions[];
extern const size_t hvd_tf_n_definitions;

#endif
