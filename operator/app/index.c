/*
 * Maps of texts, on uthash. The only file that expands uthash's macros: each of them is more than a
 * hundred statements, which is why the size of functions is not checked here. Memory comes from the
 * project's allocator, and running out of it is reported.
 */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) hvd_malloc((size), 1)
#define uthash_free(p, size) hvd_free(p)

#include "base/mem.h"

#include "operator/app/index.h"

#include <string.h>

/* In this file: the size of what uthash's macros expand to is not ours to lower. */

/* NOLINTNEXTLINE(readability-function-size,readability-function-cognitive-complexity) */
struct hvd_index_node *hvd_index_find(const struct hvd_index *index, const char *key)
{
    struct hvd_index_node *node = NULL;

    HASH_FIND(_hh, index->_head, key, strlen(key), node);
    return node;
}

/* NOLINTNEXTLINE(readability-function-size,readability-function-cognitive-complexity) */
hvd_status_t hvd_index_add(struct hvd_index *index, struct hvd_index_node *node, const char *key)
{
    node->key = hvd_strdup(key);
    if (!node->key)
        return HVD_ERR_NOMEM;
    HASH_ADD_KEYPTR(_hh, index->_head, node->key, strlen(node->key), node);
    if (node->_hh.tbl)
        return HVD_OK;
    hvd_free(node->key);
    node->key = NULL;
    return HVD_ERR_NOMEM;
}

/* NOLINTNEXTLINE(readability-function-size,readability-function-cognitive-complexity) */
void hvd_index_remove(struct hvd_index *index, struct hvd_index_node *node)
{
    HASH_DELETE(_hh, index->_head, node);
    hvd_free(node->key);
    node->key = NULL;
}

struct hvd_index_node *hvd_index_first(const struct hvd_index *index)
{
    return index->_head;
}

struct hvd_index_node *hvd_index_next(const struct hvd_index_node *node)
{
    return node->_hh.next;
}

size_t hvd_index_count(const struct hvd_index *index)
{
    return HASH_CNT(_hh, index->_head);
}
