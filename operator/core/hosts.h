#ifndef HVD_OPERATOR_CORE_HOSTS_H
#define HVD_OPERATOR_CORE_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"
#include "operator/api/json.h"

/* The published host list. */

/*
 * The data of the ConfigMap J-hosts: hostfile, hosts, discover_hosts.sh, ssh_config, with the
 * workers of these ordinals (ascending). The caller's to cJSON_Delete; NULL after a failure (in
 * jb).
 */
cJSON *hvd_hosts_data(struct hvd_jb *jb, const struct hvd_job *job, const int32_t *ordinals,
                      size_t n_ordinals);

/* A hash of the four files in a ConfigMap's data; other keys do not count. 0 if one is missing. */
uint64_t hvd_hosts_hash(const cJSON *data);

#endif
