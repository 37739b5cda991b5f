/*
 * Reads tensors of any array library without linking to one. The type of an object determines how
 * its memory is accessed, so this file caches the way for a few types. With the exchange table of
 * DLPack a tensor then costs one C call and no Python object.
 *
 * The caller holds the GIL, which guards the cache of types.
 */
#include "worker/python/core/tensor.h"

#include <string.h>

#define N_KNOWN_TYPES 16 /* a power of two */
#define N_KNOWN_DTYPES 16

enum way { WAY_UNKNOWN, WAY_EXCHANGE, WAY_ATTRIBUTES, WAY_BUFFER, WAY_CAPSULE };

struct known_type {
    PyTypeObject *type; /* a reference */
    enum way way;
    const struct hvd_dl_exchange *exchange;
    PyCFunction is_negative; /* its is_neg(); NULL: the memory holds the values */
};

static const struct dtype {
    horovod_dtype_t dtype;
    struct hvd_dl_dtype dlpack;
    const char *format;
    const char *name; /* the name in array libraries */
} dtypes[] = {
    {HOROVOD_UINT8, {HVD_DL_UINT, 8, 1}, "B", "uint8"},
    {HOROVOD_INT8, {HVD_DL_INT, 8, 1}, "b", "int8"},
    {HOROVOD_UINT16, {HVD_DL_UINT, 16, 1}, "H", "uint16"},
    {HOROVOD_INT16, {HVD_DL_INT, 16, 1}, "h", "int16"},
    {HOROVOD_INT32, {HVD_DL_INT, 32, 1}, "i", "int32"},
    {HOROVOD_INT64, {HVD_DL_INT, 64, 1}, "q", "int64"},
    {HOROVOD_FLOAT16, {HVD_DL_FLOAT, 16, 1}, "e", "float16"},
    {HOROVOD_FLOAT32, {HVD_DL_FLOAT, 32, 1}, "f", "float32"},
    {HOROVOD_FLOAT64, {HVD_DL_FLOAT, 64, 1}, "d", "float64"},
    {HOROVOD_BOOL, {HVD_DL_BOOL, 8, 1}, "?", "bool"},
    {HOROVOD_BFLOAT16, {HVD_DL_BFLOAT, 16, 1}, "H", "bfloat16"},
    {HOROVOD_UINT32, {HVD_DL_UINT, 32, 1}, "I", "uint32"},
    {HOROVOD_UINT64, {HVD_DL_UINT, 64, 1}, "Q", "uint64"},
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

/* Finds a type; the table is in the order of the numbers. */
static const struct dtype *find_dtype(horovod_dtype_t dtype)
{
    return (size_t)dtype < N_DTYPES ? &dtypes[dtype] : NULL;
}

size_t hvd_py_tensor_dtype_size(horovod_dtype_t dtype)
{
    const struct dtype *found = find_dtype(dtype);

    return found ? found->dlpack.bits / 8U : 0;
}

struct hvd_dl_dtype hvd_py_tensor_dtype_to_dlpack(horovod_dtype_t dtype)
{
    const struct dtype *found = find_dtype(dtype);

    return found ? found->dlpack : (struct hvd_dl_dtype){0};
}

const char *hvd_py_tensor_dtype_format(horovod_dtype_t dtype)
{
    const struct dtype *found = find_dtype(dtype);

    return found ? found->format : "B";
}

static const char elsewhere[] =
    "the tensor is neither in host memory nor on an NVIDIA GPU: copy it to the host";
static const char no_memory[] = "the tensor has no memory of its own";
static const char negative[] = "the tensor has its negative bit set: call resolve_neg()";

static bool fail(const char *what, const char *why)
{
    PyErr_Format(PyExc_ValueError, "%s: %s", what, why);
    return false;
}

/* Not inlined, because most tensors skip it. */
static __attribute__((noinline)) bool is_empty(const struct hvd_py_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return true;
    return false;
}

/* Copies a shape. Returns false with an exception if its rows, with strides in units of `unit`, are
 * not contiguous. strides NULL: they are. */
static inline bool set_shape(const int64_t *shape, const int64_t *strides, int ndim, int64_t unit,
                             const char *what, struct hvd_py_tensor *out)
{
    int64_t expected = unit;
    bool is_dense = true;

    if (ndim < 0 || ndim > HVD_PY_NDIM_MAX)
        return fail(what, "a tensor has at most 16 dimensions");
    out->ndim = ndim;
    for (int i = ndim; i-- > 0;) {
        is_dense = is_dense && (!strides || strides[i] == expected || shape[i] == 1);
        out->shape[i] = shape[i];
        expected = (int64_t)((uint64_t)expected * (uint64_t)shape[i]);
    }
    return is_dense || is_empty(out) || fail(what, "the tensor is not contiguous");
}

static inline bool is_same_dtype(const struct hvd_dl_dtype *a, const struct hvd_dl_dtype *b)
{
    return a->code == b->code && a->bits == b->bits && a->lanes == b->lanes;
}

/* Converts DLPack's type to Horovod's. Most tensors have the same type as the last one. */
static inline bool find_dlpack(const struct hvd_dl_dtype *dtype, horovod_dtype_t *out)
{
    static const struct dtype *last = dtypes;

    for (size_t i = 0; i < N_DTYPES && !is_same_dtype(&last->dlpack, dtype); i++)
        last = &dtypes[i];
    *out = last->dtype;
    return is_same_dtype(&last->dlpack, dtype);
}

/* Raises the error for a tensor whose type has no reduction; returns false. */
static __attribute__((noinline)) bool refuse_type(PyObject *object, const char *what)
{
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");

    if (dtype) {
        PyErr_Format(PyExc_ValueError, "%s: tensors of %S cannot be reduced", what, dtype);
        Py_DECREF(dtype);
        return false;
    }
    PyErr_Clear();
    return fail(what, "tensors of this type cannot be reduced");
}

/* Sets the place of a tensor that is not of the host. Its library's function for the current stream
 * is NULL if it gives none with its memory: then only the host's memory is readable. */
static __attribute__((noinline)) bool read_place(const struct hvd_dl_tensor *t, const char *what,
                                                 hvd_dl_stream_fn *current_stream,
                                                 struct hvd_py_place *out)
{
    if (t->device.type == HVD_DL_CUDA_HOST)
        return true;
    if (t->device.type != HVD_DL_CUDA || !current_stream)
        return fail(what, elsewhere);
    return hvd_py_gpu_set_place(out, t->device.id, current_stream);
}

/* Converts DLPack's description of an object. */
static inline bool read_dlpack(PyObject *object, const struct hvd_dl_tensor *t, const char *what,
                               hvd_dl_stream_fn *current_stream, struct hvd_py_tensor *out)
{
    if (t->device.type != HVD_DL_CPU && !read_place(t, what, current_stream, &out->place))
        return false;
    if (!set_shape(t->shape, t->strides, t->ndim, 1, what, out))
        return false;
    if (!t->data && !is_empty(out))
        return fail(what, no_memory);
    out->data = (char *)t->data + t->byte_offset;
    return find_dlpack(&t->dtype, &out->dtype) || refuse_type(object, what);
}

/* Returns the library's name of a type: the TYPE of a text like LIBRARY.TYPE; NULL for other texts.
 */
static const char *name_in(const char *text)
{
    const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_");

    return n > 0 && text[n] == '.' ? text + n + 1 : NULL;
}

/* Returns whether a dtype object may stand for `dtype`: its name is that of `dtype`, or has no such
 * form. */
static bool is_called(PyObject *object, horovod_dtype_t dtype)
{
    PyObject *text = PyObject_Str(object);
    const char *full = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *name = full ? name_in(full) : NULL;
    const bool is_same = full && (!name || strcmp(name, find_dtype(dtype)->name) == 0);

    Py_XDECREF(text);
    return is_same;
}

/* Returns whether the elements are bytes as the exchange table describes them; false with an
 * exception. PyTorch describes elements of 1 to 7 bits as bytes, too. Caches the dtype object of
 * either kind of bytes, because these objects live for ever. */
static __attribute__((noinline)) bool are_bytes(PyObject *object, const char *what,
                                                horovod_dtype_t dtype)
{
    static PyObject *word;
    static PyObject *known[2]; /* references: of HOROVOD_UINT8 and HOROVOD_INT8 */
    PyObject **known_type = &known[dtype == HOROVOD_INT8];

    if (!word)
        word = PyUnicode_InternFromString("dtype");
    PyObject *own = word ? PyObject_GetAttr(object, word) : NULL;
    if (!own) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return false;
        PyErr_Clear(); /* only the table describes the type */
        return true;
    }
    bool is_fine = own == *known_type;
    if (!is_fine && is_called(own, dtype)) {
        Py_XDECREF(*known_type);
        Py_INCREF(own);
        *known_type = own;
        is_fine = true;
    }
    Py_DECREF(own);
    return is_fine || (!PyErr_Occurred() && refuse_type(object, what));
}

/* Returns whether the memory holds the values; false with an exception. A library may negate
 * lazily: the memory of a view with the negative bit holds the negated values. */
static inline bool is_as_stored(const struct known_type *known, PyObject *object, const char *what)
{
    if (!known->is_negative)
        return true;
    PyObject *answer = known->is_negative(object, NULL);
    Py_XDECREF(answer); /* False and True live on */
    return answer == Py_False || (answer && fail(what, negative));
}

static inline bool read_by_exchange(const struct known_type *known, PyObject *object,
                                    const char *what, struct hvd_py_tensor *out)
{
    struct hvd_dl_tensor t;

    if (known->exchange->tensor_from_object(object, &t) != 0) {
        if (!PyErr_Occurred())
            fail(what, "the tensor does not show its memory");
        return false;
    }
    if (!is_as_stored(known, object, what) ||
        !read_dlpack(object, &t, what, known->exchange->current_stream, out))
        return false;
    if ((out->dtype == HOROVOD_UINT8 || out->dtype == HOROVOD_INT8) &&
        !are_bytes(object, what, out->dtype))
        return false;
    Py_INCREF(object);
    out->keeper = object;
    return true;
}

/* --- data_ptr() and the attributes beside it -------------------------------------------------- */

/* Finds the number of a dtype object by its name. Caches it, because these objects live for ever.
 */
static bool read_dtype(PyObject *dtype, const char *what, horovod_dtype_t *out)
{
    static struct {
        PyObject *object; /* a reference */
        horovod_dtype_t dtype;
    } known[N_KNOWN_DTYPES];
    size_t n_known = 0;

    while (n_known < N_KNOWN_DTYPES && known[n_known].object) {
        if (known[n_known].object == dtype) {
            *out = known[n_known].dtype;
            return true;
        }
        n_known++;
    }
    PyObject *text = PyObject_Str(dtype);
    const char *full = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *name = full ? name_in(full) : NULL;
    size_t i = 0;
    while (i < N_DTYPES && (!name || strcmp(name, dtypes[i].name) != 0))
        i++;
    if (full && i == N_DTYPES)
        PyErr_Format(PyExc_ValueError, "%s: tensors of %s cannot be reduced", what, full);
    Py_XDECREF(text);
    if (i == N_DTYPES)
        return false;
    *out = dtypes[i].dtype;
    if (n_known < N_KNOWN_DTYPES) {
        Py_INCREF(dtype);
        known[n_known].object = dtype;
        known[n_known].dtype = *out;
    }
    return true;
}

/* Calls a method without arguments, and returns its result as a truth value; -1 with an exception.
 */
static int ask(PyObject *object, const char *method)
{
    PyObject *answer = PyObject_CallMethod(object, method, NULL);
    const int is_true = answer ? PyObject_IsTrue(answer) : -1;

    Py_XDECREF(answer);
    return is_true;
}

/* Reads the ordinal of a device "cuda", which tensors always have. */
static bool read_ordinal(PyObject *device, struct hvd_py_place *out)
{
    PyObject *index = PyObject_GetAttrString(device, "index");
    const long ordinal = index ? PyLong_AsLong(index) : -1;

    Py_XDECREF(index);
    return !PyErr_Occurred() && hvd_py_gpu_set_place(out, (int)ordinal, NULL);
}

static bool read_device(PyObject *object, const char *what, struct hvd_py_place *out)
{
    PyObject *device = PyObject_GetAttrString(object, "device");
    PyObject *type = device ? PyObject_GetAttrString(device, "type") : NULL;
    bool is_fine = type && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;

    if (type && PyUnicode_CompareWithASCIIString(type, "cuda") == 0)
        is_fine = read_ordinal(device, out);
    else if (type && !is_fine)
        fail(what, elsewhere);
    Py_XDECREF(type);
    Py_XDECREF(device);
    return is_fine;
}

static bool read_shape(PyObject *object, const char *what, struct hvd_py_tensor *out)
{
    PyObject *shape = PyObject_GetAttrString(object, "shape");
    const Py_ssize_t ndim = shape ? PySequence_Size(shape) : -1;
    bool is_fine = ndim >= 0;

    if (ndim > HVD_PY_NDIM_MAX)
        is_fine = fail(what, "a tensor has at most 16 dimensions");
    for (Py_ssize_t i = 0; i < ndim && is_fine; i++) {
        PyObject *size = PySequence_GetItem(shape, i);
        out->shape[i] = size ? PyLong_AsLongLong(size) : -1;
        Py_XDECREF(size);
        is_fine = !PyErr_Occurred();
    }
    Py_XDECREF(shape);
    out->ndim = (int)ndim;
    return is_fine;
}

static bool read_by_attributes(PyObject *object, const char *what, struct hvd_py_tensor *out)
{
    if (!read_device(object, what, &out->place))
        return false;
    const int is_contiguous = ask(object, "is_contiguous");
    if (is_contiguous <= 0)
        return is_contiguous == 0 ? fail(what, "the tensor is not contiguous") : false;
    const int is_negative = PyObject_HasAttrString(object, "is_neg") ? ask(object, "is_neg") : 0;
    if (is_negative != 0)
        return is_negative > 0 ? fail(what, negative) : false;
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    const bool is_known = dtype && read_dtype(dtype, what, &out->dtype);
    Py_XDECREF(dtype);
    if (!is_known || !read_shape(object, what, out))
        return false;
    PyObject *address = PyObject_CallMethod(object, "data_ptr", NULL);
    out->data = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    if (PyErr_Occurred())
        return false;
    if (!out->data && !is_empty(out))
        return fail(what, no_memory);
    Py_INCREF(object);
    out->keeper = object;
    return true;
}

/* --- The buffer protocol ---------------------------------------------------------------------- */

/* Converts a letter of the struct module to a kind of elements; `width` is their size. */
static bool read_format(const char *format, Py_ssize_t width, horovod_dtype_t *out)
{
    static const char *const kinds[] = {[HVD_DL_INT] = "bhilqn",
                                        [HVD_DL_UINT] = "BHILQNc",
                                        [HVD_DL_FLOAT] = "efd",
                                        [HVD_DL_BOOL] = "?"};
    const char *letter = format ? format : "B";

    if (strchr("@=<", *letter) && *letter)
        letter++;
    if (letter[0] == '\0' || letter[1] != '\0')
        return false;
    for (size_t i = 0; i < N_DTYPES; i++) {
        const char *letters = kinds[dtypes[i].dlpack.code];
        if (letters && strchr(letters, *letter) && dtypes[i].dlpack.bits == width * 8) {
            *out = dtypes[i].dtype;
            return true;
        }
    }
    return false;
}

static bool read_view(const Py_buffer *view, const char *what, struct hvd_py_tensor *out)
{
    int64_t shape[HVD_PY_NDIM_MAX];
    int64_t strides[HVD_PY_NDIM_MAX];

    if (!read_format(view->format, view->itemsize, &out->dtype)) {
        PyErr_Format(PyExc_ValueError, "%s: arrays of the format %s cannot be reduced", what,
                     view->format ? view->format : "B");
        return false;
    }
    for (int i = 0; i < view->ndim && i < HVD_PY_NDIM_MAX; i++) {
        shape[i] = view->shape[i];
        strides[i] = view->strides[i];
    }
    if (!set_shape(shape, strides, view->ndim, view->itemsize, what, out))
        return false;
    out->data = view->buf;
    out->is_readonly = view->readonly;
    return true;
}

/* Keeps a memoryview, which keeps the memory in place. The object alone would not: a bytearray can
 * grow. */
static bool read_by_buffer(PyObject *object, const char *what, struct hvd_py_tensor *out)
{
    Py_buffer view;
    PyObject *keeper = PyMemoryView_FromObject(object);

    if (!keeper)
        return false;
    if (PyObject_GetBuffer(keeper, &view, PyBUF_RECORDS_RO) != 0) {
        Py_DECREF(keeper);
        return false;
    }
    const bool is_fine = read_view(&view, what, out);
    PyBuffer_Release(&view);
    if (is_fine)
        out->keeper = keeper;
    else
        Py_DECREF(keeper);
    return is_fine;
}

/* --- __dlpack__() ----------------------------------------------------------------------------- */

/* Never consumes the capsule, so its destructor frees the content. */
static bool read_by_capsule(PyObject *object, const char *what, struct hvd_py_tensor *out)
{
    PyObject *keeper = PyObject_CallMethod(object, "__dlpack__", NULL);
    const struct hvd_dl_managed *managed = keeper ? PyCapsule_GetPointer(keeper, "dltensor") : NULL;

    if (managed && read_dlpack(object, &managed->tensor, what, NULL, out)) {
        out->keeper = keeper;
        return true;
    }
    Py_XDECREF(keeper);
    return false;
}

/* --- Which way -------------------------------------------------------------------------------- */

/* Returns the exchange table of a type, in a version that this file supports; NULL if it has none.
 */
static const struct hvd_dl_exchange *find_exchange(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const struct hvd_dl_exchange *table =
        capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;

    while (table && table->major > 1)
        table = table->previous;
    Py_XDECREF(capsule); /* the table lives as long as the process */
    PyErr_Clear();
    return table && table->major == 1 && table->tensor_from_object ? table : NULL;
}

/* Returns the C function behind the method is_neg() of an object, which accepts a tensor of any
 * type; NULL if there is none. Calling it directly takes a fifth of the time of a lookup and call.
 */
static PyCFunction find_is_negative(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString(object, "is_neg");
    PyCFunction function = NULL;

    if (method && PyObject_TypeCheck(method, &PyCFunction_Type) &&
        PyCFunction_GetFlags(method) == METH_NOARGS)
        function = PyCFunction_GetFunction(method);
    Py_XDECREF(method); /* the function lives as long as the process */
    PyErr_Clear();
    return function;
}

static void find_way(PyObject *object, struct known_type *out)
{
    out->exchange = find_exchange(out->type);
    out->is_negative = out->exchange ? find_is_negative(object) : NULL;
    if (out->exchange)
        out->way = WAY_EXCHANGE;
    else if (PyObject_HasAttrString(object, "data_ptr"))
        out->way = WAY_ATTRIBUTES;
    else if (PyObject_CheckBuffer(object))
        out->way = WAY_BUFFER;
    else if (PyObject_HasAttrString(object, "__dlpack__"))
        out->way = WAY_CAPSULE;
    else
        out->way = WAY_UNKNOWN;
}

/* Caches the object's type, in place of another one. */
static __attribute__((noinline)) void learn(PyObject *object, struct known_type *at)
{
    PyTypeObject *type = Py_TYPE(object);

    Py_XDECREF(at->type);
    Py_INCREF(type);
    at->type = type;
    find_way(object, at);
}

static inline const struct known_type *know(PyObject *object)
{
    static struct known_type known[N_KNOWN_TYPES];
    PyTypeObject *type = Py_TYPE(object);
    struct known_type *at = &known[((uintptr_t)type >> 4) % N_KNOWN_TYPES];

    if (at->type != type)
        learn(object, at);
    return at;
}

static __attribute__((noinline)) bool read_otherwise(enum way way, PyObject *object,
                                                     const char *what, struct hvd_py_tensor *out)
{
    switch (way) {
    case WAY_ATTRIBUTES:
        return read_by_attributes(object, what, out);
    case WAY_BUFFER:
        return read_by_buffer(object, what, out);
    case WAY_CAPSULE:
        return read_by_capsule(object, what, out);
    case WAY_EXCHANGE:
    case WAY_UNKNOWN:
        break;
    }
    PyErr_Format(PyExc_TypeError,
                 "%s: expected a tensor or an array (an object with __dlpack__, data_ptr or the "
                 "buffer protocol), got %R",
                 what, (PyObject *)Py_TYPE(object));
    return false;
}

/* Replaces an exception with which the tensor's library denies access to the memory by a ValueError
 * with its first line; returns false. */
static __attribute__((noinline)) bool refuse_object(PyObject *object, const char *what)
{
    PyObject *type;
    PyObject *value;
    PyObject *trace;

    if (!PyErr_ExceptionMatches(PyExc_RuntimeError) && !PyErr_ExceptionMatches(PyExc_BufferError))
        return false;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *lines = value ? PyObject_Str(value) : NULL;
    const char *text = lines ? PyUnicode_AsUTF8AndSize(lines, NULL) : NULL;
    PyObject *first =
        PyUnicode_FromStringAndSize(text ? text : "", text ? (Py_ssize_t)strcspn(text, "\n") : 0);
    PyErr_Clear();
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyErr_Clear();
    if (first)
        PyErr_Format(PyExc_ValueError, "%s: the tensor of %S does not show its memory: %U", what,
                     dtype ? dtype : (PyObject *)Py_TYPE(object), first);
    else
        PyErr_NoMemory();
    Py_XDECREF(dtype);
    Py_XDECREF(first);
    Py_XDECREF(lines);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return false;
}

bool hvd_py_tensor_read(PyObject *object, const char *what, struct hvd_py_tensor *out)
{
    const struct known_type *known = know(object);

    out->is_readonly = false;
    out->place.is_gpu = false;
    const bool is_read = known->way == WAY_EXCHANGE ? read_by_exchange(known, object, what, out)
                                                    : read_otherwise(known->way, object, what, out);
    return is_read || refuse_object(object, what);
}
