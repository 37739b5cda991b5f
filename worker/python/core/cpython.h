#ifndef HVD_WORKER_PYTHON_CORE_CPYTHON_H
#define HVD_WORKER_PYTHON_CORE_CPYTHON_H

/*
 * Python's stable ABI as of 3.9, and the few other declarations that the extension needs. They
 * exist with this layout in every CPython since 3.8, but joined the stable ABI later: METH_FASTCALL
 * and PyUnicode_AsUTF8AndSize in 3.10, the buffer protocol in 3.11.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

/* A function of METH_FASTCALL: positional arguments, borrowed. */
typedef PyObject *hvd_fastcall_fn(PyObject *module, PyObject *const *args, Py_ssize_t n_args);

/* The same with METH_KEYWORDS: names is a tuple of those of the last arguments, or NULL. */
typedef PyObject *hvd_fastcall_keywords_fn(PyObject *module, PyObject *const *args,
                                           Py_ssize_t n_args, PyObject *names);

/* Returns the UTF-8 of a str, which keeps the ownership; NULL with an exception. */
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *unicode, Py_ssize_t *size);

#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1
#endif

#ifndef PyBUF_ND
typedef struct bufferinfo {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_RECORDS_RO (PyBUF_STRIDES | PyBUF_FORMAT)

/* Returns 1 if the object supports the buffer protocol, else 0. */
PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
/* Fills view with the object's memory; -1 with an exception. */
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
/* Releases the memory. */
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
#endif

#endif
