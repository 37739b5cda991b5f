/*
 * The runtime's errors as exceptions. The class of those that end a step of training,
 * HorovodInternalError, is Python's own and imported when the first one is raised.
 */
#include "worker/python/core/errors.h"

PyObject *hvd_py_raise_not_initialized(void)
{
    PyErr_SetString(PyExc_ValueError, HVD_PY_NOT_INITIALIZED);
    return NULL;
}

PyObject *hvd_py_raise_failed(const horovod_error_t *err)
{
    PyObject *module = PyImport_ImportModule("horovod.common.exceptions");
    PyObject *class = module ? PyObject_GetAttrString(module, "HorovodInternalError") : NULL;
    PyObject *error = class ? PyObject_CallFunction(class, "s", err->message) : NULL;
    PyObject *status = error ? PyLong_FromLong((long)err->status) : NULL;

    if (status && PyObject_SetAttrString(error, "status", status) == 0)
        PyErr_SetObject(class, error);
    Py_XDECREF(status);
    Py_XDECREF(error);
    Py_XDECREF(class);
    Py_XDECREF(module);
    return NULL;
}

/* ValueError with the attribute is_told: the library has told the other ranks. */
static PyObject *raise_told(const horovod_error_t *err)
{
    PyObject *error = PyObject_CallFunction(PyExc_ValueError, "s", err->message);

    if (error && PyObject_SetAttrString(error, "is_told", Py_True) == 0)
        PyErr_SetObject(PyExc_ValueError, error);
    Py_XDECREF(error);
    return NULL;
}

PyObject *hvd_py_raise_refused(const horovod_error_t *err)
{
    switch (err->status) {
    case HOROVOD_PRECONDITION_ERROR:
        if (!horovod_is_initialized() && horovod_rank() < 0)
            return hvd_py_raise_not_initialized();
        break;
    case HOROVOD_INVALID_ARGUMENT:
        return raise_told(err);
    case HOROVOD_OUT_OF_MEMORY:
        return PyErr_NoMemory();
    default:
        break;
    }
    return hvd_py_raise_failed(err);
}
