/*
 * The cache of topology. A node's labels seldom change, but nodes come and go under new names, so
 * unused entries expire. Jobs choose their keys, so the cache keeps only a hash of them. When it is
 * full, it keeps only the topology of the job that asks. Pure but for the allocator.
 */
#include "operator/app/node_topology.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/topology.h"

#define KEPT_MS ((int64_t)3600 * 1000)
#define RETRIED_MS ((int64_t)300 * 1000) /* a node that could not be read */
#define SWEEP_EVERY 256

#define KEYS_SIZE                                                                                  \
    33 /* two hashes; a job whose keys had both hashes of others would order ranks by their        \
          labels */

struct known {
    struct hvd_index_node node;
    char *name; /* of the node; owned */
    char *text; /* owned */
    int64_t until_ms;
    char keys[KEYS_SIZE]; /* of the job */
};

static void hash_keys(const char *keys, char out[KEYS_SIZE])
{
    const uint64_t hash = hvd_hash_text(HVD_HASH_START, keys);

    (void)snprintf(out, KEYS_SIZE, "%016" PRIx64 "%016" PRIx64, hash,
                   hvd_hash_text(hvd_hash_number(HVD_HASH_START, 1), keys));
}

static size_t size_of(const struct known *known)
{
    return sizeof(*known) + strlen(known->name) + 1 + (known->text ? strlen(known->text) + 1 : 0);
}

static struct known *known_at(const struct hvd_index_node *node)
{
    return node ? (struct known *)((char *)node - offsetof(struct known, node)) : NULL;
}

static struct hvd_index_key key_of(const struct hvd_index_node *node)
{
    const struct known *known = known_at(node);

    return (struct hvd_index_key){0, known->keys, known->name};
}

static struct known *find(const struct hvd_node_topology *cache, const char *name, const char *keys)
{
    char hash[KEYS_SIZE];

    hash_keys(keys, hash);
    return known_at(hvd_index_find(&cache->index, &(struct hvd_index_key){0, hash, name}));
}

static void free_known(struct known *known)
{
    hvd_free(known->name);
    hvd_free(known->text);
    hvd_free(known);
}

static void forget(struct hvd_node_topology *cache, struct known *known)
{
    hvd_index_remove(&cache->index, &known->node);
    cache->bytes -= size_of(known);
    free_known(known);
}

/* Forgets expired entries, except those of but_keys (a hash; NULL: none); all for now_ms =
 * INT64_MAX. */
static void sweep(struct hvd_node_topology *cache, int64_t now_ms, const char *but_keys)
{
    struct hvd_index_node *node = hvd_index_first(&cache->index);

    while (node) {
        struct known *known = known_at(node);

        node = hvd_index_next(&cache->index, node);
        if (known->until_ms <= now_ms && (!but_keys || strcmp(known->keys, but_keys) != 0))
            forget(cache, known);
    }
}

static struct known *add(struct hvd_node_topology *cache, const char *name, const char *keys)
{
    struct known *known = hvd_calloc(1, sizeof(*known));

    if (!known)
        return NULL;
    known->name = hvd_strdup(name);
    hash_keys(keys, known->keys);
    cache->index.key_of = key_of;
    if (!known->name || hvd_index_add(&cache->index, &known->node) != HVD_OK) {
        free_known(known);
        return NULL;
    }
    cache->bytes += size_of(known);
    return known;
}

hvd_status_t hvd_node_topology_put(struct hvd_node_topology *cache, const char *node,
                                   const char *keys, const cJSON *object)
{
    const cJSON *labels = hvd_json_at(object, "metadata.labels");
    struct known *known = find(cache, node, keys);
    char *text = NULL;
    hvd_status_t st = hvd_topology_text(labels, keys, &text);

    if (st == HVD_OK && !known)
        known = add(cache, node, keys);
    if (!known || st != HVD_OK) {
        hvd_free(text);
        return HVD_ERR_NOMEM;
    }
    cache->bytes -= size_of(known);
    hvd_free(known->text);
    known->text = text;
    cache->bytes += size_of(known);
    known->until_ms = cache->now_ms + (object ? KEPT_MS : RETRIED_MS);
    if (++cache->n_put % SWEEP_EVERY == 0)
        sweep(cache, cache->now_ms, NULL);
    if (cache->bytes > HVD_NODE_TOPOLOGY_MAX)
        sweep(cache, INT64_MAX, known->keys);
    return HVD_OK;
}

const char *hvd_node_topology_find(void *ctx, const char *node, const char *keys)
{
    struct hvd_node_topology *cache = ctx;
    const struct known *known = find(cache, node, keys);

    return known && known->until_ms > cache->now_ms ? known->text : NULL;
}

void hvd_node_topology_fini(struct hvd_node_topology *cache)
{
    sweep(cache, INT64_MAX, NULL);
    *cache = (struct hvd_node_topology){0};
}
