#ifndef HVD_BASE_BUF_H
#define HVD_BASE_BUF_H

#include <stddef.h>

#include "base/status.h"

/*
 * A growing byte buffer with a maximum given at init, so that no input can grow memory without
 * bound. Once anything was added, a zero byte follows the content. hvd_buf_fini accepts a zeroed
 * struct. One thread at a time.
 */
struct hvd_buf {
    char *data; /* owned; NULL while nothing was added */
    size_t len; /* bytes of content, the terminator not counted */
    size_t max; /* bytes of content at most */
    size_t _capacity;
};

/* Prepares an empty buffer that may hold max bytes. Allocates nothing. */
void hvd_buf_init(struct hvd_buf *buf, size_t max);

/* Frees the content. The buffer may be used again after hvd_buf_init. */
void hvd_buf_fini(struct hvd_buf *buf);

/* Drops the content, keeps the memory. */
void hvd_buf_reset(struct hvd_buf *buf);

/* Appends len bytes. HVD_ERR_TOO_LARGE past the maximum, HVD_ERR_NOMEM; unchanged on failure. */
hvd_status_t hvd_buf_add(struct hvd_buf *buf, const void *data, size_t len);

/* Appends a string without its terminator. Failures as hvd_buf_add. */
hvd_status_t hvd_buf_puts(struct hvd_buf *buf, const char *s);

/* Appends formatted text. Failures as hvd_buf_add; HVD_ERR_INVALID on a format error. */
hvd_status_t hvd_buf_printf(struct hvd_buf *buf, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Drops the first n bytes (n <= len). */
void hvd_buf_consume(struct hvd_buf *buf, size_t n);

/* Transfers the content to the caller (hvd_free it); the buffer is empty afterwards. NULL if empty.
 */
char *hvd_buf_take(struct hvd_buf *buf);

#endif
