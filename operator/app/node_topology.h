#ifndef HVD_OPERATOR_APP_NODE_TOPOLOGY_H
#define HVD_OPERATOR_APP_NODE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/app/index.h"

/*
 * Where nodes are, as far as jobs asked: the values of their topology keys and nothing else, kept
 * for some time. One thread.
 */
#define HVD_NODE_TOPOLOGY_MAX                                                                      \
    ((size_t)16 << 20) /* bytes: more than the topology of any job take                            \
                        */

struct hvd_node_topology {
    struct hvd_index index; /* by node and keys */
    int64_t now_ms;         /* monotonic, set by whoever finds: what is older does not count */
    unsigned n_put;
    size_t bytes; /* of all that is known */
};

/* Remembers a Node as the API sent it, NULL for one that is gone or may not be read. HVD_ERR_NOMEM
 * leaves what was known. */
hvd_status_t hvd_node_topology_put(struct hvd_node_topology *cache, const char *node,
                                   const char *keys, const cJSON *object);

/* As struct hvd_topology_source (topology.h) asks; ctx is the cache. */
const char *hvd_node_topology_find(void *ctx, const char *node, const char *keys);

/* Frees all of it. A zeroed cache is legal. */
void hvd_node_topology_fini(struct hvd_node_topology *cache);

#endif
