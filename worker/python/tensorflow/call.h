#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CALL_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CALL_H

#include "worker/python/tensorflow/kernel.h"

/*
 * Runs a collective once: submits the tensors of TensorFlow's `context`, and completes `done` when
 * they have ended, perhaps in another thread and after the return. Any thread may call it. Failures
 * become those of the context.
 */
void hvd_tf_call_run(struct hvd_tf_kernel *kernel, struct tf_context *context,
                     struct tf_done *done);

/* Frees the memory that the kernel keeps for its next run. No run may be active. */
void hvd_tf_call_release_spare(struct hvd_tf_kernel *kernel);

#endif
