#ifndef HVD_WORKER_PYTHON_CORE_ERRORS_H
#define HVD_WORKER_PYTHON_CORE_ERRORS_H

#include <horovod/horovod.h>

#include "worker/python/core/cpython.h"

#define HVD_PY_NOT_INITIALIZED "Horovod has not been initialized; use hvd.init()."

/* Raises the failure of a submission: ValueError for a wrong call and for one before init(),
 * MemoryError, HorovodInternalError. Returns NULL. */
PyObject *hvd_py_errors_raise_refused(const horovod_error_t *err);

/* Sets the attribute is_told of the raised exception: the other ranks have the failure, and need no
 * announcement. */
void hvd_py_errors_mark_reported(void);

/* Raises the failure of a collective: ValueError for a wrong call, else HorovodInternalError with
 * the number of the status as .status. Returns NULL. */
PyObject *hvd_py_errors_raise_failed(const horovod_error_t *err);

/* Raises ValueError for a call before init(). Returns NULL. */
PyObject *hvd_py_errors_raise_not_initialized(void);

#endif
