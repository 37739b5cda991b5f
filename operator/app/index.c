/*
 * A hash table of chained nodes, which doubles when there are more nodes than buckets. It costs
 * only sixteen bytes a node and a pointer a bucket, because there is a node for each of our objects
 * in the cluster.
 */
#include "operator/app/index.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "operator/core/view/hash.h"

#define FIRST_BUCKETS 16

static uint64_t hash_of(const struct hvd_index_key *key)
{
    uint64_t hash = hvd_hash_number(HVD_HASH_START, (int64_t)key->kind);

    return hvd_hash_text(hvd_hash_text(hash, key->space), key->name);
}

static bool is_same(const struct hvd_index_key *a, const struct hvd_index_key *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0 && strcmp(a->space, b->space) == 0;
}

static size_t bucket_of(const struct hvd_index *index, uint64_t hash)
{
    return (size_t)hash & (index->_n_buckets - 1);
}

static void put(struct hvd_index *index, struct hvd_index_node *node)
{
    struct hvd_index_node **bucket = &index->_buckets[bucket_of(index, node->_hash)];

    node->_next = *bucket;
    *bucket = node;
}

static hvd_status_t grow(struct hvd_index *index)
{
    struct hvd_index larger = {.key_of = index->key_of, ._n = index->_n};
    struct hvd_index_node *node, *next;

    larger._n_buckets = index->_n_buckets ? index->_n_buckets * 2 : FIRST_BUCKETS;
    larger._buckets = hvd_calloc(larger._n_buckets, sizeof(void *));
    if (!larger._buckets)
        return HVD_ERR_NOMEM;
    for (node = hvd_index_first(index); node; node = next) {
        next = hvd_index_next(index, node);
        put(&larger, node);
    }
    hvd_free(index->_buckets);
    *index = larger;
    return HVD_OK;
}

struct hvd_index_node *hvd_index_find(const struct hvd_index *index,
                                      const struct hvd_index_key *key)
{
    const uint64_t hash = hash_of(key);
    struct hvd_index_node *node = index->_n ? index->_buckets[bucket_of(index, hash)] : NULL;

    for (; node; node = node->_next) {
        struct hvd_index_key own;

        if (node->_hash != hash)
            continue;
        own = index->key_of(node);
        if (is_same(&own, key))
            break;
    }
    return node;
}

hvd_status_t hvd_index_add(struct hvd_index *index, struct hvd_index_node *node)
{
    const struct hvd_index_key key = index->key_of(node);

    if (index->_n == index->_n_buckets && grow(index) != HVD_OK)
        return HVD_ERR_NOMEM;
    node->_hash = hash_of(&key);
    put(index, node);
    index->_n++;
    return HVD_OK;
}

/* The link that points to the node. */
static struct hvd_index_node **link_to(const struct hvd_index *index,
                                       const struct hvd_index_node *node)
{
    struct hvd_index_node **at = &index->_buckets[bucket_of(index, node->_hash)];

    while (*at != node)
        at = &(*at)->_next;
    return at;
}

void hvd_index_replace(struct hvd_index *index, struct hvd_index_node *node,
                       struct hvd_index_node *by)
{
    struct hvd_index_node **at = link_to(index, node);

    *by = *node;
    *at = by;
    node->_next = NULL;
}

void hvd_index_remove(struct hvd_index *index, struct hvd_index_node *node)
{
    *link_to(index, node) = node->_next;
    node->_next = NULL;
    if (--index->_n)
        return;
    hvd_free(index->_buckets);
    index->_buckets = NULL;
    index->_n_buckets = 0;
}

static struct hvd_index_node *first_from(const struct hvd_index *index, size_t bucket)
{
    for (; bucket < index->_n_buckets; bucket++)
        if (index->_buckets[bucket])
            return index->_buckets[bucket];
    return NULL;
}

struct hvd_index_node *hvd_index_first(const struct hvd_index *index)
{
    return first_from(index, 0);
}

struct hvd_index_node *hvd_index_next(const struct hvd_index *index,
                                      const struct hvd_index_node *node)
{
    return node->_next ? node->_next : first_from(index, bucket_of(index, node->_hash) + 1);
}

size_t hvd_index_count(const struct hvd_index *index)
{
    return index->_n;
}
