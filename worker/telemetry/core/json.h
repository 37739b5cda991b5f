#ifndef HVD_WORKER_TELEMETRY_CORE_JSON_H
#define HVD_WORKER_TELEMETRY_CORE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Room for any event: a name of 1023 bytes takes up to six bytes for each. */
#define HVD_JSON_LINE_MAX 8192

/* One line of JSON under construction. It cuts off text beyond its size: callers stay within the
 * limit. */
struct hvd_json {
    size_t len;
    char text[HVD_JSON_LINE_MAX];
};

/* Appends text as it is. */
void hvd_json_raw(struct hvd_json *json, const char *text);

/* Appends a string in quotes: control bytes, quotes and backslashes escaped, bytes that are not
 * UTF-8 replaced by U+FFFD, so that any name is legal. */
void hvd_json_string(struct hvd_json *json, struct hvd_strview text);

/* Appends an integer. */
void hvd_json_int(struct hvd_json *json, int64_t value);

/* Appends nanoseconds as microseconds with three decimals. */
void hvd_json_micros(struct hvd_json *json, int64_t ns);

#endif
