#ifndef HVD_OPERATOR_CORE_VIEW_TOPOLOGY_H
#define HVD_OPERATOR_CORE_VIEW_TOPOLOGY_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/status.h"

/*
 * The location of workers: the values of a job's topology keys, of a node or of a pod, as one text.
 * Each key has a line: "=value", or "" if the label is missing.
 */

/* The shell's answers about nodes. */
struct hvd_topology_source {
    /* The text of a node for these keys (joined by commas). "" if the node is gone or may not be
     * read, NULL until it was read. Borrowed until the next pass. */
    const char *(*find)(void *ctx, const char *node, const char *keys);
    void *ctx;
};

/* The text of labels (may be NULL) for these keys, the caller's to hvd_free. HVD_ERR_NOMEM. */
hvd_status_t hvd_topology_text(const cJSON *labels, const char *keys, char **out);

/*
 * Compares two locations, as strcmp does, by the first key first. If the node's text has no value
 * for a key, the pod's counts; a location without any value comes last. Every text may be NULL.
 */
struct hvd_topology_pair {
    const char *node;
    const char *pod;
};
int hvd_topology_compare(const struct hvd_topology_pair *a, const struct hvd_topology_pair *b);

#endif
