#ifndef HVD_OPERATOR_APP_INDEX_H
#define HVD_OPERATOR_APP_INDEX_H

#include <stddef.h>

#include <uthash.h>

#include "base/status.h"

/* A map from texts to the structs that hold a node; in the order of insertion. One thread. */
struct hvd_index_node {
    char *key; /* owned by the node while it is in an index */
    UT_hash_handle _hh;
};

/* Zeroed: empty. Frees itself when the last node is removed. */
struct hvd_index {
    struct hvd_index_node *_head;
};

/* The node of that key; NULL when there is none. Never allocates. */
struct hvd_index_node *hvd_index_find(const struct hvd_index *index, const char *key);

/* Adds a node that is in no index, under a copy of a key that is not there. HVD_ERR_NOMEM. */
hvd_status_t hvd_index_add(struct hvd_index *index, struct hvd_index_node *node, const char *key);

/* Takes the node out and frees its key. */
void hvd_index_remove(struct hvd_index *index, struct hvd_index_node *node);

/* The first node, and the one after node; NULL at the end. A node may be removed once its successor
 * is known. */
struct hvd_index_node *hvd_index_first(const struct hvd_index *index);
struct hvd_index_node *hvd_index_next(const struct hvd_index_node *node);

/* How many nodes there are. */
size_t hvd_index_count(const struct hvd_index *index);

#endif
