/*
 * The module profiler for witness.py: calls a function when a thread enters one of some functions.
 *
 * sys.setprofile() calls Python code at each call and return of all that a thread runs, which takes
 * half as long again as a check that builds graphs. Here a thread looks an address up instead, and
 * runs Python only for the functions that are watched. The interpreter's lock guards the table.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

enum { N_SLOTS = 1 << 13 }; /* a power of two, of which at most a quarter is taken */

/* Addresses of what is watched, open addressing; and what is called with (frame, event, function).
 */
static const void *slots[N_SLOTS];
static PyObject *callback;

static size_t slot_of(const void *address)
{
    size_t slot = (size_t)(((uint64_t)(uintptr_t)address * UINT64_C(0x9E3779B97F4A7C15)) >> 51);
    while (slots[slot] != NULL && slots[slot] != address) {
        slot = (slot + 1) % N_SLOTS;
    }
    return slot;
}

static bool is_watched(const void *address)
{
    return slots[slot_of(address)] != NULL;
}

/* Called by the interpreter at each event; -1 raises the exception that is set. */
static int look(PyObject *profiler, PyFrameObject *frame, int event, PyObject *function)
{
    (void)profiler;
    bool is_found = false;
    if (event == PyTrace_CALL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        is_found = is_watched(code);
        Py_DECREF(code);
    } else if (event == PyTrace_C_CALL) {
        is_found = is_watched(function);
    }
    if (!is_found) {
        return 0;
    }
    PyObject *done = PyObject_CallFunction(callback, "OsO", (PyObject *)frame,
                                           event == PyTrace_CALL ? "call" : "c_call",
                                           event == PyTrace_CALL ? Py_None : function);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* watch(addresses, callback): replaces what is watched. */
static PyObject *watch(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *addresses = NULL;
    PyObject *function = NULL;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &addresses, &function)) {
        return NULL;
    }
    Py_ssize_t n_addresses = PyTuple_GET_SIZE(addresses);
    if (n_addresses > N_SLOTS / 4) {
        return PyErr_Format(PyExc_ValueError, "%zd functions are more than the %d that fit",
                            n_addresses, N_SLOTS / 4);
    }
    memset(slots, 0, sizeof slots);
    for (Py_ssize_t i = 0; i < n_addresses; i++) {
        const void *address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, i));
        if (address == NULL) {
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "0 is no address");
        }
        slots[slot_of(address)] = address;
    }
    Py_INCREF(function);
    Py_XSETREF(callback, function);
    Py_RETURN_NONE;
}

/* begin(...): the thread that calls it looks at what it enters, until end(). This function is what
 * sys.getprofile() returns then. Where sys.setprofile() or threading.setprofile() sets it, the
 * first event calls it. */
static PyObject *begin(PyObject *module, PyObject *arguments)
{
    (void)arguments;
    PyObject *itself = PyObject_GetAttrString(module, "begin");
    if (itself == NULL) {
        return NULL;
    }
    PyEval_SetProfile(look, itself);
    Py_DECREF(itself);
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"watch", watch, METH_VARARGS, "(addresses, callback)"},
    {"begin", begin, METH_VARARGS, "(...) in the thread that calls it"},
    {"end", end, METH_NOARGS, "() in the thread that calls it"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "profiler", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_profiler(void);

PyMODINIT_FUNC PyInit_profiler(void)
{
    return PyModule_Create(&definition);
}
