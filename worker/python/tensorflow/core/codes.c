/* Converts the runtime's statuses to TensorFlow's codes of errors. Pure. */
#include "worker/python/tensorflow/core/codes.h"

enum hvd_tf_code hvd_tf_code_of(horovod_status_t status)
{
    switch (status) {
    case HOROVOD_OK:
        return HVD_TF_OK;
    case HOROVOD_PRECONDITION_ERROR:
        return HVD_TF_FAILED_PRECONDITION;
    case HOROVOD_ABORTED:
        return HVD_TF_ABORTED;
    case HOROVOD_INVALID_ARGUMENT:
        return HVD_TF_INVALID_ARGUMENT;
    case HOROVOD_OUT_OF_MEMORY:
        return HVD_TF_RESOURCE_EXHAUSTED;
    case HOROVOD_IN_PROGRESS:
        return HVD_TF_INTERNAL;
    case HOROVOD_UNKNOWN_ERROR:
        break;
    }
    return HVD_TF_UNKNOWN;
}
