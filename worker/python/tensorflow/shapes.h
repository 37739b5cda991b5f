#ifndef HVD_WORKER_PYTHON_TENSORFLOW_SHAPES_H
#define HVD_WORKER_PYTHON_TENSORFLOW_SHAPES_H

#include "worker/python/tensorflow/api.h"
#include "worker/python/tensorflow/core/definitions.h"

/* Returns the function by which TensorFlow derives the shapes of outputs. */
tf_shapes_fn hvd_tf_shapes_function(enum hvd_tf_shapes shapes);

#endif
