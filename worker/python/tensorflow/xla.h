#ifndef HVD_WORKER_PYTHON_TENSORFLOW_XLA_H
#define HVD_WORKER_PYTHON_TENSORFLOW_XLA_H

#include "worker/python/tensorflow/library.h"

/* For horovod.tensorflow.xla, by ctypes: makes XLA know the custom call "horovod_allreduce" of
 * programs for the host, once. Returns NULL, or the reason why that is impossible, which stays
 * valid for ever. One thread at a time. */
HVD_TF_EXPORT const char *hvd_tf_xla_register(void);

#endif
