#ifndef HVD_OPERATOR_API_NUMBERS_H
#define HVD_OPERATOR_API_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/str.h"

/*
 * A number keeps its text if a double does not hold it or cJSON would print it differently:
 * 9007199254740993, 1000000000000000, 1.0, -0. cJSON keeps the text of strings only, so such a
 * number is parsed as a marked string. It becomes a number again before any caller sees it.
 */

/*
 * The bytes that hvd_numbers_quote needs beyond those of the text; 0: it would change nothing.
 * False when the text is no JSON: it holds a malformed number (007, 1.) or the mark, which is
 * invalid UTF-8.
 */
bool hvd_numbers_measure(struct hvd_strview text, size_t *out);

/* Copies the text with each such number as a marked string; returns the length of the copy. */
size_t hvd_numbers_quote(struct hvd_strview text, char *out);

/* Turns the marked strings at and below item into numbers, in place; cJSON.valuestring keeps the
 * text of each. False if a key is marked: the text was no JSON. */
bool hvd_numbers_restore(cJSON *item);

/* Whether the text is a number as JSON writes it. */
bool hvd_numbers_is_number(struct hvd_strview text);

#endif
