#ifndef HVD_WORKER_PYTHON_CORE_WAITING_H
#define HVD_WORKER_PYTHON_CORE_WAITING_H

#include "worker/python/core/pending_op.h"

/* wait(handle), poll(handle), barrier(set_id), join(), check_job(): see module.c. They need the GIL
 * and release it while they wait; NULL with an exception. */
PyObject *hvd_py_waiting_wait(PyObject *module, PyObject *handle);
/* See above. */
PyObject *hvd_py_waiting_poll(PyObject *module, PyObject *handle);
PyObject *hvd_py_waiting_check_job(PyObject *module, PyObject *unused);
/* See above. */
PyObject *hvd_py_waiting_barrier(PyObject *module, PyObject *set_id);
/* See above. */
PyObject *hvd_py_waiting_join(PyObject *module, PyObject *unused);

/* synchronize(handle): wait(), but None for a handle that does not exist. If handle is callable,
 * returns the result of its call. */
hvd_fastcall_keywords_fn hvd_py_waiting_synchronize;

/* attach(handle, result): sets the result of wait(), or a function that makes it. The function
 * receives the result that wait() would have without the submission's output: None or a list of
 * outputs. Returns handle. */
hvd_fastcall_fn hvd_py_waiting_attach;

/* Waits for a pending operation whose number the program does not have; returns the result of
 * wait(). After an interrupt the operation keeps its references until the job has ended. Needs the
 * GIL. */
PyObject *hvd_py_waiting_end(struct hvd_py_pending_op *op);

/* After the end of the job, destroys the pending operations that such an interrupt left;
 * with_numbers: all that no thread waits for. */
void hvd_py_waiting_forget(bool with_numbers);

/* After the end of the job, drops a join that was interrupted. */
void hvd_py_waiting_forget_join(void);

#endif
