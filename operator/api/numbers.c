/*
 * Finds the numbers of a JSON text that a double does not hold exactly, and carries their text
 * through cJSON's parser. A plain number has at most 15 digits and no point, no exponent, and no
 * minus before 0. cJSON reads and prints it unchanged; this file marks all others. Pure.
 */
#include "operator/api/numbers.h"

#include <stdlib.h>
#include <string.h>

#define MARK "\xE0\x80\x81" /* invalid UTF-8, so no text of a server holds it */
#define MARK_LEN (sizeof(MARK) - 1)
#define QUOTES 2
#define PLAIN_DIGITS 15

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

static const char *skip_digits(const char *at, const char *end)
{
    while (is_digit(at, end))
        at++;
    return at;
}

static bool is_plain(struct hvd_strview text)
{
    const char *at = text.data, *end = text.data + text.len;
    const bool is_negative = at < end && *at == '-';

    at += is_negative;
    return (end - at) <= PLAIN_DIGITS && is_digit(at, end) && skip_digits(at, end) == end &&
           (*at != '0' || (!is_negative && end - at == 1));
}

bool hvd_numbers_is_number(struct hvd_strview text)
{
    const char *at = text.data, *end = text.data + text.len;

    if (at < end && *at == '-')
        at++;
    if (!is_digit(at, end))
        return false;
    at = *at == '0' ? at + 1 : skip_digits(at, end);
    if (at < end && *at == '.') {
        if (!is_digit(at + 1, end))
            return false;
        at = skip_digits(at + 1, end);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        if (!is_digit(at, end))
            return false;
        at = skip_digits(at, end);
    }
    return at == end;
}

/* Returns the place after the closing quote of the string that began before at, or end. The closing
 * quote is the first after an even number of backslashes. */
static const char *skip_string(const char *at, const char *end)
{
    const char *quote = at, *back;

    while (quote < end && (quote = memchr(quote, '"', (size_t)(end - quote))) != NULL) {
        back = quote;
        while (back > at && back[-1] == '\\')
            back--;
        quote++;
        if ((quote - back) % 2 != 0)
            return quote;
    }
    return end;
}

static const char *skip_number(const char *at, const char *end)
{
    while (is_digit(at, end) || (at < end && memchr("+-.eE", *at, 5)))
        at++;
    return at;
}

/* Finds the first number from *at on that is not plain, or is malformed, and moves *at behind it.
 * False if there is none. */
static bool next_number(const char **at, const char *end, struct hvd_strview *out)
{
    const char *here = *at;

    while (here < end) {
        if (*here == '"') {
            here = skip_string(here + 1, end);
        } else if (*here == '-' || is_digit(here, end)) {
            const char *begin = here;

            here = skip_number(here, end);
            *out = (struct hvd_strview){begin, (size_t)(here - begin)};
            if (!is_plain(*out)) {
                *at = here;
                return true;
            }
        } else {
            here++;
        }
    }
    return false;
}

bool hvd_numbers_measure(struct hvd_strview text, size_t *out)
{
    const char *at = text.data, *end = text.data + text.len;
    struct hvd_strview number;
    size_t n = 0;

    while (next_number(&at, end, &number)) {
        if (!hvd_numbers_is_number(number))
            return false;
        n += QUOTES + MARK_LEN;
    }
    *out = n;
    return n == 0 || !memmem(text.data, text.len, MARK, MARK_LEN);
}

static char *append(char *to, const char *data, size_t len)
{
    memcpy(to, data, len);
    return to + len;
}

size_t hvd_numbers_quote(struct hvd_strview text, char *out)
{
    const char *at = text.data, *end = text.data + text.len, *copied = text.data;
    struct hvd_strview number;
    char *to = out;

    while (next_number(&at, end, &number)) {
        to = append(to, copied, (size_t)(number.data - copied));
        to = append(to, "\"" MARK, 1 + MARK_LEN);
        to = append(to, number.data, number.len);
        to = append(to, "\"", 1);
        copied = at;
    }
    to = append(to, copied, (size_t)(end - copied));
    return (size_t)(to - out);
}

static bool is_marked(const char *text)
{
    return text && strncmp(text, MARK, MARK_LEN) == 0;
}

bool hvd_numbers_restore(cJSON *item)
{
    cJSON *child = NULL;

    if (is_marked(item->string))
        return false;
    if (cJSON_IsString(item) && is_marked(item->valuestring)) {
        memmove(item->valuestring, item->valuestring + MARK_LEN,
                strlen(item->valuestring + MARK_LEN) + 1);
        item->type = (item->type & ~cJSON_String) | cJSON_Number;
        (void)cJSON_SetNumberHelper(item, strtod(item->valuestring, NULL));
    }
    cJSON_ArrayForEach(child, item)
    {
        if (!hvd_numbers_restore(child))
            return false;
    }
    return true;
}
