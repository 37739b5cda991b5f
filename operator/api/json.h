#ifndef HVD_OPERATOR_API_JSON_H
#define HVD_OPERATOR_API_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "base/str.h"

/*
 * Reading and building JSON with cJSON. Reading never fails: what is absent or of another type is
 * NULL or the fallback. One thread at a time, as cJSON's allocator hooks are global.
 */

/* Makes cJSON allocate through base/mem. Call once, before any other use of cJSON. */
void hvd_json_use_base_memory(void);

/*
 * Parses a document that is read and soon dropped. Its tree lies in a few blocks, not in one for
 * each node: that is quicker, and leaves no holes between what stays. While one is there a second
 * one is parsed as usual, and so is every one before hvd_json_use_base_memory. The tree must not be
 * changed, and goes by hvd_json_drop alone. The character NUL in a key or a text is read as U+FFFD
 * and remembered. A number that a double does not hold, or that is written in another way than
 * hvd_print_json would, keeps its text in cJSON.valuestring, also in copies. HVD_ERR_INVALID: no
 * JSON, or one that nests deeper than cJSON reads; HVD_ERR_NOMEM; *out is untouched then.
 */
hvd_status_t hvd_json_read(struct hvd_strview text, cJSON **out);

/* Parses a document that may be changed, and kept: the caller's to cJSON_Delete. NULs and numbers
 * are read as by hvd_json_read, and failures are the same. */
hvd_status_t hvd_json_parse(const char *text, cJSON **out);

/* The compact text of root, the caller's to hvd_free. Numbers that kept their text are printed as
 * they were. NULL: out of memory, or root is NULL. */
char *hvd_print_json(const cJSON *root);

/*
 * Whether a key or a text at or below item, which is a part of a document that hvd_json_read made,
 * held the character NUL. Appends where the first one is to path, which has size bytes and holds
 * the path of item, as far as there is room: ".args[1]". NULL holds none.
 */
bool hvd_json_find_nul(const cJSON *item, char *path, size_t size);

/* Frees such a document, or any other. NULL is legal. */
void hvd_json_drop(cJSON *doc);

/* The member called key of an object; NULL if there is none or object is no object (or NULL). */
const cJSON *hvd_json_get(const cJSON *object, const char *key);

/* Follows a dotted path ("metadata.labels"); keys that hold dots need hvd_json_get. Borrowed. */
const cJSON *hvd_json_at(const cJSON *object, const char *path);

/* The text at a path, borrowed; NULL if there is none. */
const char *hvd_json_str(const cJSON *object, const char *path);

/* The whole number at a path; fallback if there is none or it is not whole. An integer beyond
 * 2^53 counts as 2^53, so that a time of 2^63 - 1 seconds stays a long one. */
int64_t hvd_json_int(const cJSON *object, const char *path, int64_t fallback);

/* Whether true stands at the path. */
bool hvd_json_true(const cJSON *object, const char *path);

/*
 * Building. A struct hvd_jb remembers the first failure, so that a sequence of calls is checked
 * once, at its end: `struct hvd_jb jb = {0}; ... if (jb.failed) HVD_ERR_NOMEM`. Every call accepts
 * a NULL parent or item (after a failure) and then does nothing. Nodes made are owned by their
 * parent.
 */
struct hvd_jb {
    bool failed; /* out of memory somewhere */
};

/* A new free-standing object, the caller's to cJSON_Delete. NULL after a failure. */
cJSON *hvd_jb_root(struct hvd_jb *jb);

/* A new object or array under parent[key], or appended to the array parent for a NULL key. */
cJSON *hvd_jb_object(struct hvd_jb *jb, cJSON *parent, const char *key);
cJSON *hvd_jb_array(struct hvd_jb *jb, cJSON *parent, const char *key);

/* Sets parent[key], or appends for a NULL key. A NULL text writes null. */
void hvd_jb_str(struct hvd_jb *jb, cJSON *parent, const char *key, const char *text);
void hvd_jb_int(struct hvd_jb *jb, cJSON *parent, const char *key, int64_t number);
void hvd_jb_bool(struct hvd_jb *jb, cJSON *parent, const char *key, bool value);

/* Formatted text under parent[key]; at most 64 KiB. */
void hvd_jb_fmt(struct hvd_jb *jb, cJSON *parent, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A deep copy of item (NULL does nothing) under parent[key], or appended for a NULL key. */
void hvd_jb_copy(struct hvd_jb *jb, cJSON *parent, const char *key, const cJSON *item);

/* The object at parent[key], made when it is absent. NULL after a failure, and with jb untouched
 * when something else stands there: the API server will say so better. */
cJSON *hvd_jb_ensure_object(struct hvd_jb *jb, cJSON *parent, const char *key);
cJSON *hvd_jb_ensure_array(struct hvd_jb *jb, cJSON *parent, const char *key);

/* The compact text of root, the caller's to hvd_free; NULL after a failure (sets jb->failed). */
char *hvd_jb_print(struct hvd_jb *jb, const cJSON *root);

#endif
