#ifndef HVD_WORKER_LAUNCH_JOB_H
#define HVD_WORKER_LAUNCH_JOB_H

#include <stdbool.h>

#include "base/status.h"
#include "worker/launch/core/hosts.h"

/* What is run, all borrowed. */
struct hvd_job {
    char *const *argv;             /* of mpirun */
    const char *nonce;             /* of the wrappers' reports */
    const struct hvd_hosts *hosts; /* for the names in the last line */
    const char *termination_log;   /* file for the last words of the rank that failed; NULL: none */
    int64_t grace_ms; /* that the wrappers give programs after SIGTERM; 0: they are not told */
    int mpi_major;    /* of mpirun */
    bool has_packets; /* ranks' standard output comes within mpirun's standard error */
    bool may_go_on;   /* mpirun was told that ranks may fail: it has no time to end then */
    bool has_srun;    /* mpirun ends when the srun of its daemons does, and for no time limit */
    bool is_verbose;  /* shows mpirun's own words about a failure too */
};

/*
 * Runs mpirun to its end: passes its output on, standard error without the wrappers' reports, hands
 * it what is typed, forwards signals to it, and prints the last line when a rank failed, which
 * it writes to the termination log as well, behind the last lines of that rank.
 * SIGTERM reaches the programs through the wrappers, which end them after the grace; another signal
 * to stop ends it, and one more kills. A mpirun that does not end in time after a rank has failed
 * (core/deadline.h) is stopped, then killed. Nobody reading standard output any more stops the job.
 * *out_code is then what horovodrun returns. Must be called by the main thread, the only one.
 */
hvd_status_t hvd_job_run(const struct hvd_job *job, int *out_code, struct hvd_err *err);

#endif
