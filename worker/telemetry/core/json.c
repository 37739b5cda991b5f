/*
 * Writes one line of JSON without printf: the timeline formats some millions of small events, for
 * which printf is the largest cost.
 */
#include "worker/telemetry/core/json.h"

#include <string.h>

static void put(struct hvd_json *json, const char *data, size_t len)
{
    const size_t room = sizeof(json->text) - json->len;
    const size_t n = len < room ? len : room;

    memcpy(json->text + json->len, data, n);
    json->len += n;
}

void hvd_json_raw(struct hvd_json *json, const char *text)
{
    put(json, text, strlen(text));
}

/* Returns the bytes of the UTF-8 sequence at `at`; 0 when there is none. */
static size_t sequence(const unsigned char *at, size_t left)
{
    /* The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF. */
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t n;

    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    n = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[0] == 0xe0)
        low = 0xa0;
    else if (at[0] == 0xed)
        high = 0x9f;
    else if (at[0] == 0xf0)
        low = 0x90;
    else if (at[0] == 0xf4)
        high = 0x8f;
    if (n > left || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

static void put_escaped(struct hvd_json *json, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[7] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], '\0'};

    if (c == '"' || c == '\\') {
        text[1] = (char)c;
        text[2] = '\0';
    }
    hvd_json_raw(json, text);
}

void hvd_json_string(struct hvd_json *json, struct hvd_strview text)
{
    const unsigned char *bytes = (const unsigned char *)text.data;

    put(json, "\"", 1);
    for (size_t i = 0; i < text.len;) {
        size_t n = sequence(bytes + i, text.len - i);
        if (n == 0)
            hvd_json_raw(json, "\\ufffd");
        else if (bytes[i] < 0x20 || bytes[i] == 0x7f || bytes[i] == '"' || bytes[i] == '\\')
            put_escaped(json, bytes[i]);
        else
            put(json, text.data + i, n);
        i += n ? n : 1;
    }
    put(json, "\"", 1);
}

/* Appends the decimal digits of value, at least min_digits of them. */
static void put_digits(struct hvd_json *json, uint64_t value, int min_digits)
{
    char digits[24];
    size_t at = sizeof(digits);

    while (value > 0 || min_digits > 0) {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
        min_digits--;
    }
    put(json, digits + at, sizeof(digits) - at);
}

void hvd_json_int(struct hvd_json *json, int64_t value)
{
    if (value < 0)
        put(json, "-", 1);
    put_digits(json, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
}

void hvd_json_micros(struct hvd_json *json, int64_t ns)
{
    const uint64_t magnitude = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

    if (ns < 0)
        put(json, "-", 1);
    put_digits(json, magnitude / 1000, 1);
    put(json, ".", 1);
    put_digits(json, magnitude % 1000, 3);
}
