/*
 * Submits one tensor from Python to the runtime: reads its memory and its name, and creates a
 * pending operation that keeps both objects. Holds the GIL: the runtime accepts a submission in
 * well under a microsecond, and its threads never wait for Python.
 */
#include "worker/python/core/submission.h"

#include <string.h>

#include "worker/python/core/arg_cache.h"
#include "worker/python/core/errors.h"
#include "worker/python/core/waiting.h"

static const char *const words[] = {
    [HVD_PY_ALLREDUCE] = "allreduce",         [HVD_PY_ALLGATHER] = "allgather",
    [HVD_PY_BROADCAST] = "broadcast",         [HVD_PY_ALLTOALL] = "alltoall",
    [HVD_PY_REDUCESCATTER] = "reducescatter",
};

/* The prefixes of names. memcpy copies the whole array, because the compiler knows its length. */
#define PREFIX(word)                                                                               \
    {                                                                                              \
        word ".", sizeof(word)                                                                     \
    }
static const struct prefix {
    char text[16];
    size_t length;
} prefixes[] = {
    [HVD_PY_ALLREDUCE] = PREFIX("allreduce"),         [HVD_PY_ALLGATHER] = PREFIX("allgather"),
    [HVD_PY_BROADCAST] = PREFIX("broadcast"),         [HVD_PY_ALLTOALL] = PREFIX("alltoall"),
    [HVD_PY_REDUCESCATTER] = PREFIX("reducescatter"),
};

const char *hvd_py_submission_word(enum hvd_py_collective what)
{
    return words[what];
}

bool hvd_py_submission_makes_output(enum hvd_py_collective what)
{
    return what == HVD_PY_ALLGATHER || what == HVD_PY_ALLTOALL;
}

static int64_t count_of(const struct hvd_py_tensor *t, int from)
{
    int64_t count = 1;

    for (int i = from; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

/* Returns the number of elements that the output needs; -1: the runtime will report the error. */
static int64_t output_count(const struct hvd_py_submission *s, const struct hvd_py_tensor *in)
{
    if (s->what != HVD_PY_REDUCESCATTER)
        return count_of(in, 0);
    const int rank = horovod_process_set_rank(s->tensor.process_set);
    const int size = horovod_process_set_size(s->tensor.process_set);
    if (in->ndim == 0 || rank < 0)
        return -1;
    return horovod_reducescatter_rows(in->shape[0], rank, size) * count_of(in, 1);
}

static bool check_output(const struct hvd_py_submission *s, const struct hvd_py_tensor *in,
                         const struct hvd_py_tensor *out)
{
    const int64_t wanted = output_count(s, in);
    const char *why = NULL;

    if (out->is_readonly)
        why = "the output is read-only";
    else if (out->dtype != in->dtype)
        why = "input and output are of different types";
    else if (out->place.is_gpu != in->place.is_gpu ||
             (in->place.is_gpu && out->place.device != in->place.device))
        why = "input and output are on different devices";
    else if (wanted >= 0 && count_of(out, 0) != wanted)
        why = "the output has another number of elements than the result";
    if (why)
        PyErr_Format(PyExc_ValueError, "%s: %s", words[s->what], why);
    return !why;
}

bool hvd_py_submission_read_tensors(const struct hvd_py_submission *s, struct hvd_py_tensor *in,
                                    struct hvd_py_tensor *out)
{
    out->keeper = NULL;
    out->data = NULL;
    if (!hvd_py_tensor_read(s->input, words[s->what], in))
        return false;
    if (!s->output)
        return true;
    if (s->output == s->input && !in->is_readonly && s->what != HVD_PY_REDUCESCATTER) {
        out->data = in->data;
        return true;
    }
    if (hvd_py_tensor_read(s->output, words[s->what], out)) {
        if (check_output(s, in, out))
            return true;
        Py_DECREF(out->keeper);
    }
    Py_DECREF(in->keeper);
    return false;
}

void hvd_py_submission_set_form(struct hvd_py_form *form, const struct hvd_py_tensor *in)
{
    form->dtype = in->dtype;
    form->ndim = in->ndim;
    memcpy(form->shape, in->shape, sizeof(form->shape));
}

const char *hvd_py_submission_read_name(const struct hvd_py_submission *s, Py_ssize_t *n)
{
    const char *name = PyUnicode_AsUTF8AndSize(s->name, n);

    if (!name && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s: a name is a string, not %R", words[s->what], s->name);
    return name;
}

/* Writes "allreduce.<name>" to text. *out is NULL for None: the runtime numbers it. */
static bool make_name(const struct hvd_py_submission *s, char text[HVD_PY_NAME_MAX + 1],
                      const char **out)
{
    const struct prefix *prefix = &prefixes[s->what];
    Py_ssize_t n_name = 0;

    *out = NULL;
    if (s->name == Py_None)
        return true;
    const char *name = hvd_py_submission_read_name(s, &n_name);
    if (!name)
        return false;
    if ((size_t)n_name + prefix->length > HVD_PY_NAME_MAX || strlen(name) != (size_t)n_name) {
        PyErr_Format(PyExc_ValueError,
                     "%s: a name has at most %zu bytes, and no zero among them: %R", words[s->what],
                     (size_t)HVD_PY_NAME_MAX - prefix->length, s->name);
        return false;
    }
    memcpy(text, prefix->text, sizeof(prefix->text));
    memcpy(text + prefix->length, name, (size_t)n_name + 1);
    *out = text;
    return true;
}

static horovod_status_t call(enum hvd_py_collective what, const void *input, void *output,
                             const horovod_tensor_t *t, horovod_handle_t *handle,
                             horovod_error_t *err)
{
    switch (what) {
    case HVD_PY_ALLREDUCE:
        return horovod_allreduce_async(input, output, t, handle, err);
    case HVD_PY_ALLGATHER:
        return horovod_allgather_async(input, t, handle, err);
    case HVD_PY_BROADCAST:
        return horovod_broadcast_async(input, output, t, handle, err);
    case HVD_PY_ALLTOALL:
        return horovod_alltoall_async(input, t, handle, err);
    case HVD_PY_REDUCESCATTER:
        return horovod_reducescatter_async(input, output, t, handle, err);
    }
    return HOROVOD_UNKNOWN_ERROR;
}

static horovod_status_t call_for_no_time(enum hvd_py_collective what, const void *input,
                                         void *output, const horovod_tensor_t *t,
                                         horovod_handle_t *handle, horovod_error_t *err)
{
    switch (what) {
    case HVD_PY_ALLREDUCE:
        return horovod_allreduce_for(input, output, t, 0, handle, err);
    case HVD_PY_BROADCAST:
        return horovod_broadcast_for(input, output, t, 0, handle, err);
    case HVD_PY_REDUCESCATTER:
        return horovod_reducescatter_for(input, output, t, 0, handle, err);
    case HVD_PY_ALLGATHER:
    case HVD_PY_ALLTOALL:
        break;
    }
    return HOROVOD_UNKNOWN_ERROR;
}

/* Moves the keepers to a new pending operation. NULL with an exception, and the keepers are
 * released. For a reduction in place the tensor becomes the result. */
static inline struct hvd_py_pending_op *keep(const struct hvd_py_submission *s,
                                             const struct hvd_py_tensor *in,
                                             const struct hvd_py_tensor *out)
{
    struct hvd_py_pending_op *f = hvd_py_submission_makes_output(s->what)
                                      ? hvd_py_pending_op_create(1, 2, true)
                                      : hvd_py_pending_op_create_single();

    if (!f) {
        Py_DECREF(in->keeper);
        Py_XDECREF(out->keeper);
        return NULL;
    }
    f->result = s->output;
    if (in->place.is_gpu)
        f->place = in->place;
    if (s->output != in->keeper) {
        Py_XINCREF(s->output);
        f->kept[f->n_keepers++] = in->keeper;
    }
    if (out->keeper)
        f->kept[f->n_keepers++] = out->keeper;
    if (f->forms)
        hvd_py_submission_set_form(&f->forms[0], in);
    return f;
}

/* Reads the arguments from Python into t, which borrows from the others; name is room for text.
 * false with an exception, and keeps nothing. */
static inline bool prepare(const struct hvd_py_submission *s, horovod_tensor_t *t,
                           char name[HVD_PY_NAME_MAX + 1], struct hvd_py_tensor *in,
                           struct hvd_py_tensor *out)
{
    *t = s->tensor;
    if (!s->is_cached) {
        if (!make_name(s, name, &t->name))
            return false;
        hvd_py_arg_cache_put(s, t);
    }
    if (!hvd_py_submission_read_tensors(s, in, out))
        return false;
    t->dtype = in->dtype;
    t->ndim = in->ndim;
    t->shape = in->shape;
    hvd_py_gpu_describe(&in->place, t);
    return true;
}

/* Submits what prepare() has read, and keeps it. NULL with an exception, and the keepers are
 * released. */
static inline struct hvd_py_pending_op *begin(const struct hvd_py_submission *s,
                                              const horovod_tensor_t *t,
                                              const struct hvd_py_tensor *in,
                                              const struct hvd_py_tensor *out)
{
    horovod_error_t err;
    struct hvd_py_pending_op *f = keep(s, in, out);

    if (!f || call(s->what, in->data, out->data, t, &f->one, &err) == HOROVOD_OK)
        return f;
    hvd_py_pending_op_destroy(f);
    hvd_py_errors_raise_refused(&err);
    return NULL;
}

PyObject *hvd_py_submission_submit(const struct hvd_py_submission *s)
{
    struct hvd_py_tensor in;
    struct hvd_py_tensor out;
    char name[HVD_PY_NAME_MAX + 1];
    horovod_tensor_t t;

    if (!prepare(s, &t, name, &in, &out))
        return NULL;
    const struct hvd_py_pending_op *f = begin(s, &t, &in, &out);
    return f ? PyLong_FromLong(f->number) : NULL;
}

void hvd_py_submission_announce_refused(const struct hvd_py_submission *s, const char *reason)
{
    char name[HVD_PY_NAME_MAX + 1];
    horovod_tensor_t t = s->tensor;
    const horovod_tensor_t *const tensors[] = {&t};

    if (make_name(s, name, &t.name))
        (void)horovod_refuse(words[s->what], 0, tensors, reason, NULL);
    PyErr_Clear();
}

/* Submits, and waits for an operation that takes microseconds. HOROVOD_IN_PROGRESS: *handle is
 * pending; else it has ended, with an exception unless HOROVOD_OK. */
static horovod_status_t try_at_once(enum hvd_py_collective what, const void *input, void *output,
                                    const horovod_tensor_t *t, horovod_handle_t *handle)
{
    horovod_error_t err;
    const horovod_status_t status = call_for_no_time(what, input, output, t, handle, &err);

    if (status == HOROVOD_OK || status == HOROVOD_IN_PROGRESS)
        return status;
    if (*handle)
        hvd_py_errors_raise_failed(&err);
    else
        hvd_py_errors_raise_refused(&err);
    return status;
}

/* Waits for an operation that was submitted and whose number the program does not have. */
static PyObject *finish(struct hvd_py_pending_op *f)
{
    PyObject *result = hvd_py_waiting_end(f);

    if (!result)
        hvd_py_errors_mark_reported(); /* the tensor was submitted, whatever ended the wait */
    return result;
}

/* hvd_py_submission_perform() for tensors on a GPU, for which the current stream waits. */
static __attribute__((noinline)) PyObject *perform_on_gpu(const struct hvd_py_submission *s,
                                                          const horovod_tensor_t *t,
                                                          const struct hvd_py_tensor *in,
                                                          const struct hvd_py_tensor *out)
{
    struct hvd_py_pending_op *f = begin(s, t, in, out);

    return f ? finish(f) : NULL;
}

/* Reserves memory for a pending operation before the submission, because the tensors must be kept
 * whatever happens. Creates the pending operation only if the collective takes longer. */
PyObject *hvd_py_submission_perform(const struct hvd_py_submission *s)
{
    struct hvd_py_tensor in;
    struct hvd_py_tensor out;
    char name[HVD_PY_NAME_MAX + 1];
    horovod_tensor_t t;
    horovod_handle_t handle = 0;
    horovod_status_t status = HOROVOD_OUT_OF_MEMORY;

    if (!prepare(s, &t, name, &in, &out))
        return NULL;
    if (in.place.is_gpu)
        return perform_on_gpu(s, &t, &in, &out);
    if (hvd_py_pending_op_reserve())
        status = try_at_once(s->what, in.data, out.data, &t, &handle);
    if (status == HOROVOD_IN_PROGRESS) {
        struct hvd_py_pending_op *f = keep(s, &in, &out);
        if (!f)
            return NULL;
        f->one = handle;
        return finish(f);
    }
    Py_DECREF(in.keeper);
    Py_XDECREF(out.keeper);
    if (status != HOROVOD_OK)
        return NULL;
    Py_INCREF(s->output);
    return s->output;
}
