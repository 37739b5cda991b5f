/*
 * Texts for conditions and events, which the API server accepts only as UTF-8. Pure.
 */
#include "operator/core/view/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void hvd_text_format(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    size_t len;
    int wanted;

    va_start(args, fmt);
    wanted = vsnprintf(out, size, fmt, args);
    va_end(args);
    if (wanted < 0 || (size_t)wanted < size)
        return;
    /* The text was cut: drop the last character, which may be incomplete. */
    for (len = strlen(out); len > 0; len--) {
        bool is_first_byte = ((unsigned char)out[len - 1] & 0xC0) != 0x80;

        out[len - 1] = '\0';
        if (is_first_byte)
            break;
    }
}
