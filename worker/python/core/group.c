/*
 * Submits a group of tensors from Python to the runtime. It reads all of them before it submits
 * any. They share one pending operation, and each has the group's name with its position behind.
 */
#include <string.h>

#include "worker/python/core/errors.h"
#include "worker/python/core/submission.h"

#define DIGITS_MAX 10 /* of an int */

struct group {
    int n;
    int of;           /* the number in the names: n, or 0 for a refused group without tensors */
    PyObject *inputs; /* tuples */
    PyObject *outputs;
    horovod_tensor_t *tensors; /* owned; the same allocation holds the arrays below */
    int64_t (*shapes)[HVD_PY_NDIM_MAX];
    const void **in;
    void **out;
    const horovod_tensor_t **pointers;
    char *names; /* n of name_size bytes; NULL: they have none */
    size_t name_size;
    struct hvd_py_pending_op *op;
};

/* "grouped_allreduce.<name>" */
static bool make_base(const struct hvd_py_submission *s, char base[HVD_PY_NAME_MAX + 1])
{
    const char *word = hvd_py_submission_word(s->what);
    Py_ssize_t n_name = 0;
    const char *name = hvd_py_submission_read_name(s, &n_name);

    if (!name)
        return false;
    if (n_name > HVD_PY_NAME_MAX - 64 || strlen(name) != (size_t)n_name) {
        PyErr_Format(PyExc_ValueError,
                     "grouped %s: a name has at most %d bytes, and no zero among them: %R", word,
                     HVD_PY_NAME_MAX - 64, s->name);
        return false;
    }
    const size_t n_word = strlen(word); /* snprintf would take longer than all else here */
    memcpy(base, "grouped_", 8);
    memcpy(base + 8, word, n_word);
    base[8 + n_word] = '.';
    memcpy(base + 8 + n_word + 1, name, (size_t)n_name + 1);
    return true;
}

/* Writes a number from 0 on in decimal; returns the position behind it. */
static char *put_number(char *at, int number)
{
    char digits[DIGITS_MAX];
    int n = 0;

    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

/* Writes "<base>_1of3" and so on, without snprintf, which took a third of a group's submission. */
static void write_names(struct group *g, const char *base)
{
    const size_t n_base = strlen(base);
    char tail[DIGITS_MAX + 3] = "of";
    char *end = put_number(tail + 2, g->of);

    for (int i = 0; i < g->n; i++) {
        char *name = g->names + (size_t)i * g->name_size;
        memcpy(name, base, n_base);
        name[n_base] = '_';
        memcpy(put_number(name + n_base + 1, i + 1), tail, (size_t)(end - tail) + 1);
    }
}

/* Makes the names; none for None, because the runtime numbers them. */
static bool make_names(const struct hvd_py_submission *s, struct group *g)
{
    char base[HVD_PY_NAME_MAX + 1];

    if (s->name == Py_None)
        return true;
    if (!make_base(s, base))
        return false;
    g->name_size = strlen(base) + 32;
    g->names = PyMem_Calloc((size_t)g->n, g->name_size);
    if (!g->names) {
        PyErr_NoMemory();
        return false;
    }
    write_names(g, base);
    return true;
}

static bool make_room(struct group *g, bool makes_outputs)
{
    const size_t n = (size_t)g->n;

    g->tensors = PyMem_Calloc(n, sizeof(*g->tensors) + sizeof(*g->shapes) + 3 * sizeof(void *));
    if (!g->tensors) {
        PyErr_NoMemory();
        return false;
    }
    g->shapes = (int64_t(*)[HVD_PY_NDIM_MAX])(void *)(g->tensors + n);
    g->in = (const void **)(void *)(g->shapes + n);
    g->out = (void **)(void *)(g->in + n);
    g->pointers = (const horovod_tensor_t **)(void *)(g->out + n);
    g->op = hvd_py_pending_op_create(g->n, 2 * g->n, makes_outputs);
    return g->op != NULL;
}

static bool read_one(const struct hvd_py_submission *s, struct group *g, int i)
{
    struct hvd_py_submission one = *s;
    struct hvd_py_tensor in;
    struct hvd_py_tensor out;

    one.input = PyTuple_GetItem(g->inputs, i);
    one.output = g->outputs ? PyTuple_GetItem(g->outputs, i) : NULL;
    if (!hvd_py_submission_read_tensors(&one, &in, &out))
        return false;
    g->op->keepers[g->op->n_keepers++] = in.keeper;
    if (out.keeper)
        g->op->keepers[g->op->n_keepers++] = out.keeper;
    if (g->op->forms)
        hvd_py_submission_set_form(&g->op->forms[i], &in);
    memcpy(g->shapes[i], in.shape, sizeof(g->shapes[i]));
    g->in[i] = in.data;
    g->out[i] = out.data;
    g->tensors[i] = s->tensor;
    g->tensors[i].name = g->names ? g->names + (size_t)i * g->name_size : NULL;
    g->tensors[i].dtype = in.dtype;
    g->tensors[i].ndim = in.ndim;
    g->tensors[i].shape = g->shapes[i];
    hvd_py_gpu_describe(&in.place, &g->tensors[i]);
    if (in.place.is_gpu && !g->op->place.is_gpu)
        g->op->place = in.place;
    g->pointers[i] = &g->tensors[i];
    return true;
}

/* Adds the position of the refused tensor to the message of the exception. */
static void name_member(int i, int n)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *traceback = NULL;

    if (n == 1 ||
        (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError)))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_Format(type, "tensor %d of %d: %S", i + 1, n, value ? value : Py_None);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

static bool open_group(const struct hvd_py_submission *s, struct group *g)
{
    g->inputs = PySequence_Tuple(s->input);
    if (g->inputs && s->output)
        g->outputs = PySequence_Tuple(s->output);
    if (!g->inputs || (s->output && !g->outputs))
        return false;
    const Py_ssize_t n = PyTuple_Size(g->inputs);
    if (n > INT32_MAX / 4 || (g->outputs && PyTuple_Size(g->outputs) != n)) {
        PyErr_Format(PyExc_ValueError, "grouped %s: as many outputs as inputs are needed",
                     hvd_py_submission_word(s->what));
        return false;
    }
    g->n = (int)n;
    g->of = g->n;
    if (!make_names(s, g) || !make_room(g, hvd_py_submission_makes_output(s->what)))
        return false;
    for (int i = 0; i < g->n; i++) {
        if (!read_one(s, g, i)) {
            name_member(i, g->n);
            return false;
        }
    }
    return true;
}

static void close_group(struct group *g)
{
    if (g->op)
        hvd_py_pending_op_destroy(g->op);
    PyMem_Free(g->names);
    PyMem_Free(g->tensors);
    Py_XDECREF(g->outputs);
    Py_XDECREF(g->inputs);
}

static horovod_status_t call(enum hvd_py_collective what, const struct group *g,
                             horovod_error_t *err)
{
    horovod_handle_t *handles = g->op->handles;

    if (what == HVD_PY_ALLREDUCE)
        return horovod_grouped_allreduce_async(g->n, g->in, g->out, g->pointers, handles, err);
    if (what == HVD_PY_ALLGATHER)
        return horovod_grouped_allgather_async(g->n, g->in, g->pointers, handles, err);
    return horovod_grouped_reducescatter_async(g->n, g->in, g->out, g->pointers, handles, err);
}

void hvd_py_group_announce_refused(const struct hvd_py_submission *s, int n, const char *reason)
{
    const bool is_empty = n == HOROVOD_EMPTY_GROUP;
    struct group g = {.n = is_empty ? 1 : n, .of = is_empty ? 0 : n};

    if (make_names(s, &g) && make_room(&g, false)) {
        for (int i = 0; i < g.n; i++) {
            g.tensors[i] = s->tensor;
            g.tensors[i].name = g.names ? g.names + (size_t)i * g.name_size : NULL;
            g.pointers[i] = &g.tensors[i];
        }
        (void)horovod_refuse(hvd_py_submission_word(s->what), n, g.pointers, reason, NULL);
    }
    PyErr_Clear();
    close_group(&g);
}

PyObject *hvd_py_group_submit(const struct hvd_py_submission *s)
{
    struct group g = {0};
    horovod_error_t err;
    PyObject *number = NULL;

    if (!open_group(s, &g))
        goto out;
    if (call(s->what, &g, &err) != HOROVOD_OK) {
        hvd_py_errors_raise_refused(&err);
        goto out;
    }
    Py_XINCREF(s->output);
    g.op->result = s->output;
    number = PyLong_FromLong(g.op->number);
    g.op = NULL;
out:
    close_group(&g);
    return number;
}
