#ifndef HVD_WORKER_LAUNCH_CORE_SLURM_H
#define HVD_WORKER_LAUNCH_CORE_SLURM_H

#include "base/status.h"
#include "worker/launch/core/hosts.h"

/* The maximum number of nodes in an allocation. */
#define HVD_SLURM_NODES_MAX 16384

/*
 * Reads the hosts of a Slurm allocation into *out, which must be empty. `nodes` is in the format of
 * SLURM_JOB_NODELIST, "n[01-03,7],big". `tasks` has the number of processes of each node in the
 * format of SLURM_TASKS_PER_NODE, "2(x3),1". HVD_ERR_INVALID quotes the wrong part,
 * HVD_ERR_TOO_LARGE, HVD_ERR_NOMEM; there is nothing to free on failure.
 */
hvd_status_t hvd_slurm_hosts(const char *nodes, const char *tasks, struct hvd_hosts *out,
                             struct hvd_err *err);

#endif
