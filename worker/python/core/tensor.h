#ifndef HVD_WORKER_PYTHON_CORE_TENSOR_H
#define HVD_WORKER_PYTHON_CORE_TENSOR_H

#include <horovod/horovod.h>
#include <stdbool.h>

#include "worker/python/core/cpython.h"
#include "worker/python/core/dlpack.h"
#include "worker/python/core/gpu.h"

#define HVD_PY_NDIM_MAX 16

/* A Python object as the runtime needs it: dense memory of the host or of a GPU. */
struct hvd_py_tensor {
    PyObject *keeper; /* keeps the memory in place; the reader owns this reference */
    void *data;
    horovod_dtype_t dtype;
    int ndim;
    bool is_readonly;
    struct hvd_py_place place;
    int64_t shape[HVD_PY_NDIM_MAX];
};

/*
 * Reads any object with accessible memory: by the DLPack exchange table of its type, by data_ptr()
 * and related attributes (PyTorch before 2.10), by the buffer protocol, or by __dlpack__(). On
 * success the caller owns the reference out->keeper. Returns false with an exception. TypeError:
 * the object has no accessible memory. ValueError: the memory is neither of the host nor of a GPU
 * of NVIDIA's, or not dense, its library refuses access, or its type has no reduction. The message
 * begins with `what`. Only the first two ways read memory of a GPU; out->place has the current
 * stream of the calling thread then.
 */
bool hvd_py_tensor_read(PyObject *object, const char *what, struct hvd_py_tensor *out);

/* Returns the bytes of an element; 0 for an unknown type. */
size_t hvd_py_tensor_dtype_size(horovod_dtype_t dtype);

/* Converts the type to DLPack's. */
struct hvd_dl_dtype hvd_py_tensor_dtype_to_dlpack(horovod_dtype_t dtype);

/* Returns the type as a format of the struct module; "H" for bfloat16, which has no format. */
const char *hvd_py_tensor_dtype_format(horovod_dtype_t dtype);

#endif
