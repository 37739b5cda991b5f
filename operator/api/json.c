/*
 * Reads and builds JSON with cJSON, whose allocator is base/mem. Readers treat an absent value like
 * one of another type. Builders share one sticky failure and never leave a node without an owner: a
 * node that cannot be attached is freed at once.
 */
#include "operator/api/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/numbers.h"

#define FMT_MAX 65536
#define EXACT_MAX 9007199254740992.0 /* 2^53: whole numbers above it are not exact in a double */
#define EXACT_INT (INT64_C(1) << 53)

#define BLOCK_MIN ((size_t)32 * 1024)
#define BLOCK_MAX ((size_t)256 * 1024)

/* The memory of the one tree that hvd_json_read made: pieces of blocks, which are freed together.
 * Most documents fit into the first block, which stays. */
struct block {
    struct block *next;
    size_t size; /* of pieces */
    size_t used;
    max_align_t pieces[];
};

static struct {
    struct block *blocks;
    cJSON *doc;
    bool is_hooked;  /* cJSON allocates from here */
    bool is_reading; /* every allocation now belongs to the tree */
    bool has_failed; /* an allocation failed */
} tree;

static union {
    struct block block;
    max_align_t room[BLOCK_MIN / sizeof(max_align_t)];
} first;

static struct block *new_block(size_t size)
{
    size_t room = tree.blocks ? tree.blocks->size * 2 : sizeof(first) - sizeof(struct block);
    struct block *block = &first.block;

    room = room > BLOCK_MAX ? BLOCK_MAX : room;
    if (tree.blocks || room < size) {
        room = room < size ? size : room;
        block = hvd_malloc(sizeof(*block) + room, 1);
    }
    if (block)
        *block = (struct block){.next = tree.blocks, .size = room};
    return block;
}

static void *cut_piece(size_t size)
{
    const size_t unit = sizeof(max_align_t);
    struct block *block = tree.blocks;
    size_t at;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + unit - 1) / unit * unit;
    if (!block || block->size - block->used < size) {
        block = new_block(size);
        if (!block)
            return NULL;
        tree.blocks = block;
    }
    at = block->used / unit;
    block->used += size;
    return &block->pieces[at];
}

static void free_blocks(void)
{
    while (tree.blocks) {
        struct block *next = tree.blocks->next;

        if (tree.blocks != &first.block)
            hvd_free(tree.blocks);
        tree.blocks = next;
    }
}

static void *json_malloc(size_t size)
{
    void *p = tree.is_reading ? cut_piece(size) : hvd_malloc(size, 1);

    tree.has_failed |= !p;
    return p;
}

static void json_free(void *p)
{
    if (!tree.is_reading)
        hvd_free(p);
}

void hvd_json_use_base_memory(void)
{
    cJSON_Hooks hooks = {.malloc_fn = json_malloc, .free_fn = json_free};

    cJSON_InitHooks(&hooks);
    tree.is_hooked = true;
}

/* ---- the character NUL ---- */

/*
 * A JSON string may hold NUL, as \u0000, where a C string ends. The reader replaces each NUL by
 * U+FFFD and marks the nodes above it, so that no text is cut and no two keys become equal. Between
 * the text and the tree, three bytes that are invalid UTF-8 stand for it: a U+FFFD of the text
 * itself marks nothing.
 */
#define NUL_ESCAPE "\\u0000"
#define NUL_BYTES "\xE0\x80\x80"
#define REPLACEMENT "\xEF\xBF\xBD"
#define HAS_NUL (1 << 16) /* of cJSON.type; cJSON itself uses the lowest ten bits */

/* Whether the backslash begins an escape: the number of backslashes before it is even. */
static bool is_escape(const char *text, const char *backslash)
{
    const char *back = backslash;

    while (back > text && back[-1] == '\\')
        back--;
    return (backslash - back) % 2 == 0;
}

/* Copies the text with NUL_BYTES for each escape; returns the length of the copy. */
static size_t replace_escapes(struct hvd_strview text, char *out)
{
    const size_t n = strlen(NUL_ESCAPE);
    const char *at = text.data, *end = text.data + text.len, *next;
    char *to = out;

    while ((next = memmem(at, (size_t)(end - at), NUL_ESCAPE, n)) != NULL) {
        bool is_real = is_escape(text.data, next);

        memcpy(to, at, (size_t)(next - at));
        to += next - at;
        memcpy(to, is_real ? NUL_BYTES : NUL_ESCAPE, is_real ? strlen(NUL_BYTES) : n);
        to += is_real ? strlen(NUL_BYTES) : n;
        at = next + n;
    }
    memcpy(to, at, (size_t)(end - at));
    return (size_t)(to + (end - at) - out);
}

static bool restore(char *text)
{
    char *at = text;
    bool is_found = false;

    while (at && (at = strstr(at, NUL_BYTES)) != NULL) {
        memcpy(at, REPLACEMENT, strlen(REPLACEMENT));
        is_found = true;
    }
    return is_found;
}

/* Replaces NUL_BYTES by U+FFFD and marks the nodes that held them. Recurses no deeper than
 * cJSON. */
static bool mark_nuls(cJSON *item)
{
    const bool is_in_key = restore(item->string);
    bool is_found = restore(item->valuestring) || is_in_key;
    cJSON *child = NULL;

    cJSON_ArrayForEach(child, item)
    {
        is_found = mark_nuls(child) || is_found;
    }
    if (is_found)
        item->type |= HAS_NUL;
    return is_found;
}

/* The member or element of item with a NUL; NULL if none. */
static const cJSON *marked_child(const cJSON *item, size_t *index)
{
    const cJSON *child = NULL;

    *index = 0;
    cJSON_ArrayForEach(child, item)
    {
        if (child->type & HAS_NUL)
            return child;
        ++*index;
    }
    return NULL;
}

/* Appends the child's place in its parent. False, with path unchanged, if there is no room. */
static bool append_place(const cJSON *child, size_t index, char *path, size_t size)
{
    size_t len = strlen(path);
    int wanted;

    if (!child->string)
        wanted = snprintf(path + len, size - len, "[%zu]", index);
    else if (strchr(child->string, '.'))
        wanted = snprintf(path + len, size - len, "[%s]", child->string);
    else
        wanted = snprintf(path + len, size - len, ".%s", child->string);
    if (wanted >= 0 && (size_t)wanted < size - len)
        return true;
    path[len] = '\0';
    return false;
}

bool hvd_json_find_nul(const cJSON *item, char *path, size_t size)
{
    bool has_room = true;
    size_t index;

    if (!item || !(item->type & HAS_NUL))
        return false;
    while (has_room && (item = marked_child(item, &index)) != NULL)
        has_room = append_place(item, index, path, size);
    return true;
}

/* ---- reading ---- */

static cJSON *parse_nuls(struct hvd_strview text)
{
    cJSON *doc = NULL;
    char *copy;

    if (!text.len || !memchr(text.data, '\\', text.len) || /* most texts have no escape */
        !memmem(text.data, text.len, NUL_ESCAPE, strlen(NUL_ESCAPE)))
        return cJSON_ParseWithLength(text.data, text.len);
    copy = json_malloc(text.len);
    if (copy)
        doc = cJSON_ParseWithLength(copy, replace_escapes(text, copy));
    json_free(copy);
    if (doc)
        (void)mark_nuls(doc);
    return doc;
}

/* Frees the document unless it is the tree, whose blocks are freed together. */
static void forget(cJSON *doc)
{
    if (!tree.is_reading)
        cJSON_Delete(doc);
}

static cJSON *parse(struct hvd_strview text)
{
    size_t room = 0;
    cJSON *doc = NULL;
    char *copy;

    if (text.len && memchr(text.data, '\0', text.len))
        return NULL; /* cJSON would read NUL as a blank, or as the end of a string */
    if (!hvd_numbers_measure(text, &room))
        return NULL;
    if (room == 0)
        return parse_nuls(text);
    copy = json_malloc(text.len + room);
    if (copy)
        doc = parse_nuls((struct hvd_strview){copy, hvd_numbers_quote(text, copy)});
    json_free(copy);
    if (doc && !hvd_numbers_restore(doc)) {
        forget(doc);
        doc = NULL;
    }
    return doc;
}

static cJSON *parse_into_tree(struct hvd_strview text)
{
    cJSON *doc;

    tree.is_reading = true;
    doc = parse(text);
    tree.is_reading = false;
    tree.doc = doc;
    if (!doc)
        free_blocks();
    return doc;
}

hvd_status_t hvd_json_read(struct hvd_strview text, cJSON **out)
{
    cJSON *doc;

    tree.has_failed = false;
    doc = tree.doc || !tree.is_hooked ? parse(text) : parse_into_tree(text);
    if (!doc)
        return tree.has_failed ? HVD_ERR_NOMEM : HVD_ERR_INVALID;
    *out = doc;
    return HVD_OK;
}

hvd_status_t hvd_json_parse(const char *text, cJSON **out)
{
    cJSON *doc;

    tree.has_failed = false;
    doc = parse(hvd_strview_of(text));
    if (!doc)
        return tree.has_failed ? HVD_ERR_NOMEM : HVD_ERR_INVALID;
    *out = doc;
    return HVD_OK;
}

void hvd_json_drop(cJSON *doc)
{
    if (!doc || doc != tree.doc) {
        cJSON_Delete(doc);
        return;
    }
    tree.doc = NULL;
    free_blocks();
}

const cJSON *hvd_json_get(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

/* A loop, because most keys differ in their first bytes and a call would cost more. */
static bool is_key(const char *text, const char *key, size_t len)
{
    size_t i = 0;

    while (i < len && text[i] == key[i])
        i++;
    return i == len && !text[i];
}

static const cJSON *get_n(const cJSON *object, const char *key, size_t len)
{
    const cJSON *item = NULL;

    if (!cJSON_IsObject(object))
        return NULL;
    cJSON_ArrayForEach(item, object)
    {
        if (item->string && is_key(item->string, key, len))
            return item;
    }
    return NULL;
}

const cJSON *hvd_json_at(const cJSON *object, const char *path)
{
    while (object) {
        size_t len = (size_t)(strchrnul(path, '.') - path);

        object = get_n(object, path, len);
        if (path[len] == '\0')
            break;
        path += len + 1;
    }
    return object;
}

const char *hvd_json_str(const cJSON *object, const char *path)
{
    return cJSON_GetStringValue((cJSON *)hvd_json_at(object, path));
}

/* A whole number without fraction and exponent; beyond 2^53 the result is 2^53. */
static bool read_integer(const char *text, int64_t *out)
{
    char *end;
    long long value;

    if (!text)
        return false;
    value = strtoll(text, &end, 10); /* saturates */
    if (*end != '\0')
        return false;
    if (value > EXACT_INT)
        value = EXACT_INT;
    *out = value < -EXACT_INT ? -EXACT_INT : value;
    return true;
}

int64_t hvd_json_int(const cJSON *object, const char *path, int64_t fallback)
{
    const cJSON *item = hvd_json_at(object, path);
    int64_t exact;
    double value;

    if (!cJSON_IsNumber(item))
        return fallback;
    if (read_integer(item->valuestring, &exact))
        return exact;
    value = item->valuedouble;
    if (!(fabs(value) <= EXACT_MAX) || value != (double)(int64_t)value)
        return fallback;
    return (int64_t)value;
}

bool hvd_json_true(const cJSON *object, const char *path)
{
    return cJSON_IsTrue(hvd_json_at(object, path));
}

/* Attaches item (NULL: out of memory) to parent; takes ownership in every case. */
static cJSON *attach(struct hvd_jb *jb, cJSON *parent, const char *key, cJSON *item)
{
    bool ok = false;

    if (!item) {
        jb->failed = true;
        return NULL;
    }
    if (key)
        ok = cJSON_AddItemToObject(parent, key, item);
    else
        ok = cJSON_AddItemToArray(parent, item);
    if (!ok) {
        cJSON_Delete(item);
        jb->failed = true;
        return NULL;
    }
    return item;
}

/* Replaces the value of the key, so that no object has the key twice. */
static cJSON *put(struct hvd_jb *jb, cJSON *parent, const char *key, cJSON *item)
{
    if (key)
        cJSON_DeleteItemFromObjectCaseSensitive(parent, key);
    return attach(jb, parent, key, item);
}

cJSON *hvd_jb_root(struct hvd_jb *jb)
{
    cJSON *root = cJSON_CreateObject();

    if (!root)
        jb->failed = true;
    return root;
}

cJSON *hvd_jb_object(struct hvd_jb *jb, cJSON *parent, const char *key)
{
    return parent ? put(jb, parent, key, cJSON_CreateObject()) : NULL;
}

cJSON *hvd_jb_array(struct hvd_jb *jb, cJSON *parent, const char *key)
{
    return parent ? put(jb, parent, key, cJSON_CreateArray()) : NULL;
}

void hvd_jb_str(struct hvd_jb *jb, cJSON *parent, const char *key, const char *text)
{
    if (parent)
        put(jb, parent, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void hvd_jb_int(struct hvd_jb *jb, cJSON *parent, const char *key, int64_t number)
{
    cJSON *item = parent ? cJSON_CreateNumber((double)number) : NULL;
    char text[32];

    if (!parent)
        return;
    item = put(jb, parent, key, item);
    if (!item || (number <= EXACT_INT && number >= -EXACT_INT))
        return;
    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    item->valuestring = hvd_strdup(text);
    jb->failed = jb->failed || !item->valuestring;
}

void hvd_jb_bool(struct hvd_jb *jb, cJSON *parent, const char *key, bool value)
{
    if (parent)
        put(jb, parent, key, cJSON_CreateBool(value));
}

static char *format(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

static char *format(const char *fmt, va_list args)
{
    va_list again;
    char *text = NULL;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, args);
    if (len >= 0 && len < FMT_MAX)
        text = hvd_malloc((size_t)len + 1, 1);
    if (text)
        (void)vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}

void hvd_jb_fmt(struct hvd_jb *jb, cJSON *parent, const char *key, const char *fmt, ...)
{
    va_list args;
    char *text;

    va_start(args, fmt);
    text = format(fmt, args);
    va_end(args);
    if (text)
        hvd_jb_str(jb, parent, key, text);
    else
        jb->failed = true;
    hvd_free(text);
}

void hvd_jb_copy(struct hvd_jb *jb, cJSON *parent, const char *key, const cJSON *item)
{
    if (parent && item)
        put(jb, parent, key, cJSON_Duplicate(item, true));
}

static cJSON *existing(cJSON *parent, const char *key)
{
    return cJSON_IsObject(parent) ? cJSON_GetObjectItemCaseSensitive(parent, key) : NULL;
}

cJSON *hvd_jb_ensure_object(struct hvd_jb *jb, cJSON *parent, const char *key)
{
    cJSON *item = existing(parent, key);

    if (item && !cJSON_IsNull(item))
        return cJSON_IsObject(item) ? item : NULL;
    return parent ? hvd_jb_object(jb, parent, key) : NULL;
}

cJSON *hvd_jb_ensure_array(struct hvd_jb *jb, cJSON *parent, const char *key)
{
    cJSON *item = existing(parent, key);

    if (item && !cJSON_IsNull(item))
        return cJSON_IsArray(item) ? item : NULL;
    return parent ? hvd_jb_array(jb, parent, key) : NULL;
}

char *hvd_jb_print(struct hvd_jb *jb, const cJSON *root)
{
    char *text = jb->failed ? NULL : hvd_print_json(root);

    if (!text)
        jb->failed = true;
    return text;
}
