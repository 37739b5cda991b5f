#ifndef HVD_WORKER_LAUNCH_CORE_SLURM_H
#define HVD_WORKER_LAUNCH_CORE_SLURM_H

#include "base/status.h"
#include "worker/launch/core/hosts.h"

/* Nodes of an allocation at most. */
#define HVD_SLURM_NODES_MAX 16384

/*
 * The hosts of a Slurm allocation into *out, which must be empty: nodes as SLURM_JOB_NODELIST names
 * them, "n[01-03,7],big", and for each how many processes it takes, as SLURM_TASKS_PER_NODE says,
 * "2(x3),1". HVD_ERR_INVALID shows what is wrong, HVD_ERR_TOO_LARGE, HVD_ERR_NOMEM; nothing to free
 * on failure.
 */
hvd_status_t hvd_slurm_hosts(const char *nodes, const char *tasks, struct hvd_hosts *out,
                             struct hvd_err *err);

#endif
