#ifndef HVD_OPERATOR_API_JSON_H
#define HVD_OPERATOR_API_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "base/str.h"

/*
 * Reads and builds JSON with cJSON. Readers never fail: they return NULL or the fallback for an
 * absent value and for one of another type. One thread at a time, as cJSON's allocator hooks are
 * global.
 */

/* Makes cJSON allocate through base/mem. Call once, before any other use of cJSON. */
void hvd_json_use_base_memory(void);

/*
 * Parses a document for short use. Its tree lies in a few blocks instead of one per node, which is
 * faster and does not fragment the heap. Only one such tree exists at a time: a second document is
 * parsed as usual, and so is every document before hvd_json_use_base_memory. The caller must not
 * change the tree and frees it with hvd_json_drop only. The character NUL in a key or a text
 * becomes U+FFFD and is remembered. A number keeps its text in cJSON.valuestring, also in copies,
 * if a double does not hold it or hvd_print_json would write it differently. HVD_ERR_INVALID: no
 * JSON, or one that nests deeper than cJSON reads; HVD_ERR_NOMEM; *out is untouched then.
 */
hvd_status_t hvd_json_read(struct hvd_strview text, cJSON **out);

/* Parses a document that the caller may change and keep, and frees with cJSON_Delete. Treats NULs
 * and numbers as hvd_json_read does, and fails alike. */
hvd_status_t hvd_json_parse(const char *text, cJSON **out);

/* Prints root as compact text, which the caller frees with hvd_free. Numbers that kept their text
 * are printed as that text. NULL: out of memory, or root is NULL. */
char *hvd_print_json(const cJSON *root);

/*
 * Whether a key or a text at or below item held the character NUL. hvd_json_read made the document
 * of item. Appends the place of the first NUL to path (".args[1]") as far as there is room; path
 * has size bytes and holds the path of item. NULL holds none.
 */
bool hvd_json_find_nul(const cJSON *item, char *path, size_t size);

/* Frees such a document, or any other. NULL is legal. */
void hvd_json_drop(cJSON *doc);

/* The member called key of an object; NULL if there is none, or if object is another type or
 * NULL. */
const cJSON *hvd_json_get(const cJSON *object, const char *key);

/* Follows a dotted path ("metadata.labels"); keys that hold dots need hvd_json_get. Borrowed. */
const cJSON *hvd_json_at(const cJSON *object, const char *path);

/* The text at a path, borrowed; NULL if there is none. */
const char *hvd_json_str(const cJSON *object, const char *path);

/* The whole number at a path; fallback if there is none or it is not whole. An integer beyond
 * 2^53 counts as 2^53, so that a time of 2^63 - 1 seconds stays a long one. */
int64_t hvd_json_int(const cJSON *object, const char *path, int64_t fallback);

/* Whether the value at the path is true. */
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

/* The object at parent[key], created when it is absent. Returns NULL after a failure. Returns NULL,
 * with jb untouched, also when the key has a value of another type: the API server's error explains
 * that better. */
cJSON *hvd_jb_ensure_object(struct hvd_jb *jb, cJSON *parent, const char *key);
cJSON *hvd_jb_ensure_array(struct hvd_jb *jb, cJSON *parent, const char *key);

/* The compact text of root, the caller's to hvd_free; NULL after a failure (sets jb->failed). */
char *hvd_jb_print(struct hvd_jb *jb, const cJSON *root);

#endif
