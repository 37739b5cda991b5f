/*
 * The output of an allgather or alltoall. The runtime owns the memory. Any array library can access
 * it by DLPack and the buffer protocol without a copy. The last one to release it frees it.
 *
 * Memory of a GPU is freed in the order of the stream that has waited for the operation, so a
 * program that uses it on this stream may drop it at once. An allocation by PyTorch would need a
 * stream too, and the interpreter or the stream of a thread of the runtime, neither of which fits.
 */
#include "worker/python/core/output.h"

#include <string.h>

struct output {
    PyObject_HEAD;
    horovod_output_t *output;
    void *data;
    int device; /* ordinal of a GPU, or -1: host memory */
    horovod_dtype_t dtype;
    int ndim;
    Py_ssize_t shape[HVD_PY_NDIM_MAX];
    Py_ssize_t strides[HVD_PY_NDIM_MAX]; /* bytes */
};

/* A description of an output in a capsule, until its consumer deletes it. */
struct shown {
    struct hvd_dl_managed managed;
    int64_t shape[HVD_PY_NDIM_MAX];
    int64_t strides[HVD_PY_NDIM_MAX]; /* elements */
};

static PyTypeObject *output_type;
static char nothing[64] __attribute__((aligned(64))); /* the data of an output without elements */

/* Removes const, because Python's and DLPack's structures lack it. */
static void *writable(const void *memory)
{
    const union {
        const void *in;
        void *out;
    } as = {.in = memory};

    return as.out;
}

PyObject *hvd_py_output_create(horovod_output_t *output, const struct hvd_py_form *form)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(output_type, Py_tp_alloc);
    struct output *self = (struct output *)alloc(output_type, 0);

    if (!self) {
        horovod_output_release(output);
        return NULL;
    }
    const void *data = horovod_output_data(output);
    self->output = output;
    self->device = horovod_output_device(output);
    self->data = data || self->device >= 0 ? writable(data) : nothing;
    self->dtype = form->dtype;
    self->ndim = form->ndim;
    Py_ssize_t stride = (Py_ssize_t)hvd_py_tensor_dtype_size(form->dtype);
    for (int i = form->ndim; i-- > 0;) {
        self->shape[i] = i > 0 ? form->shape[i] : horovod_output_rows(output);
        self->strides[i] = stride;
        stride *= self->shape[i] > 0 ? self->shape[i] : 1;
    }
    return (PyObject *)self;
}

static void destroy(PyObject *object)
{
    struct output *self = (struct output *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    horovod_output_release(self->output);
    release(object);
    Py_DECREF(type);
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct output *self = (struct output *)object;

    view->obj = NULL;
    if (self->device >= 0) {
        PyErr_Format(PyExc_BufferError, "the output is in the memory of GPU %d", self->device);
        return -1;
    }
    *view = (Py_buffer){
        .buf = self->data,
        .len = (Py_ssize_t)horovod_output_bytes(self->output),
        .itemsize = (Py_ssize_t)hvd_py_tensor_dtype_size(self->dtype),
        .ndim = (flags & PyBUF_ND) ? self->ndim : 1,
        .shape = (flags & PyBUF_ND) ? self->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL,
    };
    if (flags & PyBUF_FORMAT)
        view->format = writable(hvd_py_tensor_dtype_format(self->dtype));
    Py_INCREF(object);
    view->obj = object;
    return 0;
}

/* The deleter for consumers. Any thread. */
static void delete_shown(struct hvd_dl_managed *managed)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF((PyObject *)managed->context);
        PyMem_Free(managed);
        PyGILState_Release(state);
    }
}

/* Deletes a capsule without a consumer. */
static void delete_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_shown(PyCapsule_GetPointer(capsule, "dltensor"));
}

static struct hvd_dl_device device_of(const struct output *self)
{
    if (self->device < 0)
        return (struct hvd_dl_device){.type = HVD_DL_CPU};
    return (struct hvd_dl_device){.type = HVD_DL_CUDA, .id = self->device};
}

static void describe(struct output *self, struct shown *shown)
{
    const int64_t width = (int64_t)hvd_py_tensor_dtype_size(self->dtype);

    for (int i = 0; i < self->ndim; i++) {
        shown->shape[i] = self->shape[i];
        shown->strides[i] = self->strides[i] / width;
    }
    shown->managed = (struct hvd_dl_managed){
        .tensor = {.data = self->data,
                   .device = device_of(self),
                   .ndim = self->ndim,
                   .dtype = hvd_py_tensor_dtype_to_dlpack(self->dtype),
                   .shape = shown->shape,
                   .strides = shown->strides},
        .context = self,
        .deleter = delete_shown,
    };
}

/* Ignores the stream and the other arguments, which concern devices, copies and versions: the
 * memory where it is, in the first version, is always a valid answer. On a GPU it is ready on the
 * stream that has waited for the operation. */
static PyObject *to_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct shown *shown = PyMem_Calloc(1, sizeof(*shown));

    (void)args;
    (void)kwargs;
    if (!shown)
        return PyErr_NoMemory();
    describe((struct output *)object, shown);
    PyObject *capsule = PyCapsule_New(shown, "dltensor", delete_capsule);
    if (!capsule) {
        PyMem_Free(shown);
        return NULL;
    }
    Py_INCREF(object);
    return capsule;
}

static PyObject *to_dlpack_device(PyObject *object, PyObject *unused)
{
    const struct hvd_dl_device device = device_of((struct output *)object);

    (void)unused;
    return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

static PyObject *rows_of(PyObject *object, PyObject *rank)
{
    const long wanted = PyLong_AsLong(rank);

    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    const int64_t rows =
        wanted < 0 || wanted > INT32_MAX
            ? -1
            : horovod_output_rows_of(((struct output *)object)->output, (int)wanted);
    if (rows < 0)
        return PyErr_Format(PyExc_IndexError, "there is no rank %ld", wanted);
    return PyLong_FromLongLong(rows);
}

static PyObject *get_rows(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(horovod_output_rows(((struct output *)object)->output));
}

static PyObject *get_shape(PyObject *object, void *unused)
{
    struct output *self = (struct output *)object;
    PyObject *shape = PyTuple_New(self->ndim);

    (void)unused;
    for (int i = 0; shape && i < self->ndim; i++) {
        PyObject *size = PyLong_FromSsize_t(self->shape[i]);
        if (!size || PyTuple_SetItem(shape, i, size) != 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The output as a capsule of DLPack."},
    {"__dlpack_device__", to_dlpack_device, METH_NOARGS,
     "The device of DLPack: host memory, or a GPU."},
    {"rows_of", rows_of, METH_O, "How many rows came from a rank."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"rows", get_rows, NULL, "The size of the first dimension.", NULL},
    {"shape", get_shape, NULL, "The sizes of all dimensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* Rejects the creation from Python: such an object would have no memory. */
static PyObject *refuse(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "cannot create '%R' instances", (PyObject *)type);
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "What the ranks sent: memory of the runtime's, without a copy."},
    {Py_tp_new, refuse},
    {Py_tp_dealloc, destroy},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, get_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "horovod._core.Output",
    .basicsize = sizeof(struct output),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int hvd_py_output_add_type(PyObject *module)
{
    output_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!output_type)
        return -1;
    Py_INCREF(output_type);
    if (PyModule_AddObject(module, "Output", (PyObject *)output_type) == 0)
        return 0;
    Py_DECREF(output_type);
    return -1;
}
