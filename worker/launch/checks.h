#ifndef HVD_WORKER_LAUNCH_CHECKS_H
#define HVD_WORKER_LAUNCH_CHECKS_H

#include <stdbool.h>

#include "base/status.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/mpirun.h"

struct hvd_checks {
    struct hvd_launch_ssh ssh;
    int64_t timeout_s;   /* for all hosts together */
    const char *self;    /* path of this program, looked for on every host */
    const char *program; /* what the ranks run, looked for likewise */
    bool is_verbose;
    bool *lacks_program; /* set where that program is what a host has not */
};

/*
 * Asks every host that is not local, side by side, by ssh or what stands for it: whether it can be
 * reached, its version of Open MPI (into mpi_major), whether it has this program in the same
 * version (has_wrapper), and the program that the ranks run. A host that refuses or does not answer
 * is tried again while there is time. HVD_ERR_UNAVAILABLE names the host and shows ssh's own words;
 * HVD_ERR_NOT_FOUND when it has no Open MPI, or no such program.
 */
hvd_status_t hvd_checks_run(const struct hvd_checks *checks, struct hvd_hosts *hosts,
                            struct hvd_err *err);

#endif
