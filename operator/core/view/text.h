#ifndef HVD_OPERATOR_CORE_VIEW_TEXT_H
#define HVD_OPERATOR_CORE_VIEW_TEXT_H

#include <stddef.h>

/* Within operator/core only. */

/* vsnprintf that never ends within a UTF-8 character. */
void hvd_text_format(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
