/*
 * A program says the same of a tensor in each of its steps, mostly by the same objects: the name,
 * the reduction, the factors, the process set. What they mean is read once. An object that cannot
 * change and is kept means the same when it comes again, so that comparing addresses is enough.
 *
 * One entry for each place, found by the address of the name. An entry is made when a name comes
 * twice in a row to its place: names that are made anew for each call cost nothing but that look.
 *
 * Called with the GIL held, which guards the table.
 */
#include "worker/python/core/recall.h"

#include <string.h>

#define N_PLACES 1024 /* a power of two */

struct entry {
    enum hvd_py_collective what;
    int n_said;
    PyObject *said[HVD_PY_SAID_MAX]; /* references */
    horovod_tensor_t tensor;         /* its name is text */
    char text[];
};

static struct place {
    struct entry *entry;    /* owned; NULL: none */
    const PyObject *before; /* the name that came last, which may be gone */
} places[N_PLACES];

static struct place *place_of(const PyObject *name)
{
    return &places[((uintptr_t)name >> 4) % N_PLACES];
}

static bool is_said(const struct entry *e, const struct hvd_py_submission *s)
{
    if (e->what != s->what || e->n_said != s->n_said)
        return false;
    for (int i = 0; i < s->n_said; i++)
        if (e->said[i] != s->said[i])
            return false;
    return true;
}

bool hvd_py_recall(struct hvd_py_submission *s)
{
    const struct entry *e = place_of(s->name)->entry;

    if (!e || !is_said(e, s))
        return false;
    s->tensor = e->tensor;
    return true;
}

static void forget(struct place *place)
{
    struct entry *e = place->entry;

    place->entry = NULL;
    for (int i = 0; e && i < e->n_said; i++)
        Py_DECREF(e->said[i]);
    PyMem_Free(e);
}

/* Whether the object is of a type whose values do not change, and no other behind it. */
static bool is_constant(PyObject *object)
{
    return PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object);
}

static struct entry *make_entry(const struct hvd_py_submission *s, const horovod_tensor_t *t)
{
    const size_t size = strlen(t->name) + 1;
    struct entry *e = PyMem_Malloc(sizeof(*e) + size);

    if (!e)
        return NULL;
    e->what = s->what;
    e->n_said = s->n_said;
    for (int i = 0; i < s->n_said; i++) {
        Py_INCREF(s->said[i]);
        e->said[i] = s->said[i];
    }
    memcpy(e->text, t->name, size);
    e->tensor = *t;
    e->tensor.name = e->text;
    e->tensor.splits = NULL; /* a call's own */
    e->tensor.n_splits = 0;
    return e;
}

void hvd_py_remember(const struct hvd_py_submission *s, const horovod_tensor_t *t)
{
    struct place *place = place_of(s->name);

    if (place->before != s->name || !t->name) {
        place->before = s->name;
        return;
    }
    place->before = NULL;
    for (int i = 0; i < s->n_said; i++)
        if (!is_constant(s->said[i]))
            return;
    forget(place);
    place->entry = make_entry(s, t);
}
