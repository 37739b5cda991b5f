#ifndef HVD_WORKER_LAUNCH_LAUNCH_H
#define HVD_WORKER_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "base/status.h"
#include "worker/launch/core/options.h"

/* The ssh_config that the operator publishes; used if it exists. */
#define HVD_LAUNCH_SSH_CONFIG "/etc/horovod/hosts/ssh_config"

/*
 * Checks the prerequisites, then runs the program on all hosts to its end. *out_code is the exit
 * code of horovodrun. On failure nothing was started, and err has the reason. Main thread only.
 */
hvd_status_t hvd_launch(const struct hvd_launch_options *options, int *out_code,
                        struct hvd_err *err);

/* Whether a batch system (Slurm) has allocated hosts to this process, which are used when no list
 * is given. */
bool hvd_launch_has_allocation(void);

#endif
