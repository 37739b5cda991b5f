/*
 * The cache of places. A node's labels seldom change, but nodes come and go under new names: what
 * has not been asked for again within its time is swept away. Jobs choose their keys, so of those a
 * hash is kept, and when there is too much for all jobs, only the places of the one that asks stay.
 * Pure but for the allocator.
 */
#include "operator/app/places.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/core/hash.h"
#include "operator/core/topology.h"

#define KEPT_MS ((int64_t)3600 * 1000)
#define RETRIED_MS ((int64_t)300 * 1000) /* a node that could not be read */
#define SWEEP_EVERY 256

#define KEYS_SIZE                                                                                  \
    33 /* two hashes; keys that had both of others would order ranks by their labels */

struct place {
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

static size_t size_of(const struct place *place)
{
    return sizeof(*place) + strlen(place->name) + 1 + (place->text ? strlen(place->text) + 1 : 0);
}

static struct place *place_at(const struct hvd_index_node *node)
{
    return node ? (struct place *)((char *)node - offsetof(struct place, node)) : NULL;
}

static struct hvd_index_key key_of(const struct hvd_index_node *node)
{
    const struct place *place = place_at(node);

    return (struct hvd_index_key){0, place->keys, place->name};
}

static struct place *find(const struct hvd_place_cache *cache, const char *name, const char *keys)
{
    char hash[KEYS_SIZE];

    hash_keys(keys, hash);
    return place_at(hvd_index_find(&cache->index, &(struct hvd_index_key){0, hash, name}));
}

static void free_place(struct place *place)
{
    hvd_free(place->name);
    hvd_free(place->text);
    hvd_free(place);
}

static void forget(struct hvd_place_cache *cache, struct place *place)
{
    hvd_index_remove(&cache->index, &place->node);
    cache->bytes -= size_of(place);
    free_place(place);
}

/* Forgets what is older than its time, but for those of but_keys (a hash; NULL: of none), and
 * everything for now_ms = INT64_MAX. */
static void sweep(struct hvd_place_cache *cache, int64_t now_ms, const char *but_keys)
{
    struct hvd_index_node *node = hvd_index_first(&cache->index);

    while (node) {
        struct place *place = place_at(node);

        node = hvd_index_next(&cache->index, node);
        if (place->until_ms <= now_ms && (!but_keys || strcmp(place->keys, but_keys) != 0))
            forget(cache, place);
    }
}

static struct place *add(struct hvd_place_cache *cache, const char *name, const char *keys)
{
    struct place *place = hvd_calloc(1, sizeof(*place));

    if (!place)
        return NULL;
    place->name = hvd_strdup(name);
    hash_keys(keys, place->keys);
    cache->index.key_of = key_of;
    if (!place->name || hvd_index_add(&cache->index, &place->node) != HVD_OK) {
        free_place(place);
        return NULL;
    }
    cache->bytes += size_of(place);
    return place;
}

hvd_status_t hvd_place_cache_put(struct hvd_place_cache *cache, const char *node, const char *keys,
                                 const cJSON *object)
{
    const cJSON *labels = hvd_json_at(object, "metadata.labels");
    struct place *place = find(cache, node, keys);
    char *text = NULL;
    hvd_status_t st = hvd_topology_text(labels, keys, &text);

    if (st == HVD_OK && !place)
        place = add(cache, node, keys);
    if (!place || st != HVD_OK) {
        hvd_free(text);
        return HVD_ERR_NOMEM;
    }
    cache->bytes -= size_of(place);
    hvd_free(place->text);
    place->text = text;
    cache->bytes += size_of(place);
    place->until_ms = cache->now_ms + (object ? KEPT_MS : RETRIED_MS);
    if (++cache->n_put % SWEEP_EVERY == 0)
        sweep(cache, cache->now_ms, NULL);
    if (cache->bytes > HVD_PLACES_MAX)
        sweep(cache, INT64_MAX, place->keys);
    return HVD_OK;
}

const char *hvd_place_cache_find(void *ctx, const char *node, const char *keys)
{
    struct hvd_place_cache *cache = ctx;
    const struct place *place = find(cache, node, keys);

    return place && place->until_ms > cache->now_ms ? place->text : NULL;
}

void hvd_place_cache_fini(struct hvd_place_cache *cache)
{
    sweep(cache, INT64_MAX, NULL);
    *cache = (struct hvd_place_cache){0};
}
