/*
 * Tensors on GPUs: streams, and what only functions of the framework can do, which its package
 * passes on. The extension calls no function of CUDA. The program's threads have current streams,
 * and a tensor of a GPU is ready behind the work that the current stream has when it is submitted.
 *
 * The caller holds the GIL, which guards the functions.
 */
#include "worker/python/core/gpu.h"

static PyObject *raw_stream;     /* (device) -> the current stream as an integer; a reference */
static PyObject *current_stream; /* (device) -> the same as an object; a reference */

PyObject *hvd_py_gpu_use(PyObject *module, PyObject *args)
{
    PyObject *raw = NULL;
    PyObject *current = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &raw, &current))
        return NULL;
    Py_INCREF(raw);
    Py_INCREF(current);
    Py_XDECREF(raw_stream);
    Py_XDECREF(current_stream);
    raw_stream = raw;
    current_stream = current;
    Py_RETURN_NONE;
}

static bool ask_framework(int device, void **stream)
{
    PyObject *number = raw_stream ? PyObject_CallFunction(raw_stream, "i", device) : NULL;

    if (!raw_stream)
        PyErr_SetString(PyExc_ValueError, "the streams of this tensor's GPU are unknown");
    if (!number)
        return false;
    *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return !PyErr_Occurred();
}

bool hvd_py_gpu_current_stream(const struct hvd_py_place *place, void **stream)
{
    if (!place->current_stream)
        return ask_framework(place->device, stream);
    if (place->current_stream(HVD_DL_CUDA, place->device, stream) == 0)
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "the current stream of GPU %d is unknown", place->device);
    return false;
}

bool hvd_py_gpu_set_place(struct hvd_py_place *place, int device, hvd_dl_stream_fn *ask)
{
    place->is_gpu = true;
    place->device = device;
    place->current_stream = ask;
    return hvd_py_gpu_current_stream(place, &place->stream);
}

void hvd_py_gpu_record_use(PyObject *tensor, const struct hvd_py_place *place)
{
    PyObject *record = PyObject_GetAttrString(tensor, "record_stream");
    PyObject *stream =
        record && current_stream ? PyObject_CallFunction(current_stream, "i", place->device) : NULL;
    PyObject *done = stream ? PyObject_CallFunctionObjArgs(record, stream, NULL) : NULL;

    Py_XDECREF(done);
    Py_XDECREF(stream);
    Py_XDECREF(record);
    PyErr_Clear();
}
