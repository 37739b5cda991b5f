/*
 * Reads the records of a timeline, one by one. They are objects in a JSON array. The array may lack
 * its end (the writer was killed), and Horovod does not escape names in it. So the reader counts a
 * record that it cannot parse, and continues with the next line.
 */
#include "worker/timeline_report/reader.h"

#include <string.h>

#define DEPTH_MAX 16
#define NUMBER_MAX INT64_C(4000000000000000)    /* microseconds: the year 2096 */
#define TIME_MAX_NS INT64_C(100000000000000000) /* three years */

struct scan {
    const char *at;
    const char *end;
    struct hvd_tl_event *event;
    int64_t width; /* bytes of an element of the tensor; 0: not known */
    int64_t count; /* elements; -1: not known */
};

static void skip_space(struct scan *s)
{
    while (s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at)
        s->at++;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* Reads the four digits of an escape; -1 if they are none. */
static int32_t hex4(struct scan *s)
{
    static const char digits[] = "0123456789abcdef";
    int32_t value = 0;

    if (s->end - s->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = *s->at++;
        const char *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;

        if (!found)
            return -1;
        value = value * 16 + (int32_t)(found - digits);
    }
    return value;
}

/* Writes a code point as UTF-8 and returns its bytes. */
static size_t encode(int32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 63));
    out[2] = (char)(0x80 | (code >> 6 & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

/* Decodes the escape behind a backslash; 0 if it is none. */
static size_t unescape(struct scan *s, char out[4])
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char c = *s->at++;
    const char *found = c ? strchr(from, c) : NULL;
    int32_t code;
    int32_t low;

    if (found) {
        out[0] = to[found - from];
        return 1;
    }
    code = c == 'u' ? hex4(s) : -1;
    if (code < 0)
        return 0;
    if (code >= 0xd800 && code < 0xdc00 && s->end - s->at > 6 && memcmp(s->at, "\\u", 2) == 0) {
        s->at += 2;
        low = hex4(s);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + low - 0xdc00
                                             : 0xfffd;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    return encode(code, out);
}

/* Reads a string into out, cut at its size; out may be NULL. */
static bool take_string(struct scan *s, char *out, size_t size)
{
    size_t len = 0;

    if (!take(s, '"'))
        return false;
    while (s->at < s->end && *s->at != '"') {
        char bytes[4] = {*s->at};
        size_t n = 1;

        if (*s->at++ == '\\')
            n = s->at < s->end ? unescape(s, bytes) : 0;
        else if (bytes[0] == '\n' || bytes[0] == '\0')
            n = 0;
        if (n == 0)
            return false;
        if (out && len + n < size) {
            memcpy(out + len, bytes, n);
            len += n;
        } else {
            size = 0;
        }
    }
    if (out)
        out[len] = '\0';
    return s->at < s->end && *s->at++ == '"';
}

/* Reads a decimal number in thousandths and truncates it. Returns false if it is none, or too
 * large. */
static bool take_thousandths(struct scan *s, int64_t *out)
{
    int64_t value = 0;
    int n_digits = 0;
    int n_decimals = 0;
    bool is_negative = take(s, '-');

    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9' && value <= NUMBER_MAX; s->at++) {
        value = value * 10 + (*s->at - '0');
        n_digits++;
    }
    if (n_digits == 0 || value > NUMBER_MAX)
        return false;
    if (s->at < s->end && *s->at == '.')
        for (s->at++; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
            if (n_decimals < 3) {
                value = value * 10 + (*s->at - '0');
                n_decimals++;
            }
    for (; n_decimals < 3; n_decimals++)
        value *= 10;
    *out = is_negative ? -value : value;
    return true;
}

/* Reads a time in microseconds, and clamps it to TIME_MAX_NS. */
static bool take_time(struct scan *s, int64_t *out_ns)
{
    int64_t ns = 0;

    if (!take_thousandths(s, &ns))
        return false;
    *out_ns = ns > TIME_MAX_NS ? TIME_MAX_NS : ns < -TIME_MAX_NS ? -TIME_MAX_NS : ns;
    return true;
}

static bool take_integer(struct scan *s, int64_t *out)
{
    int64_t value = 0;

    if (!take_thousandths(s, &value))
        return false;
    *out = value / 1000;
    return true;
}

static bool skip_value(struct scan *s, int depth);

/* Skips the rest of an object or an array. */
static bool skip_members(struct scan *s, char close, int depth)
{
    if (take(s, close))
        return true;
    do {
        if (close == '}' && (!take_string(s, NULL, 0) || !take(s, ':')))
            return false;
        if (!skip_value(s, depth + 1))
            return false;
    } while (take(s, ','));
    return take(s, close);
}

static bool skip_value(struct scan *s, int depth)
{
    const char *start;

    skip_space(s);
    if (s->at >= s->end || depth > DEPTH_MAX)
        return false;
    if (*s->at == '"')
        return take_string(s, NULL, 0);
    if (*s->at == '{' || *s->at == '[')
        return skip_members(s, *s->at++ == '{' ? '}' : ']', depth);
    start = s->at;
    while (s->at < s->end && *s->at && strchr("+-.0123456789aeflnrstuE", *s->at))
        s->at++;
    return s->at > start;
}

/* Returns the bytes of an element, by the type names of this library and of Horovod. */
static int64_t width_of(const char *dtype)
{
    static const struct {
        const char *name;
        int64_t width;
    } types[] = {{"uint8", 1},   {"int8", 1},     {"bool", 1},   {"uint16", 2}, {"int16", 2},
                 {"float16", 2}, {"bfloat16", 2}, {"uint32", 4}, {"int32", 4},  {"float32", 4},
                 {"float64", 8}, {"int64", 8},    {"uint64", 8}, {"byte", 1}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].width;
    return 0;
}

/* Returns the number of elements of a shape such as "[2, 3]"; -1 if it is no shape. */
static int64_t count_of(const char *shape)
{
    struct scan s = {.at = shape, .end = shape + strlen(shape)};
    int64_t count = 1;
    int64_t n = 0;

    if (!take(&s, '['))
        return -1;
    if (take(&s, ']'))
        return 1;
    do
        if (!take_integer(&s, &n) || n < 0 || __builtin_mul_overflow(count, n, &count) ||
            count > INT64_C(1) << 50)
            return -1;
    while (take(&s, ','));
    return count;
}

/* Reads a string, or skips a value of another kind: other writers may use fields of that name. */
static bool take_if_string(struct scan *s, char *out, size_t size)
{
    skip_space(s);
    return s->at < s->end && *s->at == '"' ? take_string(s, out, size) : skip_value(s, 1);
}

/* Reads a field that describes the job. */
static bool take_job(struct scan *s, const char *key)
{
    struct hvd_tl_event *e = s->event;
    char *const texts[] = {e->host, e->program, e->ranks};
    static const struct {
        const char *key;
        size_t size;
    } fields[] = {
        {"host", sizeof(e->host)}, {"program", sizeof(e->program)}, {"ranks", sizeof(e->ranks)}};

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(key, fields[i].key) == 0)
            return take_if_string(s, texts[i], fields[i].size);
    skip_space(s);
    return strcmp(key, "size") == 0 && s->at < s->end && *s->at >= '0' && *s->at <= '9'
               ? take_integer(s, &e->size)
               : skip_value(s, 1);
}

static bool take_argument(struct scan *s, const char *key)
{
    struct hvd_tl_event *e = s->event;
    char text[256] = "";

    if (strcmp(key, "name") == 0 || strcmp(key, "text") == 0)
        return take_string(s, e->text, sizeof(e->text));
    if (strcmp(key, "rank") == 0)
        return take_integer(s, &e->rank);
    if (strcmp(key, "start_time_since_epoch_in_micros") == 0)
        return take_integer(s, &e->epoch_us);
    if (strcmp(key, "events") == 0)
        return take_integer(s, &e->dropped);
    if (strcmp(key, "dtype") == 0 && take_string(s, text, sizeof(text))) {
        s->width = width_of(text);
        return true;
    }
    if (strcmp(key, "shape") == 0 && take_string(s, text, sizeof(text))) {
        s->count = count_of(text);
        return true;
    }
    return take_job(s, key);
}

static bool take_arguments(struct scan *s)
{
    char key[64];

    if (!take(s, '{'))
        return skip_value(s, 1);
    if (take(s, '}'))
        return true;
    do
        if (!take_string(s, key, sizeof(key)) || !take(s, ':') || !take_argument(s, key))
            return false;
    while (take(s, ','));
    return take(s, '}');
}

static bool take_field(struct scan *s, const char *key)
{
    struct hvd_tl_event *e = s->event;
    char text[8] = "";

    if (strcmp(key, "name") == 0)
        return take_string(s, e->name, sizeof(e->name));
    if (strcmp(key, "ph") == 0 && take_string(s, text, sizeof(text))) {
        e->phase = text[0];
        return true;
    }
    if (strcmp(key, "pid") == 0)
        return take_integer(s, &e->pid);
    if (strcmp(key, "ts") == 0)
        return take_time(s, &e->at_ns);
    if (strcmp(key, "dur") == 0)
        return take_time(s, &e->dur_ns);
    if (strcmp(key, "args") == 0)
        return take_arguments(s);
    return skip_value(s, 1);
}

/* Reads one record: an object of fields. */
static bool take_record(struct scan *s)
{
    char key[64];

    if (!take(s, '{'))
        return false;
    if (take(s, '}'))
        return true;
    do
        if (!take_string(s, key, sizeof(key)) || !take(s, ':') || !take_field(s, key))
            return false;
    while (take(s, ','));
    return take(s, '}');
}

bool hvd_tl_reader_read(struct hvd_tl_reader *reader, struct hvd_tl_event *out)
{
    while (reader->rest.len > 0) {
        const char *end = reader->rest.data + reader->rest.len;
        const char *start = memchr(reader->rest.data, '{', reader->rest.len);
        struct scan s = {.at = start, .end = end, .event = out, .count = -1};
        const char *next;

        if (!start)
            break;
        *out = (struct hvd_tl_event){.rank = -1, .epoch_us = -1, .bytes = -1};
        if (take_record(&s)) {
            if (s.width > 0 && s.count >= 0)
                out->bytes = s.width * s.count;
            reader->rest = (struct hvd_strview){.data = s.at, .len = (size_t)(end - s.at)};
            return true;
        }
        reader->n_damaged++;
        next = memchr(start, '\n', (size_t)(end - start));
        reader->rest =
            (struct hvd_strview){.data = next ? next : end, .len = next ? (size_t)(end - next) : 0};
    }
    reader->has_end = reader->rest.len > 0 && memchr(reader->rest.data, ']', reader->rest.len);
    reader->rest.len = 0;
    return false;
}
