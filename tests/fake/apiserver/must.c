/*
 * Memory, text and JSON for a program that ends when it is out of memory.
 */
#include "tests/fake/apiserver/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_MAX ((size_t)1 << 31)

static _Noreturn void end(void)
{
    (void)fputs("fake-apiserver: out of memory\n", stderr);
    abort();
}

void *fake_must(void *p)
{
    if (!p)
        end();
    return p;
}

void *fake_new(size_t size)
{
    return fake_must(calloc(1, size));
}

char *fake_copy(const char *s)
{
    return s ? fake_must(strdup(s)) : NULL;
}

struct hvd_buf fake_buf(void)
{
    struct hvd_buf buf;

    hvd_buf_init(&buf, BUF_MAX);
    return buf;
}

void fake_add(struct hvd_buf *buf, const void *data, size_t len)
{
    if (hvd_buf_add(buf, data, len) != HVD_OK)
        end();
}

void fake_puts(struct hvd_buf *buf, const char *s)
{
    fake_add(buf, s, strlen(s));
}

void fake_printf(struct hvd_buf *buf, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0)
        end();
    fake_add(buf, text, (size_t)n);
    free(text);
}

void fake_put_json(struct hvd_buf *buf, const char *s)
{
    cJSON *item = fake_must(cJSON_CreateString(s));
    char *text = fake_must(cJSON_PrintUnformatted(item));

    fake_puts(buf, text);
    cJSON_free(text);
    cJSON_Delete(item);
}

void fake_set(cJSON *object, const char *key, cJSON *item)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    if (!cJSON_AddItemToObject(object, key, fake_must(item)))
        end();
}

void fake_set_str(cJSON *object, const char *key, const char *text)
{
    fake_set(object, key, cJSON_CreateString(text));
}

void fake_set_int(cJSON *object, const char *key, int64_t number)
{
    fake_set(object, key, cJSON_CreateNumber((double)number));
}

cJSON *fake_object_at(cJSON *object, const char *key)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!cJSON_IsObject(item)) {
        item = fake_must(cJSON_CreateObject());
        fake_set(object, key, item);
    }
    return item;
}

cJSON *fake_array_at(cJSON *object, const char *key)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!cJSON_IsArray(item)) {
        item = fake_must(cJSON_CreateArray());
        fake_set(object, key, item);
    }
    return item;
}
