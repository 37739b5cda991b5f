/*
 * Waits for submitted operations. An operation that takes microseconds ends with the GIL held,
 * because releasing it takes as long; a longer wait releases the GIL. If one tensor of a group
 * fails, the group has failed: the wait still ends all its handles, and raises the first reason.
 * For tensors on a GPU the wait is one for the launch: then the GPU's current stream waits for the
 * result, and the program goes on. It checks for signals at intervals. After Ctrl-C the pending
 * operation stays, with its references, and the program may wait for it again. The next join
 * continues an interrupted one.
 */
#include "worker/python/core/waiting.h"

#include "worker/python/core/collectives.h"
#include "worker/python/core/errors.h"
#include "worker/python/core/gpu.h"
#include "worker/python/core/output.h"

#define SIGNALS_MS 100 /* between two checks */

/* Ends the next handle of a pending operation. */
static inline horovod_status_t end_handle(struct hvd_py_pending_op *f, int64_t timeout_ms,
                                          horovod_error_t *err)
{
    const horovod_handle_t handle = f->handles[f->n_ended];
    horovod_output_t **output = f->makes_outputs ? &f->outputs[f->n_ended] : NULL;

    if (f->place.is_gpu)
        return horovod_wait_stream(handle, f->stream, timeout_ms, output, err);
    return horovod_wait_for(handle, timeout_ms, output, err);
}

/* Ends handles of a pending operation, from the first one that has not ended. HOROVOD_IN_PROGRESS
 * if one of them takes longer. Only one thread at a time uses the operation. */
static horovod_status_t end_handles(struct hvd_py_pending_op *f, int64_t timeout_ms)
{
    for (; f->n_ended < f->n; f->n_ended++) {
        horovod_error_t err;
        const horovod_status_t status = end_handle(f, timeout_ms, &err);
        if (status == HOROVOD_IN_PROGRESS)
            return status;
        if (status != HOROVOD_OK && f->error.status == HOROVOD_OK)
            f->error = err;
    }
    return f->error.status;
}

/* Moves the outputs to a list. */
static PyObject *take_outputs(struct hvd_py_pending_op *f)
{
    PyObject *list = PyList_New(f->n);

    for (int i = 0; list && i < f->n; i++) {
        PyObject *output = hvd_py_output_create(f->outputs[i], &f->forms[i]);
        f->outputs[i] = NULL;
        if (!output || PyList_SetItem(list, i, output) != 0) {
            Py_DECREF(list);
            list = NULL;
        }
    }
    return list;
}

/* Ends handles of a pending operation without the GIL. HOROVOD_IN_PROGRESS: a signal handler has
 * raised an exception. */
static horovod_status_t end_slowly(struct hvd_py_pending_op *f)
{
    horovod_status_t status = HOROVOD_IN_PROGRESS;

    f->is_waited = true;
    while (status == HOROVOD_IN_PROGRESS) {
        PyThreadState *state = PyEval_SaveThread();
        status = end_handles(f, SIGNALS_MS);
        PyEval_RestoreThread(state);
        if (status == HOROVOD_IN_PROGRESS && PyErr_CheckSignals() != 0)
            break;
    }
    f->is_waited = false;
    return status;
}

/* take_result() for a result that must be made first. */
static PyObject *make_result(struct hvd_py_pending_op *f)
{
    PyObject *made = Py_None;
    PyObject *function = f->makes_result ? f->result : NULL;

    Py_XINCREF(function);
    if (f->makes_outputs)
        made = take_outputs(f);
    else
        Py_INCREF(made);
    hvd_py_pending_op_destroy(f);
    if (!made || !function) {
        Py_XDECREF(function);
        return made;
    }
    PyObject *result = PyObject_CallFunctionObjArgs(function, made, NULL);
    Py_DECREF(made);
    Py_DECREF(function);
    return result;
}

/* Destroys a pending operation that succeeded, and returns its result. */
static PyObject *take_result(struct hvd_py_pending_op *f)
{
    PyObject *result = f->result;

    if (!result || f->makes_result)
        return make_result(f);
    f->result = NULL;
    hvd_py_pending_op_destroy(f);
    return result;
}

/* The memory of the tensors belongs to the stream on which they were allocated, mostly the one of
 * the submission. If another stream waits for the result, that one must be known to the allocator:
 * otherwise the memory could get to another tensor while the operation still uses it. */
static __attribute__((noinline)) void record_use(const struct hvd_py_pending_op *f)
{
    for (int i = 0; i < f->n_keepers; i++)
        hvd_py_gpu_record_use(f->keepers[i], &f->place);
    if (f->result && !f->makes_result && f->n == 1)
        hvd_py_gpu_record_use(f->result, &f->place);
}

/* Returns the result of wait(). After an interrupt returns NULL, and sets *is_left: the pending
 * operation remains. */
static PyObject *end_op(struct hvd_py_pending_op *f, bool *is_left)
{
    *is_left = f->place.is_gpu && !hvd_py_gpu_current_stream(&f->place, &f->stream);
    if (*is_left)
        return NULL;
    horovod_status_t status = end_handles(f, 0);

    if (status == HOROVOD_IN_PROGRESS) {
        status = end_slowly(f);
        *is_left = status == HOROVOD_IN_PROGRESS;
        if (*is_left)
            return NULL;
    }
    if (f->place.is_gpu && f->stream != f->place.stream)
        record_use(f);
    if (status == HOROVOD_OK)
        return take_result(f);
    hvd_py_errors_raise_failed(&f->error);
    hvd_py_pending_op_destroy(f);
    return NULL;
}

PyObject *hvd_py_waiting_end(struct hvd_py_pending_op *f)
{
    bool is_left = false;
    PyObject *result = end_op(f, &is_left);

    if (is_left)
        f->is_orphan = true;
    return result;
}

void hvd_py_waiting_forget(bool with_numbers)
{
    struct hvd_py_pending_op *f = NULL;

    for (int64_t i = 0; (f = hvd_py_pending_op_at(i)) != NULL; i++) {
        if (f->number == 0 || !(with_numbers || f->is_orphan) || f->is_waited)
            continue;
        f->place.is_gpu = false; /* no stream waits, so the GPU must be done with the memory */
        if (end_handles(f, 0) != HOROVOD_IN_PROGRESS)
            hvd_py_pending_op_destroy(f);
    }
}

/* wait() for a pending operation that has a number. */
static PyObject *wait_for(struct hvd_py_pending_op *f)
{
    bool is_left = false;

    if (f->is_waited)
        return PyErr_Format(PyExc_ValueError, "another thread waits for handle %lld",
                            (long long)f->number);
    return end_op(f, &is_left);
}

PyObject *hvd_py_waiting_wait(PyObject *module, PyObject *handle)
{
    struct hvd_py_pending_op *f = hvd_py_pending_op_find(handle);

    (void)module;
    return f ? wait_for(f) : NULL;
}

/* Returns the one argument of a function (handle); NULL with an exception. */
static PyObject *read_handle(PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
    const Py_ssize_t n_named = names ? PyTuple_Size(names) : 0;

    if (n_args + n_named == 1 && (n_named == 0 || PyUnicode_CompareWithASCIIString(
                                                      PyTuple_GetItem(names, 0), "handle") == 0))
        return args[0];
    PyErr_SetString(PyExc_TypeError, "synchronize() takes one argument, handle");
    return NULL;
}

PyObject *hvd_py_waiting_synchronize(PyObject *module, PyObject *const *args, Py_ssize_t n_args,
                                     PyObject *names)
{
    PyObject *handle = read_handle(args, n_args, names);

    (void)module;
    if (!handle)
        return NULL;
    struct hvd_py_pending_op *f = hvd_py_pending_op_look(handle);
    if (f)
        return wait_for(f);
    if (PyCallable_Check(handle))
        return PyObject_CallFunctionObjArgs(handle, NULL);
    Py_RETURN_NONE;
}

PyObject *hvd_py_waiting_attach(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    struct hvd_py_pending_op *f = n_args == 2 ? hvd_py_pending_op_find(args[0]) : NULL;

    (void)module;
    if (n_args != 2)
        PyErr_SetString(PyExc_TypeError, "attach() takes two arguments, handle and result");
    if (!f)
        return NULL;
    PyObject *before = f->result;
    Py_INCREF(args[1]);
    f->result = args[1];
    f->makes_result = PyCallable_Check(args[1]);
    if (before && f->keepers == f->kept && f->n_keepers < 2)
        f->kept[f->n_keepers++] = before; /* in place: the result keeps the memory */
    else
        Py_XDECREF(before);
    Py_INCREF(args[0]);
    return args[0];
}

PyObject *hvd_py_waiting_poll(PyObject *module, PyObject *handle)
{
    const struct hvd_py_pending_op *f = hvd_py_pending_op_find(handle);
    bool is_done = true;

    (void)module;
    if (!f)
        return NULL;
    /* Keeps the GIL, because otherwise another thread could end the pending operation. */
    for (int i = 0; i < f->n && is_done; i++)
        is_done = horovod_poll(f->handles[i]) != 0;
    return PyBool_FromLong(is_done);
}

PyObject *hvd_py_waiting_check_job(PyObject *module, PyObject *unused)
{
    horovod_status_t status;
    horovod_error_t err;

    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS status = horovod_check_job(&err);
    Py_END_ALLOW_THREADS if (status != HOROVOD_OK) return hvd_py_errors_raise_failed(&err);
    Py_RETURN_NONE;
}

PyObject *hvd_py_waiting_barrier(PyObject *module, PyObject *set_id)
{
    horovod_error_t err;
    int id = 0;

    (void)module;
    if (!hvd_py_collectives_read_set(set_id, &id))
        return NULL;
    struct hvd_py_pending_op *f = hvd_py_pending_op_create_single();
    if (!f)
        return NULL;
    if (horovod_process_set_barrier_async(id, &f->one, &err) != HOROVOD_OK) {
        hvd_py_pending_op_destroy(f);
        return hvd_py_errors_raise_refused(&err);
    }
    return hvd_py_waiting_end(f);
}

/* The join of this rank; an interrupt leaves it pending. The GIL guards it. */
static struct {
    horovod_handle_t handle; /* 0: none is pending */
    bool is_waited;
} join;

void hvd_py_waiting_forget_join(void)
{
    join.handle = 0;
}

/* Waits for the pending join without the GIL. HOROVOD_IN_PROGRESS: as end_slowly. */
static horovod_status_t end_join(int *last_rank, horovod_error_t *err)
{
    const horovod_handle_t handle = join.handle;
    horovod_status_t status = HOROVOD_IN_PROGRESS;

    join.is_waited = true;
    while (status == HOROVOD_IN_PROGRESS) {
        PyThreadState *state = PyEval_SaveThread();
        status = horovod_wait_join(handle, SIGNALS_MS, last_rank, err);
        PyEval_RestoreThread(state);
        if (status == HOROVOD_IN_PROGRESS && PyErr_CheckSignals() != 0)
            break;
    }
    join.is_waited = false;
    if (status != HOROVOD_IN_PROGRESS && join.handle == handle)
        join.handle = 0;
    return status;
}

PyObject *hvd_py_waiting_join(PyObject *module, PyObject *unused)
{
    horovod_error_t err;
    int last_rank = -1;

    (void)module;
    (void)unused;
    if (!horovod_is_initialized())
        return hvd_py_errors_raise_not_initialized();
    if (join.is_waited) {
        PyErr_SetString(PyExc_ValueError, "another thread waits for the join");
        return NULL;
    }
    if (!join.handle && horovod_join_async(&join.handle, &err) != HOROVOD_OK)
        return hvd_py_errors_raise_refused(&err);
    const horovod_status_t status = end_join(&last_rank, &err);
    if (status == HOROVOD_IN_PROGRESS)
        return NULL;
    return status == HOROVOD_OK ? PyLong_FromLong(last_rank) : hvd_py_errors_raise_failed(&err);
}
