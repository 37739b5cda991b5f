#ifndef HVD_WORKER_PYTHON_TENSORFLOW_KERNEL_H
#define HVD_WORKER_PYTHON_TENSORFLOW_KERNEL_H

#include <stdatomic.h>

#include "horovod/horovod.h"
#include "worker/python/tensorflow/api.h"
#include "worker/python/tensorflow/core/definitions.h"

struct call; /* one run, see call.c */

/*
 * A node of a graph, or an operation of eager mode with its attributes: what all of its runs share.
 * TensorFlow creates it, runs it in any number of threads at once, and deletes it afterwards. It
 * never changes, except for the spare call.
 */
struct hvd_tf_kernel {
    enum hvd_tf_kind kind;
    int n; /* tensors of a group; 1 without a group */
    bool is_group;
    bool is_blocking;
    int tf_type; /* TensorFlow's number of the element type */
    size_t element_size;
    bool is_zero;            /* a factor is 0: the result is that of zeros */
    horovod_tensor_t tensor; /* without name and shape */
    char *names; /* owned; n of name_size bytes; NULL: the runtime numbers the tensors */
    size_t name_size;
    _Atomic(struct call *) spare; /* owned; memory for the next run; NULL: none */
};

/* Registers the kernels of an operation. False: *status has the reason. */
bool hvd_tf_kernel_register(const struct hvd_tf_definition *definition, struct tf_status *status);

/* Returns the runtime's name of tensor i of the kernel; NULL: it has none. */
const char *hvd_tf_kernel_name(const struct hvd_tf_kernel *kernel, int i);

/* Returns the collective's name in the runtime's messages and in horovod_refuse. */
const char *hvd_tf_kernel_word(const struct hvd_tf_kernel *kernel);

#endif
