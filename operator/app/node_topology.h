#ifndef HVD_OPERATOR_APP_NODE_TOPOLOGY_H
#define HVD_OPERATOR_APP_NODE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/app/index.h"

/*
 * The location of nodes as far as jobs asked: only the values of their topology keys, kept for some
 * time. One thread.
 */
#define HVD_NODE_TOPOLOGY_MAX                                                                      \
    ((size_t)16 << 20) /* bytes: more than the topology of any job take                            \
                        */

struct hvd_node_topology {
    struct hvd_index index; /* by node and keys */
    int64_t now_ms;         /* monotonic, set before each find: older entries do not count */
    unsigned n_put;
    size_t bytes; /* of all entries */
};

/* Stores a Node as the API sent it, NULL for one that is gone or may not be read. HVD_ERR_NOMEM
 * leaves the entry unchanged. */
hvd_status_t hvd_node_topology_put(struct hvd_node_topology *cache, const char *node,
                                   const char *keys, const cJSON *object);

/* Implements struct hvd_topology_source (topology.h); ctx is the cache. */
const char *hvd_node_topology_find(void *ctx, const char *node, const char *keys);

/* Frees all of it. A zeroed cache is legal. */
void hvd_node_topology_fini(struct hvd_node_topology *cache);

#endif
