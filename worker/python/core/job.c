/*
 * Start and end of the job, identity, process sets, timelines: the C API as it is, with exceptions
 * instead of -1. Functions that wait for other ranks release the GIL.
 */
#include "worker/python/core/job.h"

#include <limits.h>
#include <stdlib.h>

#include "base/rank_state.h"

#include "worker/python/core/errors.h"
#include "worker/python/core/waiting.h"

#define INIT_FAILED                                                                                \
    "Horovod initialization failed. Please check log messages above for a more descriptive error."

/* Numbers read from a sequence of Python's; ints is owned. */
struct numbers {
    int *ints;
    int n;
};

static bool add_number(struct numbers *to, PyObject *number)
{
    const long value = number ? PyLong_AsLong(number) : -1;

    if (value == -1 && PyErr_Occurred())
        return false;
    if (value < INT_MIN || value > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "there is no rank %ld", value);
        return false;
    }
    to->ints[to->n++] = (int)value;
    return true;
}

/* Appends a sequence of ints; false with an exception. */
static bool add_numbers(struct numbers *to, PyObject *sequence)
{
    const Py_ssize_t n = PySequence_Size(sequence);

    if (n < 0)
        return false;
    if (n > INT_MAX / 2 - to->n) {
        PyErr_SetString(PyExc_ValueError, "too many ranks");
        return false;
    }
    int *ints = PyMem_Realloc(to->ints, (size_t)(to->n + n + 1) * sizeof(*ints));
    if (!ints) {
        PyErr_NoMemory();
        return false;
    }
    to->ints = ints;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *number = PySequence_GetItem(sequence, i);
        const bool is_added = add_number(to, number);
        Py_XDECREF(number);
        if (!is_added)
            return false;
    }
    return true;
}

/* Reads a list of lists of ranks: stores the ranks one behind the other, and the size of each list.
 */
static bool read_sets(PyObject *lists, struct numbers *ranks, struct numbers *sizes)
{
    const Py_ssize_t n = PySequence_Size(lists);

    sizes->ints = n >= 0 ? PyMem_Calloc((size_t)n + 1, sizeof(*sizes->ints)) : NULL;
    if (!sizes->ints)
        return n >= 0 && PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *list = PySequence_GetItem(lists, i);
        const int before = ranks->n;
        const bool is_added = list && add_numbers(ranks, list);
        Py_XDECREF(list);
        if (!is_added)
            return false;
        sizes->ints[sizes->n++] = ranks->n - before;
    }
    return true;
}

/* Returns None, or raises ValueError with the runtime's reason behind Horovod's sentence. */
static PyObject *begun(bool is_fine)
{
    horovod_error_t err = {.message = ""};

    if (is_fine)
        Py_RETURN_NONE;
    horovod_init_error(&err);
    return PyErr_Format(PyExc_ValueError, INIT_FAILED " %s", err.message);
}

/* Before a job begins, drops the handles of the last one that no thread waits for. */
static void forget_last_job(void)
{
    if (!horovod_is_initialized())
        hvd_py_waiting_forget(true);
}

/* init(ranks or None, process_sets) */
static PyObject *init(PyObject *module, PyObject *args)
{
    PyObject *ranks = NULL;
    PyObject *sets = NULL;
    struct numbers job = {0};
    struct numbers members = {0};
    struct numbers sizes = {0};
    PyObject *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &ranks, &sets) ||
        (ranks != Py_None && !add_numbers(&job, ranks)) || !read_sets(sets, &members, &sizes))
        goto out;
    forget_last_job();
    PyThreadState *state = PyEval_SaveThread();
    const bool is_fine = horovod_init(job.ints, job.n, members.ints, sizes.ints, sizes.n);
    PyEval_RestoreThread(state);
    result = begun(is_fine);
out:
    PyMem_Free(job.ints);
    PyMem_Free(members.ints);
    PyMem_Free(sizes.ints);
    return result;
}

/* Reads communicators, which are pointers in Open MPI. An address is that of a communicator's
 * variable, as mpi4py's _addressof returns it. */
static bool read_comms(PyObject *addresses, void ***comms, int *n_comms)
{
    const Py_ssize_t n = PySequence_Size(addresses);

    *comms = n >= 0 ? PyMem_Calloc((size_t)n + 1, sizeof(void *)) : NULL;
    if (!*comms)
        return n >= 0 && PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *number = PySequence_GetItem(addresses, i);
        void *const *address = number ? PyLong_AsVoidPtr(number) : NULL;
        Py_XDECREF(number);
        if (!address) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "the address of a communicator is 0");
            return false;
        }
        (*comms)[i] = *address;
    }
    *n_comms = (int)n;
    return true;
}

/* init_comms(addresses, process_sets) */
static PyObject *init_comms(PyObject *module, PyObject *args)
{
    PyObject *addresses = NULL;
    PyObject *sets = NULL;
    void **comms = NULL;
    int n_comms = 0;
    struct numbers members = {0};
    struct numbers sizes = {0};
    PyObject *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &addresses, &sets) ||
        !read_comms(addresses, &comms, &n_comms) || !read_sets(sets, &members, &sizes))
        goto out;
    forget_last_job();
    PyThreadState *state = PyEval_SaveThread();
    const bool is_fine = horovod_init_multi_comm(comms, n_comms, members.ints, sizes.ints, sizes.n);
    PyEval_RestoreThread(state);
    result = begun(is_fine);
out:
    PyMem_Free(comms);
    PyMem_Free(members.ints);
    PyMem_Free(sizes.ints);
    return result;
}

static PyObject *leave(void (*shut_down)(void))
{
    PyThreadState *state = PyEval_SaveThread();

    shut_down();
    PyEval_RestoreThread(state);
    hvd_py_waiting_forget_join();
    hvd_py_waiting_forget(false);
    Py_RETURN_NONE;
}

static PyObject *shutdown(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return leave(horovod_shutdown_job);
}

static PyObject *shutdown_at_exit(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return leave(horovod_shutdown);
}

static PyObject *note_exception(PyObject *module, PyObject *words)
{
    const char *text = PyBytes_AsString(words);

    (void)module;
    if (!text)
        return NULL;
    hvd_rank_state_open();
    hvd_rank_state_raise(text);
    Py_RETURN_NONE;
}

static PyObject *is_initialized(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(horovod_is_initialized());
}

/* --- Identity and features -------------------------------------------------------------------- */

static PyObject *number_or_raise(int number)
{
    return number < 0 ? hvd_py_errors_raise_not_initialized() : PyLong_FromLong(number);
}

/* Defines a function of the module for one of the library. */
#define NUMBER(name)                                                                               \
    static PyObject *name(PyObject *module, PyObject *unused)                                      \
    {                                                                                              \
        (void)module;                                                                              \
        (void)unused;                                                                              \
        return number_or_raise(horovod_##name());                                                  \
    }
#define TRUTH(name)                                                                                \
    static PyObject *name(PyObject *module, PyObject *unused)                                      \
    {                                                                                              \
        (void)module;                                                                              \
        (void)unused;                                                                              \
        return PyBool_FromLong(horovod_##name());                                                  \
    }

NUMBER(rank)
NUMBER(size)
NUMBER(local_rank)
NUMBER(local_size)
NUMBER(cross_rank)
NUMBER(cross_size)
NUMBER(nccl_built)
TRUTH(is_homogeneous)
TRUTH(mpi_enabled)
TRUTH(gloo_enabled)
TRUTH(mpi_built)
TRUTH(gloo_built)
TRUTH(ddl_built)
TRUTH(ccl_built)
TRUTH(cuda_built)
TRUTH(rocm_built)

static PyObject *mpi_threads_supported(PyObject *module, PyObject *unused)
{
    const int is_supported = horovod_mpi_threads_supported();

    (void)module;
    (void)unused;
    return is_supported < 0 ? hvd_py_errors_raise_not_initialized() : PyBool_FromLong(is_supported);
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(horovod_version());
}

static PyObject *reducescatter_rows(PyObject *module, PyObject *args)
{
    long long rows = 0;
    int rank = 0;
    int size = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "Lii", &rows, &rank, &size))
        return NULL;
    return PyLong_FromLongLong(horovod_reducescatter_rows(rows, rank, size));
}

/* --- Process sets: numbers below 0 are errors, which Python's layer explains ------------------ */

static PyObject *add_process_set(PyObject *module, PyObject *ranks)
{
    struct numbers members = {0};
    PyObject *result = NULL;

    (void)module;
    if (add_numbers(&members, ranks)) {
        PyThreadState *state = PyEval_SaveThread();
        const int id = horovod_add_process_set(members.ints, members.n);
        PyEval_RestoreThread(state);
        result = PyLong_FromLong(id);
    }
    PyMem_Free(members.ints);
    return result;
}

/* Reads the number of a set; false with an exception. */
static bool read_id(PyObject *number, int *id)
{
    const long value = PyLong_AsLong(number);

    if (value == -1 && PyErr_Occurred())
        return false;
    *id = value < 0 || value > INT_MAX ? INT_MAX : (int)value;
    return true;
}

static PyObject *remove_process_set(PyObject *module, PyObject *number)
{
    int id = 0;

    (void)module;
    if (!read_id(number, &id))
        return NULL;
    PyThreadState *state = PyEval_SaveThread();
    const int removed = horovod_remove_process_set(id);
    PyEval_RestoreThread(state);
    return PyLong_FromLong(removed);
}

/* Makes a list of n numbers, and frees the numbers. */
static PyObject *list_of(int *numbers, int n)
{
    PyObject *list = PyList_New(n);

    for (int i = 0; list && i < n; i++) {
        PyObject *number = PyLong_FromLong(numbers[i]);
        if (!number || PyList_SetItem(list, i, number) != 0) {
            Py_DECREF(list);
            list = NULL;
        }
    }
    PyMem_Free(numbers);
    return list;
}

static PyObject *process_set_ids(PyObject *module, PyObject *unused)
{
    const int n = horovod_number_of_process_sets();

    (void)module;
    (void)unused;
    if (n < 0)
        return hvd_py_errors_raise_not_initialized();
    int *ids = PyMem_Calloc((size_t)n + 1, sizeof(*ids));
    if (!ids)
        return PyErr_NoMemory();
    horovod_process_set_ids(ids);
    return list_of(ids, n);
}

static PyObject *process_set_ranks(PyObject *module, PyObject *number)
{
    int id = 0;

    (void)module;
    if (!read_id(number, &id))
        return NULL;
    if (horovod_rank() < 0)
        return hvd_py_errors_raise_not_initialized();
    const int n = horovod_process_set_size(id);
    int *ranks = n >= 0 ? PyMem_Calloc((size_t)n + 1, sizeof(*ranks)) : NULL;
    if (n >= 0 && !ranks)
        return PyErr_NoMemory();
    if (n < 0 || horovod_process_set_ranks(id, ranks) != 0) {
        PyMem_Free(ranks);
        return PyErr_Format(PyExc_ValueError, "there is no process set %d", id);
    }
    return list_of(ranks, n);
}

#define OF_SET(name)                                                                               \
    static PyObject *process_set_##name(PyObject *module, PyObject *number)                        \
    {                                                                                              \
        int id = 0;                                                                                \
                                                                                                   \
        (void)module;                                                                              \
        return read_id(number, &id) ? PyLong_FromLong(horovod_process_set_##name(id)) : NULL;      \
    }

OF_SET(rank)
OF_SET(size)
OF_SET(included)

static PyObject *comm_process_set(PyObject *module, PyObject *address)
{
    void *const *comm = PyLong_AsVoidPtr(address);

    (void)module;
    if (!comm)
        return PyErr_Occurred() ? NULL : PyLong_FromLong(HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET);
    return PyLong_FromLong(horovod_comm_process_set(*comm));
}

/* --- Timeline --------------------------------------------------------------------------------- */

/* start_timeline(path, mark_cycles); numbers below 0 are errors, as in the C API */
static PyObject *start_timeline(PyObject *module, PyObject *args)
{
    const char *path = NULL;
    int mark_cycles = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "sp", &path, &mark_cycles))
        return NULL;
    PyThreadState *state = PyEval_SaveThread();
    const int done = horovod_start_timeline(path, mark_cycles != 0);
    PyEval_RestoreThread(state);
    return PyLong_FromLong(done);
}

static PyObject *stop_timeline(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *state = PyEval_SaveThread();
    const int done = horovod_stop_timeline();
    PyEval_RestoreThread(state);
    return PyLong_FromLong(done);
}

/* timeline_mark(phase, begins) */
static PyObject *timeline_mark(PyObject *module, PyObject *args)
{
    const char *phase = NULL;
    int begins = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "sp", &phase, &begins))
        return NULL;
    return PyBool_FromLong(horovod_timeline_mark(phase, begins != 0));
}

/* Returns the variable that the runtime has set in the environment for child processes. Python's
 * os.environ is an older copy. */
static PyObject *rank_process(PyObject *module, PyObject *unused)
{
    const char *value = getenv("HOROVOD_RANK_PROCESS");

    (void)module;
    (void)unused;
    if (!value)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(value);
}

#define NO_ARGUMENTS(name, text)                                                                   \
    {                                                                                              \
#name, name, METH_NOARGS, text                                                             \
    }

PyMethodDef hvd_py_job_methods[] = {
    {"init", init, METH_VARARGS, "init(ranks or None, process_sets): joins the job."},
    {"init_comms", init_comms, METH_VARARGS,
     "init_comms(addresses of MPI_Comm, process_sets): joins the job of the first one."},
    NO_ARGUMENTS(shutdown, "Leaves the job; another may begin."),
    NO_ARGUMENTS(shutdown_at_exit, "Leaves the job if there is one, and MPI."),
    NO_ARGUMENTS(rank_process, "HOROVOD_RANK_PROCESS, which children are to find, or None."),
    {"note_exception", note_exception, METH_O,
     "note_exception(words): an exception that nothing caught ends this process."},
    NO_ARGUMENTS(is_initialized, "Whether the job runs."),
    NO_ARGUMENTS(rank, "This process among all of the job."),
    NO_ARGUMENTS(size, "How many processes the job has."),
    NO_ARGUMENTS(local_rank, "This process among those of its host."),
    NO_ARGUMENTS(local_size, "How many processes run on this host."),
    NO_ARGUMENTS(cross_rank, "This host among those with a process of this local rank."),
    NO_ARGUMENTS(cross_size, "How many hosts have a process of this local rank."),
    NO_ARGUMENTS(is_homogeneous, "Whether every host runs the same number of processes."),
    NO_ARGUMENTS(mpi_threads_supported, "Whether several threads may call MPI."),
    NO_ARGUMENTS(mpi_enabled, "Whether the job runs over MPI."),
    NO_ARGUMENTS(mpi_built, "Whether it was built with MPI."),
    NO_ARGUMENTS(gloo_enabled, "Whether the job runs over Gloo."),
    NO_ARGUMENTS(gloo_built, "Whether it was built with Gloo."),
    NO_ARGUMENTS(nccl_built, "The version of NCCL that it finds, or 0."),
    NO_ARGUMENTS(ddl_built, "Whether it was built with DDL."),
    NO_ARGUMENTS(ccl_built, "Whether it was built with oneCCL."),
    NO_ARGUMENTS(cuda_built, "Whether it finds a driver for NVIDIA GPUs."),
    NO_ARGUMENTS(rocm_built, "Whether it was built with ROCm."),
    NO_ARGUMENTS(version, "The version of the library."),
    {"reducescatter_rows", reducescatter_rows, METH_VARARGS,
     "reducescatter_rows(rows, rank, size): the rows that a rank gets."},
    {"add_process_set", add_process_set, METH_O, "The number of a new set, or an error."},
    {"remove_process_set", remove_process_set, METH_O, "The number of the set, or an error."},
    NO_ARGUMENTS(process_set_ids, "The numbers of all sets."),
    {"process_set_ranks", process_set_ranks, METH_O, "The ranks of a set, sorted."},
    {"process_set_rank", process_set_rank, METH_O, "This rank in the set, or an error."},
    {"process_set_size", process_set_size, METH_O, "How many ranks the set has, or an error."},
    {"process_set_included", process_set_included, METH_O, "1, 0, or an error."},
    {"comm_process_set", comm_process_set, METH_O,
     "The number of the set of an MPI_Comm, by its address, or an error."},
    {"start_timeline", start_timeline, METH_VARARGS, "start_timeline(path, mark_cycles)"},
    NO_ARGUMENTS(stop_timeline, "Ends the timeline."),
    {"timeline_mark", timeline_mark, METH_VARARGS,
     "timeline_mark(phase, begins): whether a timeline has it."},
    {NULL, NULL, 0, NULL},
};
