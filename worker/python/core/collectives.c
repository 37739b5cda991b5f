/*
 * The functions that submit tensors. They convert Python's positional arguments to a description,
 * which submission.c and group.c pass to the runtime. No step is done twice on the way: an
 * allreduce in place reads the tensor once and the name once.
 */
#include "worker/python/core/collectives.h"

#include <limits.h>

#include "worker/python/core/arg_cache.h"

static bool count_is(Py_ssize_t n, Py_ssize_t wanted)
{
    if (n == wanted)
        return true;
    PyErr_Format(PyExc_TypeError, "expected %zd positional arguments, got %zd", wanted, n);
    return false;
}

static bool read_int(PyObject *number, int *out)
{
    const long value = PyLong_AsLong(number);

    if (value == -1 && PyErr_Occurred())
        return false;
    if (value < INT_MIN || value > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "%ld is out of range", value);
        return false;
    }
    *out = (int)value;
    return true;
}

bool hvd_py_collectives_read_set(PyObject *number, int *out)
{
    if (number != Py_None)
        return read_int(number, out);
    PyErr_SetString(PyExc_ValueError, "the process set is not registered: use add_process_set or "
                                      "init(process_sets=...)");
    return false;
}

/* Reads a factor. Rejects 0, because a factor of 0 means none in the runtime. */
static bool read_factor(PyObject *number, double *out)
{
    *out = PyFloat_AsDouble(number);
    if (*out > 0 || (*out < 0 && !PyErr_Occurred())) /* -1 may be an error */
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "a factor must be a number other than 0, not %R", number);
    return false;
}

/* op, prescale, postscale, set_id */
static bool read_reduction(PyObject *const *args, horovod_tensor_t *t)
{
    int op = 0;

    if (!read_int(args[0], &op) || !read_factor(args[1], &t->prescale_factor) ||
        !read_factor(args[2], &t->postscale_factor) ||
        !hvd_py_collectives_read_set(args[3], &t->process_set))
        return false;
    t->op = (horovod_reduce_op_t)op;
    return true;
}

/* Looks for the arguments in the cache, and returns whether it has them. Otherwise initialises the
 * description. s->name is set, and args are the arguments besides the tensors. */
static inline bool recall(struct hvd_py_submission *s, PyObject *const *args, int n)
{
    s->args = args;
    s->n_args = n;
    s->is_cached = hvd_py_arg_cache_find(s);
    if (!s->is_cached)
        s->tensor = (horovod_tensor_t){.size = sizeof(s->tensor), .op = HOROVOD_SUM};
    return s->is_cached;
}

/* (input, output, name, op, prescale, postscale, set_id) */
static bool read_reducing(enum hvd_py_collective what, PyObject *const *args, Py_ssize_t n_args,
                          struct hvd_py_submission *s)
{
    if (!count_is(n_args, 7))
        return false;
    s->what = what;
    s->input = args[0];
    s->output = args[1];
    s->name = args[2];
    if (recall(s, args + 2, 5))
        return true;
    return read_reduction(args + 3, &s->tensor);
}

PyObject *hvd_py_collectives_allreduce(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_reducing(HVD_PY_ALLREDUCE, args, n_args, &s) ? hvd_py_submission_perform(&s) : NULL;
}

PyObject *hvd_py_collectives_allreduce_async(PyObject *module, PyObject *const *args,
                                             Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_reducing(HVD_PY_ALLREDUCE, args, n_args, &s) ? hvd_py_submission_submit(&s) : NULL;
}

PyObject *hvd_py_collectives_grouped_allreduce_async(PyObject *module, PyObject *const *args,
                                                     Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_reducing(HVD_PY_ALLREDUCE, args, n_args, &s) ? hvd_py_group_submit(&s) : NULL;
}

PyObject *hvd_py_collectives_reducescatter_async(PyObject *module, PyObject *const *args,
                                                 Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_reducing(HVD_PY_REDUCESCATTER, args, n_args, &s) ? hvd_py_submission_submit(&s)
                                                                 : NULL;
}

PyObject *hvd_py_collectives_reducescatter(PyObject *module, PyObject *const *args,
                                           Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_reducing(HVD_PY_REDUCESCATTER, args, n_args, &s) ? hvd_py_submission_perform(&s)
                                                                 : NULL;
}

PyObject *hvd_py_collectives_grouped_reducescatter_async(PyObject *module, PyObject *const *args,
                                                         Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_reducing(HVD_PY_REDUCESCATTER, args, n_args, &s) ? hvd_py_group_submit(&s) : NULL;
}

/* (input, name, set_id) */
static bool read_gathering(PyObject *const *args, Py_ssize_t n_args, struct hvd_py_submission *s)
{
    if (!count_is(n_args, 3))
        return false;
    s->what = HVD_PY_ALLGATHER;
    s->input = args[0];
    s->output = NULL;
    s->name = args[1];
    if (recall(s, args + 1, 2))
        return true;
    return hvd_py_collectives_read_set(args[2], &s->tensor.process_set);
}

PyObject *hvd_py_collectives_allgather_async(PyObject *module, PyObject *const *args,
                                             Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_gathering(args, n_args, &s) ? hvd_py_submission_submit(&s) : NULL;
}

PyObject *hvd_py_collectives_grouped_allgather_async(PyObject *module, PyObject *const *args,
                                                     Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_gathering(args, n_args, &s) ? hvd_py_group_submit(&s) : NULL;
}

/* (input, output, root_rank, name, set_id) */
static bool read_broadcasting(PyObject *const *args, Py_ssize_t n_args, struct hvd_py_submission *s)
{
    if (!count_is(n_args, 5))
        return false;
    s->what = HVD_PY_BROADCAST;
    s->input = args[0];
    s->output = args[1];
    s->name = args[3];
    if (recall(s, args + 2, 3))
        return true;
    return read_int(args[2], &s->tensor.root_rank) &&
           hvd_py_collectives_read_set(args[4], &s->tensor.process_set);
}

PyObject *hvd_py_collectives_broadcast(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_broadcasting(args, n_args, &s) ? hvd_py_submission_perform(&s) : NULL;
}

PyObject *hvd_py_collectives_broadcast_async(PyObject *module, PyObject *const *args,
                                             Py_ssize_t n_args)
{
    struct hvd_py_submission s;

    (void)module;
    return read_broadcasting(args, n_args, &s) ? hvd_py_submission_submit(&s) : NULL;
}

/* (collective, name, n of a group, 0 for no group or -1 for one without tensors, set_id, reason in
 * bytes) */
PyObject *hvd_py_collectives_refuse(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    struct hvd_py_submission s = {.tensor = {.size = sizeof(s.tensor), .op = HOROVOD_SUM}};
    int n = 0;

    (void)module;
    if (!count_is(n_args, 5) || !read_int(args[2], &n) ||
        !hvd_py_collectives_read_set(args[3], &s.tensor.process_set))
        return NULL;
    if (n < HOROVOD_EMPTY_GROUP)
        return PyErr_Format(PyExc_ValueError, "%d is no number of tensors", n);
    const char *reason = PyBytes_AsString(args[4]);
    if (!reason)
        return NULL;
    s.name = args[1];
    for (int i = HVD_PY_ALLREDUCE; i <= HVD_PY_REDUCESCATTER; i++) {
        s.what = (enum hvd_py_collective)i;
        if (PyUnicode_CompareWithASCIIString(args[0], hvd_py_submission_word(s.what)) != 0)
            continue;
        if (n != 0)
            hvd_py_group_announce_refused(&s, n, reason);
        else
            hvd_py_submission_announce_refused(&s, reason);
        break;
    }
    Py_INCREF(Py_None);
    return Py_None;
}

/* --- alltoall --------------------------------------------------------------------------------- */

/* Returns the nth of a tensor's integers; -1 if it has another type. */
static int64_t split_of(const struct hvd_py_tensor *t, int i)
{
    if (t->dtype == HOROVOD_INT64)
        return ((const int64_t *)t->data)[i];
    if (t->dtype == HOROVOD_INT32)
        return ((const int32_t *)t->data)[i];
    return -1;
}

static int64_t *copy_splits(const struct hvd_py_tensor *t, int *n)
{
    if (t->place.is_gpu) {
        PyErr_SetString(PyExc_ValueError, "splits are on a GPU: send splits.cpu()");
        return NULL;
    }
    if (t->ndim != 1 || t->shape[0] > INT_MAX ||
        (t->dtype != HOROVOD_INT64 && t->dtype != HOROVOD_INT32)) {
        PyErr_SetString(PyExc_ValueError, "splits must be a 1-D tensor of int32 or int64");
        return NULL;
    }
    *n = (int)t->shape[0];
    int64_t *splits = PyMem_Calloc((size_t)*n, sizeof(*splits));
    for (int i = 0; splits && i < *n; i++)
        splits[i] = split_of(t, i);
    return splits ? splits : (int64_t *)PyErr_NoMemory();
}

static int64_t *list_splits(PyObject *list, int *n)
{
    const Py_ssize_t size = PySequence_Size(list);

    if (size < 0 || size > INT_MAX)
        return NULL;
    int64_t *splits = PyMem_Calloc((size_t)size, sizeof(*splits));
    if (!splits)
        return (int64_t *)PyErr_NoMemory();
    *n = (int)size;
    for (int i = 0; i < *n && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(list, i);
        splits[i] = item ? PyLong_AsLongLong(item) : 0;
        Py_XDECREF(item);
    }
    if (!PyErr_Occurred())
        return splits;
    PyMem_Free(splits);
    return NULL;
}

/* Reads a tensor of integers, or a list or tuple of them. The caller frees the copy. NULL with an
 * exception. */
static int64_t *read_splits(PyObject *splits, int *n)
{
    struct hvd_py_tensor t;

    if (PyList_Check(splits) || PyTuple_Check(splits))
        return list_splits(splits, n);
    if (!hvd_py_tensor_read(splits, "splits", &t))
        return NULL;
    int64_t *copy = copy_splits(&t, n);
    Py_DECREF(t.keeper);
    return copy;
}

/* (input, splits or None, name, set_id), without the splits */
static bool read_exchange(PyObject *const *args, Py_ssize_t n_args, struct hvd_py_submission *s)
{
    if (!count_is(n_args, 4))
        return false;
    s->what = HVD_PY_ALLTOALL;
    s->input = args[0];
    s->output = NULL;
    s->name = args[2];
    if (recall(s, args + 2, 2))
        return true;
    return hvd_py_collectives_read_set(args[3], &s->tensor.process_set);
}

PyObject *hvd_py_collectives_alltoall_async(PyObject *module, PyObject *const *args,
                                            Py_ssize_t n_args)
{
    struct hvd_py_submission s;
    int64_t *splits = NULL;

    (void)module;
    if (!read_exchange(args, n_args, &s))
        return NULL;
    if (args[1] != Py_None) {
        splits = read_splits(args[1], &s.tensor.n_splits);
        if (!splits)
            return NULL;
    }
    s.tensor.splits = splits;
    PyObject *number = hvd_py_submission_submit(&s);
    PyMem_Free(splits);
    return number;
}
