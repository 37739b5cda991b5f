#ifndef HVD_WORKER_LAUNCH_LAUNCH_H
#define HVD_WORKER_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "base/status.h"
#include "worker/launch/core/options.h"

/* The ssh_config that the operator publishes; used when it is there. */
#define HVD_LAUNCH_SSH_CONFIG "/etc/horovod/hosts/ssh_config"

/*
 * Checks what can be checked, then runs the program on all hosts to its end. *out_code is the exit
 * code of horovodrun. A failure means that nothing was started; err says why. Main thread only.
 */
hvd_status_t hvd_launch(const struct hvd_launch_options *options, int *out_code,
                        struct hvd_err *err);

/* Whether a batch system (Slurm) has given this process hosts; used when no list is given. */
bool hvd_launch_has_allocation(void);

#endif
