#ifndef HVD_BASE_STR_H
#define HVD_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A piece of text that its holder borrows; not terminated. */
struct hvd_strview {
    const char *data;
    size_t len;
};

/* Returns a view of a terminated string, which must outlive it. */
struct hvd_strview hvd_strview_of(const char *s);

/* Returns whether the view holds exactly the string. */
bool hvd_strview_equal(struct hvd_strview view, const char *s);

/* Returns whether both views hold the same text. */
bool hvd_strview_same(struct hvd_strview a, struct hvd_strview b);

/*
 * Cuts the view at the first separator: returns the text before it and moves *rest behind it.
 * Without a separator returns all and sets rest->data to NULL, which ends a loop:
 *     while (rest.data) { struct hvd_strview item = hvd_strview_cut(&rest, ','); ... }
 */
struct hvd_strview hvd_strview_cut(struct hvd_strview *rest, char separator);

/* The view without white space at its ends. */
struct hvd_strview hvd_strview_trim(struct hvd_strview view);

/*
 * Parses a decimal integer within [min, max]; the text may hold nothing else. On failure leaves
 * *out alone and fills err (may be NULL) with the text and the range: the caller adds the name.
 */
hvd_status_t hvd_str_parse_int64(struct hvd_strview text, const int64_t range_min_max[2],
                                 int64_t *out, struct hvd_err *err);

/* Returns whether s (may be NULL) starts with the prefix. */
bool hvd_str_has_prefix(const char *s, const char *prefix);

/* Returns whether s (may be NULL) ends with the suffix. */
bool hvd_str_has_suffix(const char *s, const char *suffix);

/* Returns whether both are NULL or both hold the same text. */
bool hvd_str_equal(const char *a, const char *b);

/*
 * Makes a text from outside safe to display. Replaces each byte of these characters by a question
 * mark: control characters but tabs and newlines, of one byte or of two in UTF-8, and those that
 * change the direction of writing (U+202A to U+202E, U+2066 to U+2069). The length stays.
 */
void hvd_str_disarm(char *text);

#endif
