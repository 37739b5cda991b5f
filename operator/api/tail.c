/*
 * Finds the end of a JSON string that is too long to keep. Backslashes escape each other, so only a
 * scan from the start of the string finds where characters begin. Pure.
 */
#include "operator/api/tail.h"

#include <stdbool.h>
#include <string.h>

/* \uXYZZ with these XY: the first half of a pair of surrogates, or the second. */
static bool is_surrogate(struct hvd_strview text, bool is_second)
{
    const char *const marks = is_second ? "cdefCDEF" : "89abAB";

    return text.len >= 6 && text.data[0] == '\\' && text.data[1] == 'u' &&
           (text.data[2] == 'd' || text.data[2] == 'D') && text.data[3] != '\0' &&
           strchr(marks, text.data[3]) != NULL;
}

/* Bytes of the first character of the text, which is not empty. May exceed the length of the
 * text. */
static size_t first_len(struct hvd_strview text)
{
    size_t len = 1;

    if (text.data[0] == '\\') {
        if (text.len < 2 || text.data[1] != 'u')
            return 2;
        return is_surrogate(text, false) && text.len > 6 &&
                       is_surrogate((struct hvd_strview){text.data + 6, text.len - 6}, true)
                   ? 12
                   : 6;
    }
    while (len < 4 && len < text.len && ((unsigned char)text.data[len] & 0xC0) == 0x80)
        len++;
    return len;
}

size_t hvd_tail_excess(struct hvd_strview text, size_t max_bytes)
{
    struct hvd_strview rest = {text.data + 1, text.len ? text.len - 1 : 0};
    const size_t len = rest.len;

    while (rest.len > max_bytes) {
        size_t n = first_len(rest);

        n = n < rest.len ? n : rest.len;
        rest = (struct hvd_strview){rest.data + n, rest.len - n};
    }
    return len - rest.len;
}
