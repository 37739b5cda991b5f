#ifndef HVD_OPERATOR_CORE_CHILDREN_HOSTS_H
#define HVD_OPERATOR_CORE_CHILDREN_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "operator/core/view/projection.h"

/* The published host list. */

/* One worker in the list. */
struct hvd_worker {
    size_t group; /* index into the spec's groups */
    int32_t ordinal;
    const struct hvd_object *pod; /* borrowed; NULL before there is one */
    const char *topology;         /* of its node, if ranks are ordered by it; borrowed */
};

/*
 * The data of the ConfigMap J-hosts: hostfile, hosts, discover_hosts.sh and HVD_LAUNCH_FILE. They
 * list these workers in this order, after the master if it runs ranks. hosts is empty if it would
 * be too long for a command line. The caller's to cJSON_Delete; NULL after a failure (in jb).
 */
cJSON *hvd_hosts_data(struct hvd_jb *jb, const struct hvd_job *job,
                      const struct hvd_worker *workers, size_t n_workers);

/* The same for all workers of the spec, before they exist; without the data that need their
 * addresses. */
cJSON *hvd_hosts_data_of_all(struct hvd_jb *jb, const struct hvd_job *job);

#define HVD_HOSTS_MAX_BYTES 1048576 /* of a ConfigMap's data */

/* The bytes of the data as the API server counts them. */
size_t hvd_hosts_size(const cJSON *data);

/* The ranks that fit onto these hosts, and onto the master where it runs ranks. */
int64_t hvd_hosts_slots(const struct hvd_job *job, const struct hvd_worker *workers,
                        size_t n_workers);

/* A hash of the four files in a ConfigMap's data, without other keys. 0 if a file is missing. */
uint64_t hvd_hosts_hash(const cJSON *data);

/* Whether the members include one of the four files, whatever its content. */
bool hvd_hosts_has_any(const cJSON *members);

/* Adds the removal of the four files to a merge patch. */
void hvd_hosts_put_removals(struct hvd_jb *jb, cJSON *members);

#endif
