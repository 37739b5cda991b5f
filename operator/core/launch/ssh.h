#ifndef HVD_OPERATOR_CORE_LAUNCH_SSH_H
#define HVD_OPERATOR_CORE_LAUNCH_SSH_H

#include "operator/core/launch/launch.h"

/* Within operator/core/launch only. Workers run sshd, and the master's mpirun runs ssh. */
extern const struct hvd_launch hvd_ssh_launch;

#endif
