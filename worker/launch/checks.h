#ifndef HVD_WORKER_LAUNCH_CHECKS_H
#define HVD_WORKER_LAUNCH_CHECKS_H

#include <stdbool.h>

#include "base/status.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/mpirun.h"

struct hvd_checks {
    struct hvd_launch_ssh ssh;
    int64_t timeout_s;   /* for all hosts together */
    const char *self;    /* path of this program, looked up on every host */
    const char *program; /* the program of the ranks, looked up likewise */
    bool is_verbose;
    bool *lacks_program; /* set where a host does not have that program */
};

/*
 * Checks all hosts that are not local at once, by ssh or its substitute. A check reads the version
 * of Open MPI into mpi_major, and whether the host has this program in the same version into
 * has_wrapper. It also searches for the program of the ranks. A host that refuses or does not
 * answer is tried again while there is time. HVD_ERR_UNAVAILABLE names the host and quotes ssh's
 * output; HVD_ERR_NOT_FOUND when it has no Open MPI, or no such program.
 */
hvd_status_t hvd_checks_run(const struct hvd_checks *checks, struct hvd_hosts *hosts,
                            struct hvd_err *err);

#endif
