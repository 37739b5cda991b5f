#ifndef HVD_WORKER_PYTHON_CORE_PENDING_OP_H
#define HVD_WORKER_PYTHON_CORE_PENDING_OP_H

#include "worker/python/core/tensor.h"

/* What an output is made of, as the submission knew it: all but the rows. */
struct hvd_py_form {
    horovod_dtype_t dtype;
    int ndim;
    int64_t shape[HVD_PY_NDIM_MAX];
};

/* One call of a collective that is not waited for yet: a tensor, or a group of them. */
struct hvd_py_pending_op {
    int64_t number; /* what Python holds; 0: free */
    struct hvd_py_pending_op *next_free;
    int n;       /* tensors */
    int n_ended; /* those whose handles were ended */
    bool is_waited;
    bool is_orphan;            /* nobody has its number: an interrupt left it, see waiting.c */
    bool makes_outputs;        /* allgather, alltoall */
    bool makes_result;         /* result is called to make it */
    PyObject *result;          /* of the wait, a reference; NULL: None, or a list of outputs */
    horovod_handle_t one;      /* of a single tensor */
    horovod_handle_t *handles; /* n of them: &one, or owned */
    PyObject *kept[2];         /* of a single tensor: what keeps its memory */
    PyObject **keepers;        /* n_keepers references: kept, or owned */
    int n_keepers;
    struct hvd_py_form *forms; /* n of them where the library makes the outputs, owned; else NULL */
    horovod_output_t **outputs; /* the same, filled by the wait */
    horovod_error_t error;      /* of the first of them that failed; long, and hardly ever read */
};

/* Makes room for a pending operation of one tensor without outputs: the next one is created without
 * fail. false with an exception. */
bool hvd_py_pending_op_reserve(void);

/* A new pending operation for one tensor, whose output is not the library's to make. NULL with an
 * exception.
 */
struct hvd_py_pending_op *hvd_py_pending_op_create_single(void);

/* A new pending operation for n tensors with at most n_keepers references, which the caller fills
 * in (n_keepers counts them). NULL with an exception. */
struct hvd_py_pending_op *hvd_py_pending_op_create(int n, int n_keepers, bool makes_outputs);

/* The pending operation of a number that Python gave; NULL with ValueError when there is none. */
struct hvd_py_pending_op *hvd_py_pending_op_find(PyObject *number);

/* The pending operation of a number as above; NULL without an exception where there is none. */
struct hvd_py_pending_op *hvd_py_pending_op_look(PyObject *number);

/* All pending operations that were ever made, by an index from 0 on; those with the number 0 are
 * free. NULL behind the last one. */
struct hvd_py_pending_op *hvd_py_pending_op_at(int64_t index);

/* Frees the pending operation, its references, its result and the outputs that are left; its
 * handles have been ended, or never given. */
void hvd_py_pending_op_destroy(struct hvd_py_pending_op *op);

#endif
