#ifndef HVD_WORKER_TELEMETRY_CORE_RANK_HOSTS_H
#define HVD_WORKER_TELEMETRY_CORE_RANK_HOSTS_H

#include "base/buf.h"

/* The hosts of the ranks of a job. */
struct hvd_rank_hosts {
    int rank; /* of the writer */
    int size;
    const char *(*host)(const void *ctx, int rank); /* host of a rank; NULL if it is not known */
    const void *ctx;
};

/*
 * Appends a record of a timeline for each host, in the order of their first ranks: the ranks of the
 * host, as "0-3, 8". A long list takes several records. The records are about the writer's process
 * of the trace and carry its name, so that they change nothing in a viewer. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE.
 */
hvd_status_t hvd_rank_hosts_write(const struct hvd_rank_hosts *rank_hosts, struct hvd_buf *lines);

#endif
