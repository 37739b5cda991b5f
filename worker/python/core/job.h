#ifndef HVD_WORKER_PYTHON_CORE_JOB_H
#define HVD_WORKER_PYTHON_CORE_JOB_H

#include "worker/python/core/cpython.h"

/* The functions of the module for start and end, identity, process sets and timelines. A NULL name
 * ends the list. */
extern PyMethodDef hvd_py_job_methods[];

#endif
