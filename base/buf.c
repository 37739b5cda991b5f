/*
 * Growing byte buffer with a hard maximum. Doubles its capacity, so appending is linear in the
 * bytes appended. A failed append leaves the content as it was.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_CAPACITY 64

void hvd_buf_init(struct hvd_buf *buf, size_t max)
{
    *buf = (struct hvd_buf){.max = max};
}

void hvd_buf_fini(struct hvd_buf *buf)
{
    hvd_free(buf->data);
    *buf = (struct hvd_buf){.max = buf->max};
}

void hvd_buf_reset(struct hvd_buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

/* Makes room for extra more bytes and the terminator. */
static hvd_status_t reserve(struct hvd_buf *buf, size_t extra)
{
    if (extra > buf->max - buf->len)
        return HVD_ERR_TOO_LARGE;

    size_t need = buf->len + extra + 1;
    size_t capacity = buf->_capacity ? buf->_capacity : FIRST_CAPACITY;

    if (need <= buf->_capacity)
        return HVD_OK;
    while (capacity < need)
        capacity = capacity > (size_t)-1 / 2 ? need : capacity * 2;

    char *data = hvd_realloc(buf->data, capacity, 1);
    if (!data)
        return HVD_ERR_NOMEM;
    buf->data = data;
    buf->_capacity = capacity;
    return HVD_OK;
}

hvd_status_t hvd_buf_add(struct hvd_buf *buf, const void *data, size_t len)
{
    hvd_status_t st = reserve(buf, len);

    if (st != HVD_OK)
        return st;
    if (len > 0)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return HVD_OK;
}

hvd_status_t hvd_buf_puts(struct hvd_buf *buf, const char *s)
{
    return hvd_buf_add(buf, s, strlen(s));
}

hvd_status_t hvd_buf_printf(struct hvd_buf *buf, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return HVD_ERR_INVALID;

    hvd_status_t st = reserve(buf, (size_t)n);
    if (st != HVD_OK)
        return st;
    va_start(ap, fmt);
    vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    buf->len += (size_t)n;
    return HVD_OK;
}

void hvd_buf_consume(struct hvd_buf *buf, size_t n)
{
    if (n == 0)
        return;
    memmove(buf->data, buf->data + n, buf->len - n + 1);
    buf->len -= n;
}

char *hvd_buf_take(struct hvd_buf *buf)
{
    char *data = buf->data;

    *buf = (struct hvd_buf){.max = buf->max};
    return data;
}
