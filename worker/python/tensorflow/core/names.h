#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_NAMES_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define HVD_TF_NAME_MAX 1023 /* bytes of a name in the runtime */

/* The sources of a name. */
struct hvd_tf_naming {
    struct hvd_strview node; /* TensorFlow's name of the node; in eager mode the operation's type */
    struct hvd_strview given; /* the attribute tensor_name; "": use the node's name */
    bool is_scope_ignored;    /* the part of the node's name before the last "/" does not count */
    bool is_eager;            /* the node's name is no name: without `given` there is none */
};

/* Returns the name by which the ranks match the tensor, borrowed from the sources. An empty view:
 * the runtime numbers the tensor. Pure. */
struct hvd_strview hvd_tf_name_of(const struct hvd_tf_naming *from);

/* Returns the bytes that the name of a tensor of a group of n needs, with its terminator; 0 when it
 * is longer than the runtime's names may be. Pure. */
size_t hvd_tf_name_member_size(struct hvd_strview name, int n);

/* Writes the name of tensor i (from 0 on) of a group of n: "grouped_NAME_1of3". n = 0: the name of
 * a tensor without a group, which is NAME. `out` has room for hvd_tf_name_member_size bytes.
 * Pure. */
void hvd_tf_name_write(struct hvd_strview name, int i, int n, char *out, size_t size);

#endif
