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

/* What Python asks for; objects are borrowed. */
struct hvd_py_submission {
    enum hvd_py_collective what;
    PyObject *input;       /* of a group: a sequence */
    PyObject *output;      /* the same; NULL: the library makes it */
    PyObject *name;        /* a str or None */
    PyObject *const *args; /* the arguments besides the tensors, the name among them */
    int n_args;
    bool is_cached;          /* what was said is in tensor, the name too */
    horovod_tensor_t tensor; /* reduction, factors, root, set, splits */
};

#define HVD_PY_NAME_MAX 1023

/* Horovod's word for the collective, "allreduce". */
const char *hvd_py_submission_word(enum hvd_py_collective what);

/* Whether the library makes the output. */
bool hvd_py_submission_makes_output(enum hvd_py_collective what);

/* Reads what is to be sent and where the result goes into in and out, each with a keeper that is
 * the caller's (out->keeper is NULL where there is no other object). false with an exception, and
 * nothing kept. */
bool hvd_py_submission_read_tensors(const struct hvd_py_submission *s, struct hvd_py_tensor *in,
                                    struct hvd_py_tensor *out);

/* The name of what is submitted, which is not None; NULL with an exception. */
const char *hvd_py_submission_read_name(const struct hvd_py_submission *s, Py_ssize_t *n);

/* What the library needs to know about the output that it makes. */
void hvd_py_submission_set_form(struct hvd_py_form *form, const struct hvd_py_tensor *in);

/* Submits one tensor: a number, NULL with an exception. */
PyObject *hvd_py_submission_submit(const struct hvd_py_submission *s);

/* Submits one tensor as hvd_py_submission_submit and waits for it: the output, or NULL with an
 * exception. Not for collectives that make it. */
PyObject *hvd_py_submission_perform(const struct hvd_py_submission *s);

/* Submits a group of tensors that complete together, as one number. */
PyObject *hvd_py_group_submit(const struct hvd_py_submission *s);

/* Tells the other ranks that this one refuses the call, and why: they would wait for it. Only what,
 * name and process set are looked at. Never fails: what nobody can be told of is left out. */
void hvd_py_submission_announce_refused(const struct hvd_py_submission *s, const char *reason);

/* The same for a group of n > 0 tensors, or HOROVOD_EMPTY_GROUP. */
void hvd_py_group_announce_refused(const struct hvd_py_submission *s, int n, const char *reason);

#endif
