/*
 * A scanner that copies the wanted members of a JSON text. It knows where values begin and end, and
 * no more: what it skips is not checked, what it copies is checked by the parser. It recurses only
 * as deep as the shape is.
 */
#include "operator/api/pick.h"

#include <stdbool.h>
#include <string.h>

struct scan {
    const char *at;
    const char *end;
    char *out;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static char peek_far(struct scan *s)
{
    while (s->at < s->end && is_space(*s->at))
        s->at++;
    return s->at < s->end ? *s->at : '\0';
}

/* The next byte that is no white space, which is rare in what servers write; '\0' at the end. */
static inline char peek(struct scan *s)
{
    return s->at < s->end && (unsigned char)*s->at > ' ' ? *s->at : peek_far(s);
}

static bool take(struct scan *s, char c)
{
    if (peek(s) != c)
        return false;
    s->at++;
    return true;
}

static void put(struct scan *s, struct hvd_strview text)
{
    memmove(s->out, text.data, text.len);
    s->out += text.len;
}

static void put_char(struct scan *s, char c)
{
    *s->out++ = c;
}

/* Goes behind the string that begins here: to the first quote before which no odd number of
 * backslashes stands. */
static bool skip_string(struct scan *s)
{
    const char *first = s->at + 1;
    const char *quote = first;

    while ((quote = memchr(quote, '"', (size_t)(s->end - quote))) != NULL) {
        const char *back = quote;

        while (back > first && back[-1] == '\\')
            back--;
        if ((quote - back) % 2 == 0) {
            s->at = quote + 1;
            return true;
        }
        quote++;
    }
    return false;
}

static bool skip_nested(struct scan *s)
{
    static const bool is_mark[256] = {
        ['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};
    size_t depth = 0;

    while (s->at < s->end) {
        const char c = *s->at;

        if (!is_mark[(unsigned char)c]) {
            s->at++;
            continue;
        }
        if (c == '"') {
            if (!skip_string(s))
                return false;
            continue;
        }
        s->at++;
        if (c == '{' || c == '[')
            depth++;
        else if (--depth == 0)
            return true;
    }
    return false;
}

/* Goes behind the value that comes next. */
static bool skip_value(struct scan *s)
{
    const char c = peek(s);
    const char *begin = s->at;

    if (c == '"')
        return skip_string(s);
    if (c == '{' || c == '[')
        return skip_nested(s);
    while (s->at < s->end && !is_space(*s->at) && *s->at != ',' && *s->at != ']' && *s->at != '}')
        s->at++;
    return s->at > begin;
}

static bool copy_value(struct scan *s)
{
    struct hvd_strview value;

    (void)peek(s);
    value.data = s->at;
    if (!skip_value(s))
        return false;
    value.len = (size_t)(s->at - value.data);
    put(s, value);
    return true;
}

/* ---- what is wanted ---- */

/* Most names differ in their first bytes: a call would cost more than the loop. */
static bool is_name(const char *wanted, struct hvd_strview name)
{
    size_t i = 0;

    while (i < name.len && wanted[i] && wanted[i] == name.data[i])
        i++;
    return i == name.len && !wanted[i];
}

/* The row of that name; the one without a name when there is none. */
static const struct hvd_shape *find(const struct hvd_shape *shape, struct hvd_strview name)
{
    while (shape->name && !is_name(shape->name, name))
        shape++;
    return shape;
}

static bool pick_value(struct scan *s, const struct hvd_shape *shape);

/* One member, behind a comma unless it is the first that is kept. */
static bool pick_member(struct scan *s, const struct hvd_shape *shape, bool *is_first)
{
    struct hvd_strview key = {s->at, 0};
    const struct hvd_shape *wanted;

    if (peek(s) != '"' || !skip_string(s))
        return false;
    key.len = (size_t)(s->at - key.data);
    if (!take(s, ':'))
        return false;
    wanted = find(shape, (struct hvd_strview){key.data + 1, key.len - 2});
    if (!wanted->name)
        return skip_value(s);
    if (!*is_first)
        put_char(s, ',');
    *is_first = false;
    put(s, key);
    put_char(s, ':');
    return wanted->parts ? pick_value(s, wanted->parts) : copy_value(s);
}

static bool pick_object(struct scan *s, const struct hvd_shape *shape)
{
    bool is_first = true;

    s->at++;
    put_char(s, '{');
    if (peek(s) != '}') {
        do {
            (void)peek(s);
            if (!pick_member(s, shape, &is_first))
                return false;
        } while (take(s, ','));
    }
    put_char(s, '}');
    return take(s, '}');
}

static bool pick_array(struct scan *s, const struct hvd_shape *shape)
{
    s->at++;
    put_char(s, '[');
    if (peek(s) != ']') {
        for (;;) {
            if (!(peek(s) == '{' ? pick_object(s, shape) : copy_value(s)))
                return false;
            if (!take(s, ','))
                break;
            put_char(s, ',');
        }
    }
    put_char(s, ']');
    return take(s, ']');
}

static bool pick_value(struct scan *s, const struct hvd_shape *shape)
{
    switch (peek(s)) {
    case '{':
        return pick_object(s, shape);
    case '[':
        return pick_array(s, shape);
    default:
        return copy_value(s);
    }
}

size_t hvd_json_pick(struct hvd_strview text, const struct hvd_shape *shape, char *out)
{
    struct scan s = {text.data, text.data + text.len, out};

    if (!pick_value(&s, shape) || peek(&s) != '\0' || s.at < s.end)
        return 0;
    return (size_t)(s.out - out);
}
