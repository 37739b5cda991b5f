#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_CODES_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_CODES_H

#include "horovod/horovod.h"

/* TensorFlow's codes of errors that this library sets. Python raises a class of tf.errors for
 * each. */
enum hvd_tf_code {
    HVD_TF_OK = 0,
    HVD_TF_UNKNOWN = 2,
    HVD_TF_INVALID_ARGUMENT = 3,
    HVD_TF_RESOURCE_EXHAUSTED = 8,
    HVD_TF_FAILED_PRECONDITION = 9,
    HVD_TF_ABORTED = 10,
    HVD_TF_UNIMPLEMENTED = 12,
    HVD_TF_INTERNAL = 13,
};

/* Returns the code for a status of the runtime. Pure. */
enum hvd_tf_code hvd_tf_code_of(horovod_status_t status);

#endif
