/*
 * The line framer of watch streams: the API server sends one JSON document per line, cut at any
 * byte by the transport. Pure. A line that arrives whole is handed on without a copy; only a line
 * cut in two is gathered, and never more than the maximum given at init.
 */
#include "operator/kube/framer.h"

#include <string.h>

void hvd_framer_init(struct hvd_framer *framer, size_t max_line)
{
    hvd_buf_init(&framer->_partial, max_line);
}

void hvd_framer_fini(struct hvd_framer *framer)
{
    hvd_buf_fini(&framer->_partial);
}

void hvd_framer_reset(struct hvd_framer *framer)
{
    hvd_buf_reset(&framer->_partial);
}

static hvd_status_t deliver(struct hvd_strview text, hvd_framer_line_fn line, void *ctx)
{
    if (text.len && text.data[text.len - 1] == '\r')
        text.len--;
    return text.len ? line(ctx, text) : HVD_OK;
}

/* A line that ends in these bytes: joined with what came before, if anything did. */
static hvd_status_t finish_line(struct hvd_framer *framer, struct hvd_strview piece,
                                hvd_framer_line_fn line, void *ctx)
{
    struct hvd_buf *partial = &framer->_partial;
    hvd_status_t st;

    if (!partial->len)
        return piece.len > partial->max ? HVD_ERR_TOO_LARGE : deliver(piece, line, ctx);
    st = hvd_buf_add(partial, piece.data, piece.len);
    if (st == HVD_OK)
        st = deliver((struct hvd_strview){partial->data, partial->len}, line, ctx);
    hvd_buf_reset(partial);
    return st;
}

hvd_status_t hvd_framer_feed(struct hvd_framer *framer, struct hvd_strview bytes,
                             hvd_framer_line_fn line, void *ctx)
{
    while (bytes.len) {
        const char *end = memchr(bytes.data, '\n', bytes.len);
        struct hvd_strview piece = {bytes.data, end ? (size_t)(end - bytes.data) : bytes.len};
        hvd_status_t st;

        if (!end)
            return hvd_buf_add(&framer->_partial, piece.data, piece.len);
        st = finish_line(framer, piece, line, ctx);
        if (st != HVD_OK)
            return st;
        bytes.data += piece.len + 1;
        bytes.len -= piece.len + 1;
    }
    return HVD_OK;
}
