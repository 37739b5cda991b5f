#ifndef HVD_WORKER_PYTHON_CORE_COLLECTIVES_H
#define HVD_WORKER_PYTHON_CORE_COLLECTIVES_H

#include "worker/python/core/tensor.h"

/* The functions of the module that submit tensors; see module.c. All need the GIL. They return a
 * number for hvd_py_waiting_wait, or NULL with an exception, and keep the tensors until the wait.
 */
hvd_fastcall_fn hvd_py_collectives_allreduce_async;
hvd_fastcall_fn hvd_py_collectives_allgather_async;
hvd_fastcall_fn hvd_py_collectives_broadcast_async;
hvd_fastcall_fn hvd_py_collectives_alltoall_async;
hvd_fastcall_fn hvd_py_collectives_reducescatter_async;
hvd_fastcall_fn hvd_py_collectives_grouped_allreduce_async;
hvd_fastcall_fn hvd_py_collectives_grouped_allgather_async;
hvd_fastcall_fn hvd_py_collectives_grouped_reducescatter_async;

/* The same with a wait: return the output, or NULL with an exception. */
hvd_fastcall_fn hvd_py_collectives_allreduce;
hvd_fastcall_fn hvd_py_collectives_broadcast;
hvd_fastcall_fn hvd_py_collectives_reducescatter;

/* Announces a call that Python refuses to the other ranks; returns None. */
hvd_fastcall_fn hvd_py_collectives_refuse;

/* Reads the number of a process set. Returns false with an exception: ValueError for None, the
 * number of a set that is not registered. */
bool hvd_py_collectives_read_set(PyObject *number, int *out);

#endif
