#ifndef HVD_WORKER_LAUNCH_JOB_H
#define HVD_WORKER_LAUNCH_JOB_H

#include <stdbool.h>

#include "base/status.h"
#include "worker/launch/core/hosts.h"

/* The job to run, all borrowed. */
struct hvd_job {
    char *const *argv;             /* of mpirun */
    const char *nonce;             /* of the wrappers' reports */
    const struct hvd_hosts *hosts; /* for the names in the last line */
    const char *termination_log;   /* file for the last words of the failed rank; NULL: none */
    int64_t grace_ms; /* of programs after SIGTERM; 0: the wrappers get no such request */
    int mpi_major;    /* of mpirun */
    bool has_packets; /* ranks' standard output comes within mpirun's standard error */
    bool may_go_on;   /* mpirun may continue after a failure, so it has no time limit to end */
    bool has_srun;    /* mpirun ends when its daemons' srun does, never for a time limit */
    bool is_verbose;  /* also show mpirun's own messages about a failure */
};

/*
 * Runs mpirun to its end. Passes its output on, standard error without the wrappers' reports.
 * Passes typed input and signals to it. When a rank failed, prints the last line, and writes it to
 * the termination log after the last lines of that rank.
 *
 * SIGTERM reaches the programs through the wrappers, which end them after the grace; another stop
 * signal ends the grace, and one more kills. A mpirun that does not end in time after a rank's
 * failure (core/deadline.h) is stopped, then killed. The job also stops when standard output has
 * lost its reader. *out_code is the exit code of horovodrun. Only the main thread may call it,
 * while no other exists.
 */
hvd_status_t hvd_job_run(const struct hvd_job *job, int *out_code, struct hvd_err *err);

#endif
