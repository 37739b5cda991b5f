#ifndef HVD_WORKER_PYTHON_TENSORFLOW_LIBRARY_H
#define HVD_WORKER_PYTHON_TENSORFLOW_LIBRARY_H

#include <stdbool.h>

#define HVD_TF_EXPORT __attribute__((visibility("default")))

/* Whether all kernels wait in TensorFlow's threads: its std::function has another layout than that
 * of libstdc++, or HOROVOD_TENSORFLOW_BLOCKING or HOROVOD_MPI_THREADS_DISABLE is set. Then
 * collectives of a graph must run in order. Constant. */
bool hvd_tf_library_is_blocking(void);

/* For horovod.tensorflow.library, by ctypes: why the library has registered nothing, or NULL. The
 * text stays valid for ever. */
HVD_TF_EXPORT const char *hvd_tf_library_problem(void);

/* For horovod.tensorflow.library: hvd_tf_library_is_blocking as 0 or 1. */
HVD_TF_EXPORT int hvd_tf_library_blocks(void);

#endif
