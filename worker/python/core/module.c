/*
 * The module horovod._core: the C API of the runtime for Python, without a framework. The layer
 * above, horovod.common.operations, gives its functions their convenient form.
 */
#include "worker/python/core/collectives.h"
#include "worker/python/core/gpu.h"
#include "worker/python/core/job.h"
#include "worker/python/core/output.h"
#include "worker/python/core/waiting.h"

/* The flag METH_FASTCALL defines its signature. */
#define FAST(module, name, text)                                                                   \
    {                                                                                              \
#name, (PyCFunction)(void (*)(void))hvd_py_##module##_##name, METH_FASTCALL, text          \
    }

/* Users see this text in the frameworks' modules. */
#define SYNCHRONIZE                                                                                \
    "synchronize(handle)\n--\n\n"                                                                  \
    "Waits until an asynchronous operation has ended, and returns its result.\n\n"                 \
    "That is a tensor; for grouped operations a tuple of tensors; for alltoall (output,\n"         \
    "received splits). Also takes what sparse_allreduce_async returned. A handle that was\n"       \
    "synchronized before gives None. Raises HorovodInternalError if the operation failed;\n"       \
    "the handle has ended then too. An interrupt leaves the handle as it is."

static PyMethodDef methods[] = {
    FAST(collectives, allreduce,
         "(input, output, name, op, prescale, postscale, set_id) -> output"),
    FAST(collectives, allreduce_async,
         "(input, output, name, op, prescale, postscale, set_id) -> handle"),
    FAST(collectives, grouped_allreduce_async,
         "(inputs, outputs, name, op, prescale, postscale, set_id) -> handle"),
    FAST(collectives, allgather_async, "(input, name, set_id) -> handle"),
    FAST(collectives, grouped_allgather_async, "(inputs, name, set_id) -> handle"),
    FAST(collectives, broadcast, "(input, output, root_rank, name, set_id) -> output"),
    FAST(collectives, broadcast_async, "(input, output, root_rank, name, set_id) -> handle"),
    FAST(collectives, alltoall_async, "(input, splits or None, name, set_id) -> handle"),
    FAST(collectives, reducescatter,
         "(input, output, name, op, prescale, postscale, set_id) -> output"),
    FAST(collectives, reducescatter_async,
         "(input, output, name, op, prescale, postscale, set_id) -> handle"),
    FAST(collectives, grouped_reducescatter_async,
         "(inputs, outputs, name, op, prescale, postscale, set_id) -> handle"),
    FAST(collectives, refuse,
         "(word, name, n of a group or 0, set_id, reason): announces a refused call to the others"),
    {"wait", hvd_py_waiting_wait, METH_O,
     "(handle) -> the output, or a list of those that were made"},
    {"synchronize", (PyCFunction)(void (*)(void))hvd_py_waiting_synchronize,
     METH_FASTCALL | METH_KEYWORDS, SYNCHRONIZE},
    FAST(waiting, attach, "(handle, result or a function that makes it) -> handle"),
    {"use_gpu", hvd_py_gpu_use, METH_VARARGS,
     "(raw, current): functions (device) of the framework that return its current stream, as an "
     "integer and as an object"},
    {"poll", hvd_py_waiting_poll, METH_O, "(handle) -> whether wait would return at once"},
    {"check_job", hvd_py_waiting_check_job, METH_NOARGS, "(): raises the failure of the job"},
    {"barrier", hvd_py_waiting_barrier, METH_O, "(set_id): waits for all ranks of the set"},
    {"join", hvd_py_waiting_join, METH_NOARGS, "() -> the rank that joined last"},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"AVERAGE", HOROVOD_AVERAGE}, {"SUM", HOROVOD_SUM}, {"ADASUM", HOROVOD_ADASUM},
        {"MIN", HOROVOD_MIN},         {"MAX", HOROVOD_MAX}, {"PRODUCT", HOROVOD_PRODUCT},
    };

    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) != 0)
            return -1;
    return 0;
}

/* Fills a new module. CPython calls it. */
PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    static PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "horovod._core",
        .m_doc = "Collectives over the ranks of a job.",
        .m_size = -1,
        .m_methods = methods,
    };
    PyObject *module = PyModule_Create(&definition);

    if (module && PyModule_AddFunctions(module, hvd_py_job_methods) == 0 &&
        hvd_py_output_add_type(module) == 0 && add_constants(module) == 0)
        return module;
    Py_XDECREF(module);
    return NULL;
}
