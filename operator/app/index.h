#ifndef HVD_OPERATOR_APP_INDEX_H
#define HVD_OPERATOR_APP_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A map from keys to the structs that embed a node. It stores only a hash of each key: the holders
 * have their keys and supply them through key_of. One thread.
 */
struct hvd_index_node {
    struct hvd_index_node *_next; /* in the bucket */
    uint64_t _hash;
};

struct hvd_index_key {
    unsigned kind;
    const char *space;
    const char *name;
};

/* Returns the key of a node, which is constant while the node is in an index. */
typedef struct hvd_index_key (*hvd_index_key_fn)(const struct hvd_index_node *node);

/* Zeroed except for key_of: empty. Frees its memory when the last node is removed. */
struct hvd_index {
    hvd_index_key_fn key_of;
    struct hvd_index_node **_buckets;
    size_t _n_buckets; /* a power of two, or 0 */
    size_t _n;
};

/* The node of that key; NULL when there is none. Never allocates. */
struct hvd_index_node *hvd_index_find(const struct hvd_index *index,
                                      const struct hvd_index_key *key);

/* Adds a node that is in no index, under its key, which must be new. HVD_ERR_NOMEM. */
hvd_status_t hvd_index_add(struct hvd_index *index, struct hvd_index_node *node);

/* Removes the node. */
void hvd_index_remove(struct hvd_index *index, struct hvd_index_node *node);

/* Replaces a node by another of the same key. */
void hvd_index_replace(struct hvd_index *index, struct hvd_index_node *node,
                       struct hvd_index_node *by);

/* The first node, and the one after node, in no order; NULL at the end. A node may be removed once
 * its successor is known. */
struct hvd_index_node *hvd_index_first(const struct hvd_index *index);
struct hvd_index_node *hvd_index_next(const struct hvd_index *index,
                                      const struct hvd_index_node *node);

/* The number of nodes. */
size_t hvd_index_count(const struct hvd_index *index);

#endif
