/* Texts of fixed size: see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

struct hvd_text hvd_text_in(char *out, size_t size)
{
    out[0] = '\0';
    return (struct hvd_text){.out = out, .size = size};
}

void hvd_text_add(struct hvd_text *text, const char *fmt, ...)
{
    const size_t room = text->size - text->len;
    va_list ap;

    va_start(ap, fmt);
    const int n = vsnprintf(text->out + text->len, room, fmt, ap);
    va_end(ap);
    if (n > 0)
        text->len += (size_t)n < room ? (size_t)n : room - 1;
}
