#ifndef HVD_WORKER_PYTHON_CORE_GPU_H
#define HVD_WORKER_PYTHON_CORE_GPU_H

#include <horovod/horovod.h>
#include <stdbool.h>

#include "worker/python/core/cpython.h"
#include "worker/python/core/dlpack.h"

/* Where a tensor is. All zero: in host memory. */
struct hvd_py_place {
    bool is_gpu;
    int device;                       /* ordinal of the GPU */
    void *stream;                     /* on which the program has put its work on the tensor */
    hvd_dl_stream_fn *current_stream; /* of the tensor's library; NULL: see use_gpu */
};

/* use_gpu(raw, current): functions (device) of the framework that return the current stream, as an
 * integer and as an object. */
PyObject *hvd_py_gpu_use(PyObject *module, PyObject *args);

/* Sets the place of a tensor on a GPU, with the calling thread's current stream. current_stream may
 * be NULL: then the functions of use_gpu are called. false with an exception. Needs the GIL. */
bool hvd_py_gpu_set_place(struct hvd_py_place *place, int device, hvd_dl_stream_fn *ask);

/* Returns the current stream of the calling thread, on the GPU of the place, in *stream. false with
 * an exception. Needs the GIL. */
bool hvd_py_gpu_current_stream(const struct hvd_py_place *place, void **stream);

/* Copies the place to the description that the runtime gets. Does nothing for host memory. */
static inline void hvd_py_gpu_describe(const struct hvd_py_place *place, horovod_tensor_t *t)
{
    if (!place->is_gpu)
        return;
    t->memory = HOROVOD_MEMORY_CUDA;
    t->device = place->device;
    t->stream = place->stream;
}

/* Announces to the allocator of a tensor's library that the current stream of the place's GPU uses
 * the tensor: PyTorch then gives the memory to another tensor only behind that stream. Does nothing
 * for libraries without that function. Needs the GIL, and no exception may be set. */
void hvd_py_gpu_record_use(PyObject *tensor, const struct hvd_py_place *place);

#endif
