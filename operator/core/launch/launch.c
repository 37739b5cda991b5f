/*
 * The launch way of a job. There is one: mpirun reaches the workers by ssh. Pure.
 */
#include "operator/core/launch/launch.h"

#include "operator/core/launch/ssh.h"

const struct hvd_launch *hvd_launch_of(const struct hvd_job *job)
{
    (void)job;
    return &hvd_ssh_launch;
}
