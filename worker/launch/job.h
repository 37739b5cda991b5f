#ifndef HVD_WORKER_LAUNCH_JOB_H
#define HVD_WORKER_LAUNCH_JOB_H

#include "base/status.h"
#include "worker/launch/core/hosts.h"

/* What is run, all borrowed. */
struct hvd_job {
    char *const *argv;             /* of mpirun */
    const char *nonce;             /* of the wrappers' reports */
    const struct hvd_hosts *hosts; /* for the names in the last line */
    const char *termination_log;   /* file for the last words of the rank that failed; NULL: none */
};

/*
 * Runs mpirun to its end: passes its standard error on without the wrappers' reports, forwards
 * signals to it (a second one to stop kills it), and prints the last line when a rank failed, which
 * it writes to the termination log as well, behind the last lines of that rank.
 * *out_code is then what horovodrun returns. Must be called by the main thread, the only one.
 */
hvd_status_t hvd_job_run(const struct hvd_job *job, int *out_code, struct hvd_err *err);

#endif
