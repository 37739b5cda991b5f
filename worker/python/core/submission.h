#ifndef HVD_WORKER_PYTHON_CORE_SUBMISSION_H
#define HVD_WORKER_PYTHON_CORE_SUBMISSION_H

#include "worker/python/core/pending_op.h"

enum hvd_py_collective {
    HVD_PY_ALLREDUCE,
    HVD_PY_ALLGATHER,
    HVD_PY_BROADCAST,
    HVD_PY_ALLTOALL,
    HVD_PY_REDUCESCATTER,
};

/* A call from Python; objects are borrowed. */
struct hvd_py_submission {
    enum hvd_py_collective what;
    PyObject *input;       /* of a group: a sequence */
    PyObject *output;      /* the same; NULL: the library allocates it */
    PyObject *name;        /* a str or None */
    PyObject *const *args; /* the arguments besides the tensors, the name among them */
    int n_args;
    bool is_cached;          /* tensor holds the cached arguments, the name too */
    horovod_tensor_t tensor; /* reduction, factors, root, set, splits */
};

#define HVD_PY_NAME_MAX 1023

/* Returns Horovod's word for the collective, such as "allreduce". */
const char *hvd_py_submission_word(enum hvd_py_collective what);

/* Returns whether the library allocates the output. */
bool hvd_py_submission_makes_output(enum hvd_py_collective what);

/* Reads the input to *in and the output to *out. The caller owns the keeper of each (out->keeper is
 * NULL if there is no other object). Returns false with an exception, and keeps nothing then. */
bool hvd_py_submission_read_tensors(const struct hvd_py_submission *s, struct hvd_py_tensor *in,
                                    struct hvd_py_tensor *out);

/* Returns the name of the submission, which must not be None; NULL with an exception. */
const char *hvd_py_submission_read_name(const struct hvd_py_submission *s, Py_ssize_t *n);

/* Fills in the form of an output that the library allocates. */
void hvd_py_submission_set_form(struct hvd_py_form *form, const struct hvd_py_tensor *in);

/* Submits one tensor. Returns its number, or NULL with an exception. */
PyObject *hvd_py_submission_submit(const struct hvd_py_submission *s);

/* Submits one tensor as hvd_py_submission_submit and waits for it. Returns the output, or NULL with
 * an exception. Not for collectives whose output the library allocates. */
PyObject *hvd_py_submission_perform(const struct hvd_py_submission *s);

/* Submits a group of tensors that complete together. Returns one number for all, or NULL with an
 * exception. */
PyObject *hvd_py_group_submit(const struct hvd_py_submission *s);

/* Announces to the other ranks that this one refuses the call, with the reason: otherwise they
 * would wait for it. Reads only the collective, name and process set. Never fails: skips calls that
 * it cannot announce. */
void hvd_py_submission_announce_refused(const struct hvd_py_submission *s, const char *reason);

/* hvd_py_submission_announce_refused() for a group of n > 0 tensors, or HOROVOD_EMPTY_GROUP. */
void hvd_py_group_announce_refused(const struct hvd_py_submission *s, int n, const char *reason);

#endif
