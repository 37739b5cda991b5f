#ifndef HVD_TESTS_FAKE_APISERVER_MUST_H
#define HVD_TESTS_FAKE_APISERVER_MUST_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"

/* A test program that is out of memory can only end: these do so instead of failing. */

/* p, which is never NULL. */
void *fake_must(void *p);

/* A zeroed block. */
void *fake_new(size_t size);

/* A copy of the text; NULL stays NULL. */
char *fake_copy(const char *s);

/* Appends bytes, a string, formatted text. */
void fake_add(struct hvd_buf *buf, const void *data, size_t len);
void fake_puts(struct hvd_buf *buf, const char *s);
void fake_printf(struct hvd_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the text as a JSON string, quotes included. */
void fake_put_json(struct hvd_buf *buf, const char *s);

/* An empty buffer without a bound that matters. */
struct hvd_buf fake_buf(void);

/* Sets object[key], replacing what was there; takes the item. */
void fake_set(cJSON *object, const char *key, cJSON *item);
void fake_set_str(cJSON *object, const char *key, const char *text);
void fake_set_int(cJSON *object, const char *key, int64_t number);

/* The object or array at object[key], made when it is absent or something else. */
cJSON *fake_object_at(cJSON *object, const char *key);
cJSON *fake_array_at(cJSON *object, const char *key);

#endif
