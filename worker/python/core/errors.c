/*
 * Raises the runtime's errors as exceptions. HorovodInternalError, which ends a step of training,
 * is defined in Python. The first error imports it.
 */
#include "worker/python/core/errors.h"

#include <string.h>

PyObject *hvd_py_errors_raise_not_initialized(void)
{
    PyErr_SetString(PyExc_ValueError, HVD_PY_NOT_INITIALIZED);
    return NULL;
}

/* Returns the message, whose end may cut a character in two; NULL with an exception. */
static PyObject *text_of(const horovod_error_t *err)
{
    return PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message), "replace");
}

static void raise_text(PyObject *class, const horovod_error_t *err)
{
    PyObject *text = text_of(err);

    if (text)
        PyErr_SetObject(class, text);
    Py_XDECREF(text);
}

PyObject *hvd_py_errors_raise_failed(const horovod_error_t *err)
{
    if (err->status == HOROVOD_INVALID_ARGUMENT) { /* a wrong call, which ends no job */
        raise_text(PyExc_ValueError, err);
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("horovod.common.exceptions");
    PyObject *class = module ? PyObject_GetAttrString(module, "HorovodInternalError") : NULL;
    PyObject *text = class ? text_of(err) : NULL;
    PyObject *error = text ? PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;
    PyObject *status = error ? PyLong_FromLong((long)err->status) : NULL;

    if (status && PyObject_SetAttrString(error, "status", status) == 0)
        PyErr_SetObject(class, error);
    Py_XDECREF(status);
    Py_XDECREF(error);
    Py_XDECREF(text);
    Py_XDECREF(class);
    Py_XDECREF(module);
    return NULL;
}

void hvd_py_errors_mark_reported(void)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *traceback = NULL;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && PyObject_SetAttrString(value, "is_told", Py_True) != 0)
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

PyObject *hvd_py_errors_raise_refused(const horovod_error_t *err)
{
    switch (err->status) {
    case HOROVOD_PRECONDITION_ERROR:
        if (!horovod_is_initialized() && horovod_rank() < 0)
            return hvd_py_errors_raise_not_initialized();
        break;
    case HOROVOD_INVALID_ARGUMENT:
        raise_text(PyExc_ValueError, err);
        hvd_py_errors_mark_reported();
        return NULL;
    case HOROVOD_OUT_OF_MEMORY:
        PyErr_NoMemory();
        hvd_py_errors_mark_reported();
        return NULL;
    default:
        break;
    }
    return hvd_py_errors_raise_failed(err);
}
