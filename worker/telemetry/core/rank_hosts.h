#ifndef HVD_WORKER_TELEMETRY_CORE_RANK_HOSTS_H
#define HVD_WORKER_TELEMETRY_CORE_RANK_HOSTS_H

#include "base/buf.h"

/* Where the ranks of a job are. */
struct hvd_rank_hosts {
    int rank; /* of the writer */
    int size;
    const char *(*host)(const void *ctx, int rank); /* of a rank; NULL where it is not known */
    const void *ctx;
};

/*
 * Appends a record of a timeline for each host, by the first of its ranks: who they are, as
 * "0-3, 8". Several records where that is long. The records are about the writer's process of the
 * trace and carry its name, so that a viewer reads nothing new from them. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE.
 */
hvd_status_t hvd_rank_hosts_write(const struct hvd_rank_hosts *rank_hosts, struct hvd_buf *lines);

#endif
