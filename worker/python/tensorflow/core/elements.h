#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_ELEMENTS_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "horovod/horovod.h"

/* TensorFlow's numbers of the two element types that this library itself creates or reads. */
enum { HVD_TF_INT32 = 3, HVD_TF_BOOL = 10 };

/* Converts TensorFlow's number of an element type to the runtime's. False for a type that the
 * runtime does not have, such as strings and complex numbers; *out stays as it is then. Pure. */
bool hvd_tf_element_of(int tf_type, horovod_dtype_t *out);

/* Returns the size of an element in bytes. Pure. */
size_t hvd_tf_element_size(horovod_dtype_t dtype);

#endif
