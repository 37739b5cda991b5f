#ifndef HVD_WORKER_PYTHON_CORE_WAITING_H
#define HVD_WORKER_PYTHON_CORE_WAITING_H

#include "worker/python/core/pending_op.h"

/* wait(handle), poll(handle), barrier(set_id), join(): see module.c. They need the GIL and give it
 * away while they wait; NULL with an exception. */
PyObject *hvd_py_waiting_wait(PyObject *module, PyObject *handle);
/* See above. */
PyObject *hvd_py_waiting_poll(PyObject *module, PyObject *handle);
/* See above. */
PyObject *hvd_py_waiting_barrier(PyObject *module, PyObject *set_id);
/* See above. */
PyObject *hvd_py_waiting_join(PyObject *module, PyObject *unused);

/* synchronize(handle): wait(), but None for a handle that there is not, and what it returns for an
 * object that can be called. */
hvd_fastcall_keywords_fn hvd_py_waiting_synchronize;

/* attach(handle, result): what wait() is to return, or a function that makes it from what wait()
 * would have returned without the submission's output: None or a list of outputs. Returns handle.
 */
hvd_fastcall_fn hvd_py_waiting_attach;

/* Waits for a pending operation whose number nobody has, and gives the result of wait(). After an
 * interrupt it stays, with its references, until the job has ended. Needs the GIL. */
PyObject *hvd_py_waiting_end(struct hvd_py_pending_op *op);

/* The job has ended: what was interrupted so is given up, or all that nobody waits for. */
void hvd_py_waiting_forget(bool with_numbers);

/* The job has ended: a join that was interrupted is not taken up again. */
void hvd_py_waiting_forget_join(void);

#endif
