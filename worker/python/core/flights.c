/*
 * What is under way, by number. A flight holds a reference to all memory that the runtime reads or
 * writes, until its handles were ended: a caller may drop its tensors at once, and an exception
 * while waiting (Ctrl-C) leaves them where they are.
 *
 * The GIL guards the table. Flights never move. A number is an index in its low half and how often
 * that was used in its high half, so that an old number is recognised.
 */
#include "worker/python/core/flights.h"

#define CHUNK 64
#define N_CHUNKS_MAX 65536

static struct {
    struct hvd_py_flight **chunks;
    int n_chunks;
    int first_free; /* index + 1; 0: none */
} table;

static struct hvd_py_flight *flight_at(int index)
{
    return &table.chunks[index / CHUNK][index % CHUNK];
}

static bool grow(void)
{
    if (table.n_chunks == N_CHUNKS_MAX)
        return false;
    struct hvd_py_flight **chunks =
        PyMem_Realloc(table.chunks, (size_t)(table.n_chunks + 1) * sizeof(struct hvd_py_flight *));
    if (!chunks)
        return false;
    table.chunks = chunks;
    struct hvd_py_flight *chunk = PyMem_Calloc(CHUNK, sizeof(*chunk));
    if (!chunk)
        return false;
    const int first = table.n_chunks * CHUNK;
    for (int i = 0; i < CHUNK; i++) {
        chunk[i].number = -(int64_t)(first + i + 1);
        chunk[i].next_free = i + 1 < CHUNK ? first + i + 2 : 0;
    }
    table.chunks[table.n_chunks++] = chunk;
    table.first_free = first + 1;
    return true;
}

/* Numbers of free flights are negative: -(the number it had last), whose low half is the index. */
static int64_t next_number(int64_t last)
{
    return (int64_t)(((uint64_t)-last + (UINT64_C(1) << 32)) & INT64_MAX);
}

static void release(struct hvd_py_flight *f)
{
    const int index = (int)((f->number & UINT32_MAX) - 1);

    f->number = -f->number;
    f->next_free = table.first_free;
    table.first_free = index + 1;
}

static bool make_room(struct hvd_py_flight *f, int n, int n_keepers, bool makes_outputs)
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

bool hvd_py_flight_reserve(void)
{
    if (table.first_free || grow())
        return true;
    PyErr_NoMemory();
    return false;
}

struct hvd_py_flight *hvd_py_flight_create(int n, int n_keepers, bool makes_outputs)
{
    if (!hvd_py_flight_reserve())
        return NULL;
    struct hvd_py_flight *f = flight_at(table.first_free - 1);
    table.first_free = f->next_free;
    f->number = next_number(f->number);
    f->n = n;
    f->n_ended = 0;
    f->n_keepers = 0;
    f->is_waited = false;
    f->is_orphan = false;
    f->makes_result = false;
    f->result = NULL;
    f->error.status = HOROVOD_OK;
    f->makes_outputs = makes_outputs;
    f->handles = &f->one;
    f->keepers = f->kept;
    f->forms = NULL;
    f->outputs = NULL;
    if ((n == 1 && !makes_outputs) || make_room(f, n, n_keepers, makes_outputs))
        return f;
    hvd_py_flight_destroy(f);
    PyErr_NoMemory();
    return NULL;
}

static struct hvd_py_flight *look(int64_t wanted)
{
    const int64_t index = (wanted & UINT32_MAX) - 1;

    if (wanted > 0 && index >= 0 && index < (int64_t)table.n_chunks * CHUNK &&
        flight_at((int)index)->number == wanted)
        return flight_at((int)index);
    return NULL;
}

struct hvd_py_flight *hvd_py_flight_look(PyObject *number)
{
    if (!PyLong_Check(number))
        return NULL;
    const int64_t wanted = PyLong_AsLong(number); /* faster than AsLongLong */
    if (wanted == -1)
        PyErr_Clear(); /* a number that is too large */
    return look(wanted);
}

struct hvd_py_flight *hvd_py_flight_after(int64_t number)
{
    /* the low half is its index + 1 */
    for (int index = (int)(number & UINT32_MAX); index < table.n_chunks * CHUNK; index++)
        if (flight_at(index)->number > 0)
            return flight_at(index);
    return NULL;
}

struct hvd_py_flight *hvd_py_flight_find(PyObject *number)
{
    const int64_t wanted = PyLong_AsLong(number);

    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    struct hvd_py_flight *found = look(wanted);
    if (found)
        return found;
    PyErr_Format(PyExc_ValueError, "Handle %lld was not created or has been cleared.",
                 (long long)wanted);
    return NULL;
}

/* A single tensor without memory of its own. Here as below the number goes before references are
 * given up, which may run any code. */
static void destroy_simple(struct hvd_py_flight *f)
{
    PyObject *first = f->n_keepers > 0 ? f->kept[0] : NULL;
    PyObject *second = f->n_keepers > 1 ? f->kept[1] : NULL;
    PyObject *result = f->result;

    release(f);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(result);
}

void hvd_py_flight_destroy(struct hvd_py_flight *f)
{
    PyObject *kept[2] = {f->kept[0], f->kept[1]};
    const bool is_single = f->keepers == f->kept;
    PyObject **keepers = is_single ? kept : f->keepers;
    horovod_output_t **outputs = f->outputs;
    PyObject *result = f->result;
    const int n = f->n;
    const int n_keepers = f->n_keepers;

    if (is_single && !f->makes_outputs) {
        destroy_simple(f);
        return;
    }
    if (f->handles != &f->one)
        PyMem_Free(f->handles);
    PyMem_Free(f->forms);
    release(f);
    for (int i = 0; i < n_keepers; i++)
        Py_DECREF(keepers[i]);
    for (int i = 0; outputs && i < n; i++)
        horovod_output_release(outputs[i]);
    PyMem_Free(outputs);
    Py_XDECREF(result);
    if (!is_single)
        PyMem_Free(keepers);
}
