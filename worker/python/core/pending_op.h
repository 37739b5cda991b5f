#ifndef HVD_WORKER_PYTHON_CORE_PENDING_OP_H
#define HVD_WORKER_PYTHON_CORE_PENDING_OP_H

#include "worker/python/core/tensor.h"

/* The form of an output, as the submission knew it: all but the rows. */
struct hvd_py_form {
    horovod_dtype_t dtype;
    int ndim;
    int64_t shape[HVD_PY_NDIM_MAX];
};

/* A pending operation: a call of a collective whose result is not awaited yet, for a tensor or a
 * group. */
struct hvd_py_pending_op {
    int64_t number; /* the handle in Python; 0: free */
    struct hvd_py_pending_op *next_free;
    int n;       /* tensors */
    int n_ended; /* those whose handles were ended */
    bool is_waited;
    bool is_orphan;     /* an interrupt left it, and the program lacks its number; see waiting.c */
    bool makes_outputs; /* allgather, alltoall */
    bool makes_result;  /* a call of `result` makes it */
    void *stream;       /* on a GPU, while it is waited for: the stream that waits */
    struct hvd_py_place place; /* of the tensors; of a group: of the first one on a GPU */
    PyObject *result;          /* of the wait, a reference; NULL: None, or a list of outputs */
    horovod_handle_t one;      /* of a single tensor */
    horovod_handle_t *handles; /* n of them: &one, or owned */
    PyObject *kept[2];         /* of a single tensor: the objects that keep its memory */
    PyObject **keepers;        /* n_keepers references: kept, or owned */
    int n_keepers;
    struct hvd_py_form *forms;  /* n of them, owned; NULL: the caller provides the outputs */
    horovod_output_t **outputs; /* the same; the wait fills them */
    horovod_error_t error;      /* of the first tensor that failed; long, and rarely read */
};

/* Reserves memory for a pending operation of one tensor without outputs: then
 * hvd_py_pending_op_create_single cannot fail next. false with an exception. */
bool hvd_py_pending_op_reserve(void);

/* Creates a pending operation for one tensor whose output the caller provides. NULL with an
 * exception. */
struct hvd_py_pending_op *hvd_py_pending_op_create_single(void);

/* Creates a pending operation for n tensors. The caller fills in at most n_keepers references, and
 * counts them in n_keepers. NULL with an exception. */
struct hvd_py_pending_op *hvd_py_pending_op_create(int n, int n_keepers, bool makes_outputs);

/* Returns the pending operation of a number from Python; NULL with ValueError if there is none. */
struct hvd_py_pending_op *hvd_py_pending_op_find(PyObject *number);

/* Returns the pending operation of a number as above; NULL without an exception if there is none.
 */
struct hvd_py_pending_op *hvd_py_pending_op_look(PyObject *number);

/* Returns the pending operation at an index, from 0 on, of all that were ever created; those with
 * the number 0 are free. NULL behind the last one. */
struct hvd_py_pending_op *hvd_py_pending_op_at(int64_t index);

/* Frees the pending operation, its references, its result and the remaining outputs. Its handles
 * must have ended, or never existed. */
void hvd_py_pending_op_destroy(struct hvd_py_pending_op *op);

#endif
