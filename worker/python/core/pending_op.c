/*
 * The table of pending operations, by number. A pending operation holds a reference to all memory
 * that the runtime reads or writes, until its handles have ended. So a caller may drop its tensors
 * at once, and an exception during the wait (Ctrl-C) leaves the memory in place.
 *
 * The GIL guards the table. Pending operations never move. Numbers count up and never repeat, so an
 * old number is recognised. The low bits of a number select the bucket of its pending operation. If
 * a long-lived pending operation occupies the bucket of the next number, that number is skipped: at
 * most half of the buckets are occupied.
 */
#include "worker/python/core/pending_op.h"

#define CHUNK 64 /* per allocation; half of the fewest buckets */

static struct {
    struct hvd_py_pending_op **buckets; /* n_buckets of them, a power of two */
    int64_t n_buckets;
    struct hvd_py_pending_op **chunks;
    int64_t n_chunks; /* n_chunks * CHUNK pending operations have at least twice as many buckets */
    struct hvd_py_pending_op *free;
    int64_t last_number;
} table;

static struct hvd_py_pending_op **bucket_of(int64_t number)
{
    return &table.buckets[number & (table.n_buckets - 1)];
}

/* Doubles the number of buckets; false: out of memory. */
static bool widen(void)
{
    const int64_t before = table.n_buckets;
    struct hvd_py_pending_op **old = table.buckets;
    const int64_t n_buckets = before ? 2 * before : 2 * CHUNK;
    struct hvd_py_pending_op **buckets =
        PyMem_Calloc((size_t)n_buckets, sizeof(struct hvd_py_pending_op *));

    if (!buckets)
        return false;
    table.buckets = buckets;
    table.n_buckets = n_buckets;
    for (int64_t i = 0; i < before; i++)
        if (old[i])
            *bucket_of(old[i]->number) = old[i];
    PyMem_Free(old);
    return true;
}

/* Resets it to a free pending operation: one of a single tensor that has just begun. */
static void reset(struct hvd_py_pending_op *f)
{
    f->n = 1;
    f->n_ended = 0;
    f->n_keepers = 0;
    f->makes_outputs = false;
    f->handles = &f->one;
    f->keepers = f->kept;
    f->forms = NULL;
    f->outputs = NULL;
}

static bool grow(void)
{
    if (table.n_buckets < 2 * CHUNK * (table.n_chunks + 1) && !widen())
        return false;
    struct hvd_py_pending_op **chunks = PyMem_Realloc(
        table.chunks, (size_t)(table.n_chunks + 1) * sizeof(struct hvd_py_pending_op *));
    if (!chunks)
        return false;
    table.chunks = chunks;
    struct hvd_py_pending_op *chunk = PyMem_Calloc(CHUNK, sizeof(*chunk));
    if (!chunk)
        return false;
    for (int i = 0; i < CHUNK; i++) {
        reset(&chunk[i]);
        chunk[i].next_free = i + 1 < CHUNK ? &chunk[i + 1] : NULL;
    }
    table.chunks[table.n_chunks++] = chunk;
    table.free = chunk;
    return true;
}

static void release(struct hvd_py_pending_op *f)
{
    *bucket_of(f->number) = NULL;
    f->number = 0;
    f->n_ended = 0;
    f->n_keepers = 0;
    f->is_orphan = false;
    f->makes_result = false;
    f->place.is_gpu = false;
    f->result = NULL;
    f->error.status = HOROVOD_OK;
    f->next_free = table.free;
    table.free = f;
}

static bool make_room(struct hvd_py_pending_op *f, int n, int n_keepers, bool makes_outputs)
{
    if (n != 1) {
        f->handles = PyMem_Calloc((size_t)n, sizeof(*f->handles));
        f->keepers = PyMem_Calloc((size_t)n_keepers, sizeof(PyObject *));
    }
    if (makes_outputs) {
        f->forms = PyMem_Calloc((size_t)n, sizeof(*f->forms));
        f->outputs = PyMem_Calloc((size_t)n, sizeof(horovod_output_t *));
    }
    return f->handles && f->keepers && (!makes_outputs || (f->forms && f->outputs));
}

bool hvd_py_pending_op_reserve(void)
{
    if (table.free || grow())
        return true;
    PyErr_NoMemory();
    return false;
}

/* Takes a free pending operation. Its number is the next one whose bucket is free. */
static struct hvd_py_pending_op *take_off(void)
{
    struct hvd_py_pending_op *f = table.free;

    table.free = f->next_free;
    do
        f->number = ++table.last_number;
    while (*bucket_of(f->number));
    *bucket_of(f->number) = f;
    return f;
}

struct hvd_py_pending_op *hvd_py_pending_op_create_single(void)
{
    return hvd_py_pending_op_reserve() ? take_off() : NULL;
}

struct hvd_py_pending_op *hvd_py_pending_op_create(int n, int n_keepers, bool makes_outputs)
{
    struct hvd_py_pending_op *f = hvd_py_pending_op_create_single();

    if (!f)
        return NULL;
    f->n = n;
    f->makes_outputs = makes_outputs;
    if (make_room(f, n, n_keepers, makes_outputs))
        return f;
    hvd_py_pending_op_destroy(f);
    PyErr_NoMemory();
    return NULL;
}

static struct hvd_py_pending_op *look(int64_t wanted)
{
    struct hvd_py_pending_op *f = table.n_buckets > 0 ? *bucket_of(wanted) : NULL;

    return f && f->number == wanted ? f : NULL;
}

struct hvd_py_pending_op *hvd_py_pending_op_look(PyObject *number)
{
    if (!PyLong_Check(number))
        return NULL;
    const int64_t wanted = PyLong_AsLong(number); /* faster than AsLongLong */
    if (wanted == -1)
        PyErr_Clear(); /* a number that is too large */
    return look(wanted);
}

struct hvd_py_pending_op *hvd_py_pending_op_at(int64_t index)
{
    return index < table.n_chunks * CHUNK ? &table.chunks[index / CHUNK][index % CHUNK] : NULL;
}

struct hvd_py_pending_op *hvd_py_pending_op_find(PyObject *number)
{
    const int64_t wanted = PyLong_AsLong(number);

    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    struct hvd_py_pending_op *found = look(wanted);
    if (found)
        return found;
    PyErr_Format(PyExc_ValueError, "Handle %lld was not created or has been cleared.",
                 (long long)wanted);
    return NULL;
}

/* Destroys one of a single tensor, which owns no memory. Here and below it clears the number before
 * it drops references, because that may run any code. */
static void destroy_simple(struct hvd_py_pending_op *f)
{
    PyObject *first = f->n_keepers > 0 ? f->kept[0] : NULL;
    PyObject *second = f->n_keepers > 1 ? f->kept[1] : NULL;
    PyObject *result = f->result;

    release(f);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(result);
}

static void destroy_large(struct hvd_py_pending_op *f)
{
    const struct hvd_py_pending_op was = *f;
    PyObject *const *keepers = was.keepers == f->kept ? was.kept : was.keepers;

    reset(f);
    release(f);
    for (int i = 0; i < was.n_keepers; i++)
        Py_DECREF(keepers[i]);
    for (int i = 0; was.outputs && i < was.n; i++)
        horovod_output_release(was.outputs[i]);
    Py_XDECREF(was.result);
    PyMem_Free(was.outputs);
    PyMem_Free(was.forms);
    if (was.handles != &f->one)
        PyMem_Free(was.handles);
    if (keepers != was.kept)
        PyMem_Free(was.keepers);
}

void hvd_py_pending_op_destroy(struct hvd_py_pending_op *f)
{
    if (f->n == 1 && !f->makes_outputs)
        destroy_simple(f);
    else
        destroy_large(f);
}
