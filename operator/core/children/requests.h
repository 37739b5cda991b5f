#ifndef HVD_OPERATOR_CORE_CHILDREN_REQUESTS_H
#define HVD_OPERATOR_CORE_CHILDREN_REQUESTS_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/children/quantity.h"

/* Within operator/core only. Sums of resource requests. */

#define HVD_REQUESTS_MAX 64 /* resources by name; a sum omits further ones */

/* Zeroed: an empty sum. Names are borrowed from the documents that were added. */
struct hvd_requests {
    struct {
        const char *name;
        struct hvd_quantity amount;
    } items[HVD_REQUESTS_MAX];
    size_t n;
};

/*
 * Adds n times the resources that the scheduler counts for a pod of this PodSpec. They are its
 * containers and sidecars together, or the peak of its initialization if that is more, and the
 * overhead. A limit replaces a missing request.
 */
void hvd_requests_add_pod(struct hvd_requests *sum, const cJSON *pod, int64_t n);

/* Writes parent[key] = {name: amount, ...} in the order of names; nothing for an empty sum. */
void hvd_requests_encode(struct hvd_jb *jb, cJSON *parent, const char *key,
                         const struct hvd_requests *sum);

#endif
