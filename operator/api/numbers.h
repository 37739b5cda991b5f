#ifndef HVD_OPERATOR_API_NUMBERS_H
#define HVD_OPERATOR_API_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/str.h"

/*
 * Numbers of a document that a double does not hold, or that cJSON would print in another way, keep
 * their text: 9007199254740993, 1000000000000000, 1.0, -0. cJSON keeps a text only of a string, so
 * such a number is parsed as a string with a mark, and is a number again before anybody sees it.
 */

/*
 * The bytes that hvd_numbers_quote needs beyond those of the text; 0: it would change nothing.
 * False when the text is no JSON: it holds something like a number that is none (007, 1.), or the
 * mark, which is no UTF-8.
 */
bool hvd_numbers_measure(struct hvd_strview text, size_t *out);

/* Copies the text with each such number as a marked string; returns the length of the copy. */
size_t hvd_numbers_quote(struct hvd_strview text, char *out);

/* Makes numbers of the marked strings at and below item, in place: cJSON.valuestring is the text of
 * such a number. False if a key is marked: the text was no JSON. */
bool hvd_numbers_restore(cJSON *item);

/* Whether the text is a number as JSON writes it. */
bool hvd_numbers_is_number(struct hvd_strview text);

#endif
