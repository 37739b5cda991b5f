/*
 * The host as a device; see device.h. Work is done during the call, so it needs no streams, and
 * every event is done already: there are none. Any thread.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/device/device.h"
#include "worker/reduce/reduce.h"

static hvd_status_t host_alloc(struct hvd_device_port *d, size_t bytes, void **out,
                               struct hvd_err *err)
{
    void *memory = hvd_malloc(bytes ? bytes : 1, 1);

    if (!memory)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for %zu bytes", d->name, bytes);
    *out = memory;
    return HVD_OK;
}

static void host_free(struct hvd_device_port *d, void *memory, struct hvd_device_event *after)
{
    (void)d;
    (void)after;
    hvd_free(memory);
}

static void host_free_host(struct hvd_device_port *d, void *memory)
{
    (void)d;
    hvd_free(memory);
}

static hvd_status_t host_mark(struct hvd_device_port *d, void *stream,
                              struct hvd_device_event **out, struct hvd_err *err)
{
    (void)d;
    (void)stream;
    (void)err;
    *out = NULL;
    return HVD_OK;
}

static hvd_status_t host_order(struct hvd_device_port *d, struct hvd_device_event *event,
                               void *stream, struct hvd_err *err)
{
    (void)d;
    (void)event;
    (void)stream;
    (void)err;
    return HVD_OK;
}

static hvd_status_t host_query(struct hvd_device_port *d, struct hvd_device_event *event,
                               struct hvd_err *err)
{
    (void)d;
    (void)event;
    (void)err;
    return HVD_OK;
}

static void host_recycle(struct hvd_device_port *d, struct hvd_device_event *event)
{
    (void)d;
    (void)event;
}

/* Copies the inputs into one buffer. */
static void load(const struct hvd_piece *pieces, int n_pieces, enum hvd_dtype dtype, char *to)
{
    const size_t width = hvd_dtype_size((int)dtype);

    for (int i = 0; i < n_pieces; i++) {
        const size_t bytes = (size_t)pieces[i].count * width;
        if (bytes == 0)
            continue;
        if (pieces[i].input)
            memcpy(to, pieces[i].input, bytes);
        else
            memset(to, 0, bytes);
        to += bytes;
    }
}

/* Copies one buffer into the outputs. */
static void unload(const struct hvd_piece *pieces, int n_pieces, enum hvd_dtype dtype,
                   const char *from)
{
    const size_t width = hvd_dtype_size((int)dtype);

    for (int i = 0; i < n_pieces; i++) {
        const size_t bytes = (size_t)pieces[i].count * width;
        if (pieces[i].output && bytes > 0)
            memcpy(pieces[i].output, from, bytes);
        from += bytes;
    }
}

/* Performs a collective of a set of one rank. */
static void scale(const struct hvd_collective *c)
{
    const struct hvd_piece whole = {.input = c->input, .output = c->output, .count = c->count};
    const struct hvd_piece *pieces = c->n_pieces > 0 ? c->pieces : &whole;
    const int n = c->n_pieces > 0 ? c->n_pieces : 1;

    for (int i = 0; i < n; i++) {
        const struct hvd_piece *p = &pieces[i];
        if (!p->output || p->count == 0)
            continue;
        if (!p->input)
            memset(p->output, 0, (size_t)p->count * hvd_dtype_size((int)c->dtype));
        else
            hvd_reduce_prescale(c->dtype, &c->scaling, p->output, p->input, p->count);
        hvd_reduce_finish(c->dtype, &c->scaling, p->output, p->count);
    }
}

static hvd_status_t host_launch(struct hvd_device_port *d, struct hvd_device_work *work,
                                struct hvd_err *err)
{
    (void)d;
    (void)err;
    if (work->kind == HVD_DEVICE_LOAD)
        load(work->pieces, work->n_pieces, work->move->dtype, work->host);
    else if (work->kind == HVD_DEVICE_UNLOAD)
        unload(work->pieces, work->n_pieces, work->move->dtype, work->host);
    else
        scale(work->move);
    return HVD_OK;
}

static hvd_status_t host_test(struct hvd_device_port *d, struct hvd_device_work *work,
                              struct hvd_err *err)
{
    (void)d;
    (void)err;
    work->event = NULL;
    return HVD_OK;
}

static void host_forget(struct hvd_device_port *d, struct hvd_device_work *work)
{
    (void)d;
    (void)work;
}

static void host_abort(struct hvd_device_port *d, const char *cause)
{
    (void)d;
    (void)cause;
}

struct hvd_device_port *hvd_host_device(void)
{
    static const struct hvd_device_ops ops = {
        .alloc = host_alloc,
        .free = host_free,
        .alloc_host = host_alloc,
        .free_host = host_free_host,
        .mark = host_mark,
        .order = host_order,
        .query = host_query,
        .wait = host_query,
        .recycle = host_recycle,
        .launch = host_launch,
        .test = host_test,
        .forget = host_forget,
        .abort = host_abort,
    };
    static struct hvd_device_port host = {.ops = &ops, .name = "the host"};

    return &host;
}
