#ifndef HVD_WORKER_PYTHON_CORE_ERRORS_H
#define HVD_WORKER_PYTHON_CORE_ERRORS_H

#include <horovod/horovod.h>

#include "worker/python/core/cpython.h"

#define HVD_PY_NOT_INITIALIZED "Horovod has not been initialized; use hvd.init()."

/* Raises what a submission failed with: ValueError for what was wrong with the call or before
 * init(), MemoryError, HorovodInternalError. Returns NULL. */
PyObject *hvd_py_errors_raise_refused(const horovod_error_t *err);

/* Gives the exception that is raised the attribute is_told: nobody is to tell the other ranks of
 * it.
 */
void hvd_py_errors_mark_reported(void);

/* Raises what a collective ended with: HorovodInternalError with the number of the status as
 * .status. Returns NULL. */
PyObject *hvd_py_errors_raise_failed(const horovod_error_t *err);

/* Raises ValueError for a call before init(). Returns NULL. */
PyObject *hvd_py_errors_raise_not_initialized(void);

#endif
