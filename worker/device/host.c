/*
 * The host as a device; see device.h. Copies happen during the call, so streams hold nothing and
 * events are done when they are recorded. Any thread.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/device/device.h"
#include "worker/reduce/reduce.h"

/* Streams only need an address. */
struct hvd_device_stream {
    char nothing;
};

static hvd_status_t host_alloc(struct hvd_device_port *d, size_t bytes, void **out,
                               struct hvd_err *err)
{
    void *memory = hvd_malloc(bytes ? bytes : 1, 1);

    if (!memory)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for %zu bytes", d->name, bytes);
    *out = memory;
    return HVD_OK;
}

static void host_free(struct hvd_device_port *d, void *memory)
{
    (void)d;
    hvd_free(memory);
}

static hvd_status_t host_query_ready(struct hvd_device_port *d, void *ready, struct hvd_err *err)
{
    (void)d;
    (void)ready;
    (void)err;
    return HVD_OK;
}

static hvd_status_t host_create_stream(struct hvd_device_port *d, struct hvd_device_stream **out,
                                       struct hvd_err *err)
{
    static struct hvd_device_stream stream;

    (void)d;
    (void)err;
    *out = &stream;
    return HVD_OK;
}

static void host_destroy_stream(struct hvd_device_port *d, struct hvd_device_stream *stream)
{
    (void)d;
    (void)stream;
}

static hvd_status_t host_pack(struct hvd_device_port *d, struct hvd_device_stream *stream,
                              const struct hvd_device_copy *copy, struct hvd_err *err)
{
    const size_t width = hvd_dtype_size((int)copy->dtype);
    char *to = copy->buffer;

    (void)d;
    (void)stream;
    (void)err;
    for (int i = 0; i < copy->n_pieces; i++) {
        const struct hvd_piece *piece = &copy->pieces[i];
        const size_t bytes = (size_t)piece->count * width;
        if (bytes == 0)
            continue;
        if (!piece->input)
            memset(to, 0, bytes);
        else if (copy->scaling)
            hvd_reduce_prescale(copy->dtype, copy->scaling, to, piece->input, piece->count);
        else if (to != piece->input)
            memcpy(to, piece->input, bytes);
        to += bytes;
    }
    return HVD_OK;
}

static hvd_status_t host_unpack(struct hvd_device_port *d, struct hvd_device_stream *stream,
                                const struct hvd_device_copy *copy, struct hvd_err *err)
{
    const size_t width = hvd_dtype_size((int)copy->dtype);
    const char *from = copy->buffer;

    (void)d;
    (void)stream;
    (void)err;
    for (int i = 0; i < copy->n_pieces; i++) {
        const struct hvd_piece *piece = &copy->pieces[i];
        const size_t bytes = (size_t)piece->count * width;
        if (piece->output && bytes > 0) {
            if (from != piece->output)
                memcpy(piece->output, from, bytes);
            if (copy->scaling)
                hvd_reduce_finish(copy->dtype, copy->scaling, piece->output, piece->count);
        }
        from += bytes;
    }
    return HVD_OK;
}

static hvd_status_t host_record(struct hvd_device_port *d, struct hvd_device_stream *stream,
                                struct hvd_device_event **out, struct hvd_err *err)
{
    (void)d;
    (void)stream;
    (void)err;
    *out = NULL;
    return HVD_OK;
}

/* record returns no events, so there is none to query. */
static hvd_status_t host_query(struct hvd_device_port *d, struct hvd_device_event *event,
                               struct hvd_err *err)
{
    (void)d;
    (void)event;
    (void)err;
    return HVD_OK;
}

static void host_release(struct hvd_device_port *d, struct hvd_device_event *event)
{
    (void)d;
    (void)event;
}

static void host_abort(struct hvd_device_port *d)
{
    (void)d;
}

struct hvd_device_port *hvd_host_device(void)
{
    static const struct hvd_device_ops ops = {
        .alloc = host_alloc,
        .free = host_free,
        .alloc_host = host_alloc,
        .free_host = host_free,
        .query_ready = host_query_ready,
        .create_stream = host_create_stream,
        .destroy_stream = host_destroy_stream,
        .pack = host_pack,
        .unpack = host_unpack,
        .record = host_record,
        .query = host_query,
        .release = host_release,
        .abort = host_abort,
    };
    static struct hvd_device_port host = {.ops = &ops, .name = "the host"};

    return &host;
}
