#ifndef HVD_WORKER_PYTHON_CORE_OUTPUT_H
#define HVD_WORKER_PYTHON_CORE_OUTPUT_H

#include "worker/python/core/pending_op.h"

/* Adds the type Output to the module; -1 with an exception. */
int hvd_py_output_add_type(PyObject *module);

/* Creates an Output object. It owns the runtime's output from now on, also on failure (NULL with an
 * exception). Copies form. */
PyObject *hvd_py_output_create(horovod_output_t *output, const struct hvd_py_form *form);

#endif
