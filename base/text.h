#ifndef HVD_BASE_TEXT_H
#define HVD_BASE_TEXT_H

#include <stddef.h>

/*
 * A text of fixed size that callers build piece by piece. It is cut when full, and always
 * terminated.
 */
struct hvd_text {
    char *out; /* borrowed */
    size_t size;
    size_t len; /* without the terminator; below size */
};

/* An empty text in `size` > 0 bytes at out, which must outlive it. */
struct hvd_text hvd_text_in(char *out, size_t size);

/* Appends what fits. */
void hvd_text_add(struct hvd_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
