/*
 * Small text helpers on borrowed memory: views, cutting, numbers. Nothing allocates, nothing reads
 * past the length given. Any thread.
 */
#include "base/str.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

struct hvd_strview hvd_strview_of(const char *s)
{
    return (struct hvd_strview){.data = s, .len = strlen(s)};
}

bool hvd_strview_equal(struct hvd_strview view, const char *s)
{
    return view.len == strlen(s) && memcmp(view.data, s, view.len) == 0;
}

bool hvd_strview_same(struct hvd_strview a, struct hvd_strview b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

struct hvd_strview hvd_strview_cut(struct hvd_strview *rest, char separator)
{
    struct hvd_strview head = *rest;
    const char *at = rest->len ? memchr(rest->data, separator, rest->len) : NULL;

    if (!at) {
        *rest = (struct hvd_strview){0};
        return head;
    }
    head.len = (size_t)(at - rest->data);
    rest->data = at + 1;
    rest->len -= head.len + 1;
    return head;
}

struct hvd_strview hvd_strview_trim(struct hvd_strview view)
{
    while (view.len > 0 && isspace((unsigned char)view.data[0])) {
        view.data++;
        view.len--;
    }
    while (view.len > 0 && isspace((unsigned char)view.data[view.len - 1]))
        view.len--;
    return view;
}

/* Parses digits with an optional sign. Returns false if the text is no number or does not fit. */
static bool parse_digits(struct hvd_strview text, int64_t *out)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    size_t i = negative || (text.len > 0 && text.data[0] == '+') ? 1 : 0;
    int64_t value = 0;

    if (i == text.len)
        return false;
    for (; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        int64_t digit = text.data[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

hvd_status_t hvd_str_parse_int64(struct hvd_strview text, const int64_t range_min_max[2],
                                 int64_t *out, struct hvd_err *err)
{
    const int shown = text.len > 64 ? 64 : (int)text.len;
    int64_t value = 0;

    if (!parse_digits(text, &value) || value < range_min_max[0] || value > range_min_max[1])
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "\"%.*s\" is not an integer from %" PRId64 " to %" PRId64, shown,
                        text.data ? text.data : "", range_min_max[0], range_min_max[1]);
    *out = value;
    return HVD_OK;
}

bool hvd_str_has_prefix(const char *s, const char *prefix)
{
    return s && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool hvd_str_has_suffix(const char *s, const char *suffix)
{
    size_t len = s ? strlen(s) : 0;
    size_t tail = strlen(suffix);

    return s && len >= tail && memcmp(s + len - tail, suffix, tail) == 0;
}

bool hvd_str_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Returns whether the three bytes encode a character that changes the direction of writing. */
static bool is_turn(const unsigned char *c)
{
    return c[0] == 0xe2 && ((c[1] == 0x80 && c[2] >= 0xaa && c[2] <= 0xae) ||
                            (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
}

/* Returns whether all bytes are plain printable ones. Tests eight bytes at a time, because nearly
 * every text is plain and passes here. */
static bool is_plain(const char *text, size_t len)
{
    const uint64_t each = UINT64_MAX / 255, high = each * 128;
    uint64_t odd = 0;

    for (size_t at = 0; at < len; at += sizeof(odd)) {
        uint64_t word = each * ' '; /* blanks fill it behind the end of the text */

        memcpy(&word, text + at, len - at < sizeof(word) ? len - at : sizeof(word));
        odd |= word | (word + each) | (word - each * ' ');
    }
    return !(odd & high);
}

void hvd_str_disarm(char *text)
{
    if (is_plain(text, strlen(text)))
        return;
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        if ((*c < 0x20 && *c != '\t' && *c != '\n') || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
            c[0] = c[1] = '?';
        else if (is_turn(c))
            c[0] = c[1] = c[2] = '?';
    }
}
