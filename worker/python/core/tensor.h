#ifndef HVD_WORKER_PYTHON_CORE_TENSOR_H
#define HVD_WORKER_PYTHON_CORE_TENSOR_H

#include <horovod/horovod.h>
#include <stdbool.h>

#include "worker/python/core/cpython.h"
#include "worker/python/core/dlpack.h"

#define HVD_PY_NDIM_MAX 16

/* An object of Python's as the runtime sees it: dense memory of the host. */
struct hvd_py_tensor {
    PyObject *keeper; /* keeps the memory where it is; a reference of whoever read it */
    void *data;
    horovod_dtype_t dtype;
    int ndim;
    bool is_readonly;
    int64_t shape[HVD_PY_NDIM_MAX];
};

/*
 * Reads any object that shows its memory: by the DLPack exchange table of its type, by data_ptr()
 * and the attributes beside it (PyTorch before 2.10), by the buffer protocol, or by __dlpack__().
 * On success out->keeper is the caller's reference. false with an exception: TypeError for an
 * object that has no memory to show, ValueError for memory that is elsewhere, not dense, not shown
 * by its library, or of a type without a reduction; the message begins with `what`.
 */
bool hvd_py_tensor_read(PyObject *object, const char *what, struct hvd_py_tensor *out);

/* Bytes of an element; 0 for an unknown type. */
size_t hvd_py_tensor_dtype_size(horovod_dtype_t dtype);

/* The type in DLPack's words. */
struct hvd_dl_dtype hvd_py_tensor_dtype_to_dlpack(horovod_dtype_t dtype);

/* The type as a format of the struct module; bfloat16, which has none, as "H". */
const char *hvd_py_tensor_dtype_format(horovod_dtype_t dtype);

#endif
