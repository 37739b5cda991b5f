/*
 * Prints JSON as cJSON does, with two exceptions. Numbers that kept their text are printed as that
 * text, and whole numbers have no exponent: an integer field of the API server rejects 1e+15. Pure.
 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "operator/api/json.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53 */

static hvd_status_t add_text(struct hvd_buf *out, const char *text)
{
    return hvd_buf_add(out, text, strlen(text));
}

/* Adds one of JSON's short escapes, or the code of the character. */
static hvd_status_t add_escape(struct hvd_buf *out, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = strchr(from, c);
    char text[8];

    if (at)
        (void)snprintf(text, sizeof(text), "\\%c", to[at - from]);
    else
        (void)snprintf(text, sizeof(text), "\\u%04x", (unsigned)(unsigned char)c);
    return add_text(out, text);
}

static bool is_escaped(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

static hvd_status_t add_string(struct hvd_buf *out, const char *text)
{
    const char *at = text ? text : "";
    hvd_status_t st = add_text(out, "\"");

    while (st == HVD_OK && *at) {
        const char *end = at;

        while (*end && !is_escaped(*end))
            end++;
        st = hvd_buf_add(out, at, (size_t)(end - at));
        if (st == HVD_OK && *end)
            st = add_escape(out, *end++);
        at = end;
    }
    return st == HVD_OK ? add_text(out, "\"") : st;
}

static hvd_status_t add_number(struct hvd_buf *out, const cJSON *item)
{
    double value = item->valuedouble;
    char text[40];

    if (item->valuestring)
        return add_text(out, item->valuestring);
    if (isnan(value) || isinf(value))
        return add_text(out, "null");
    if (fabs(value) <= EXACT_MAX && value == (double)(int64_t)value)
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)value);
    else
        (void)snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof(text), "%.17g", value);
    return add_text(out, text);
}

static hvd_status_t add_value(struct hvd_buf *out, const cJSON *item);

/* Adds the members of an object or the elements of an array. */
static hvd_status_t add_children(struct hvd_buf *out, const cJSON *parent, const char brackets[2])
{
    hvd_status_t st = hvd_buf_add(out, &brackets[0], 1);
    const cJSON *child = NULL;

    cJSON_ArrayForEach(child, parent)
    {
        if (st == HVD_OK && child != parent->child)
            st = add_text(out, ",");
        if (st == HVD_OK && cJSON_IsObject(parent))
            st = add_string(out, child->string);
        if (st == HVD_OK && cJSON_IsObject(parent))
            st = add_text(out, ":");
        if (st == HVD_OK)
            st = add_value(out, child);
    }
    return st == HVD_OK ? hvd_buf_add(out, &brackets[1], 1) : st;
}

static hvd_status_t add_value(struct hvd_buf *out, const cJSON *item)
{
    switch (item->type & 0xFF) {
    case cJSON_NULL:
        return add_text(out, "null");
    case cJSON_False:
        return add_text(out, "false");
    case cJSON_True:
        return add_text(out, "true");
    case cJSON_Number:
        return add_number(out, item);
    case cJSON_String:
        return add_string(out, item->valuestring);
    case cJSON_Array:
        return add_children(out, item, "[]");
    case cJSON_Object:
        return add_children(out, item, "{}");
    default:
        return HVD_ERR_INVALID;
    }
}

char *hvd_print_json(const cJSON *root)
{
    struct hvd_buf out;

    hvd_buf_init(&out, SIZE_MAX / 2);
    if (root && add_value(&out, root) != HVD_OK)
        hvd_buf_reset(&out);
    if (out.len == 0) {
        hvd_buf_fini(&out);
        return NULL;
    }
    return hvd_buf_take(&out);
}
