#ifndef HVD_WORKER_API_API_INTERNAL_H
#define HVD_WORKER_API_API_INTERNAL_H

#include <horovod/horovod.h>

#include "worker/api/settings.h"
#include "worker/engine/engine.h"
#include "worker/transport/bootstrap.h"

/* The sets that a job begins with, as horovod_init has them; borrowed. */
struct hvd_static_sets {
    const int *ranks;
    const int *sizes;
    int n;
};

/* What a job begins with; borrowed. */
struct hvd_api_start {
    const int *ranks;  /* of all, or of the first communicator: who takes part */
    int n_ranks;       /* 0: all */
    const void *comms; /* MPI_Comm *: the job, then process sets */
    int n_comms;
    struct hvd_static_sets sets;
};

/* --- waits.c ---------------------------------------------------------------------------------- */

/* Milliseconds as nanoseconds, of which there are not as many; none for less than 0. */
int64_t hvd_api_timeout_ns(int64_t timeout_ms);

/* --- lifecycle.c ------------------------------------------------------------------------------ */

/* Begins a job, as horovod_init does. */
bool hvd_api_init(const struct hvd_api_start *from);

/* Keeps the job from ending and returns how its ranks have found each other, NULL when none runs;
 * to be followed by hvd_api_unlock_job in both cases. */
struct hvd_bootstrap *hvd_api_lock_job(void);

/* Lets the job end again. */
void hvd_api_unlock_job(void);

/*
 * The engine, which stays until hvd_api_exit; NULL when there is none, and then leave must not be
 * called. is_running: also NULL when the engine was shut down.
 */
struct hvd_engine *hvd_api_enter(bool is_running);

/* Ends what hvd_api_enter began. */
void hvd_api_exit(void);

/* Telemetry of the engine that was entered, and its log, until hvd_api_exit. */
struct hvd_telemetry *hvd_api_telemetry(const struct hvd_log **log);

/* Whether process sets may be added and removed; else says how to have that. */
bool hvd_api_allows_set_changes(void);

/* --- forked.c: what takes no lock, so that a forked process may call it ----------------------- */

/* Has children of fork() marked from now on. HVD_ERR_NOMEM. */
hvd_status_t hvd_api_watch_forks(struct hvd_err *err);

/* Where the rank is that children are forked from; NULL: the job has ended. Holds life. */
void hvd_api_topology_for_children(const struct hvd_topology *topology);

/* Whether this process was forked from one that has used Horovod. */
bool hvd_api_is_forked(void);

/* The place of the rank that this process was forked from; false when there was no job. */
bool hvd_api_parents_topology(struct hvd_topology *topology);

/* Why a forked process cannot do anything, into *why. */
void hvd_api_explain_fork(struct hvd_err *why);

/* --- started.c -------------------------------------------------------------------------------- */

/* The variable that a rank leaves to the processes that it starts. */
#define HVD_API_RANK_PROCESS "HOROVOD_RANK_PROCESS"

/* HVD_ERR_STATE where this process has the place of a rank that has started it and still lives.
 * Holds life. */
hvd_status_t hvd_api_check_started(struct hvd_err *err);

/* From now on processes that this one starts find that it is a rank. Nothing without a launcher.
 * Holds life. */
void hvd_api_mark_children(void);

/* --- process_sets.c --------------------------------------------------------------------------- */

/* Agrees with the other ranks about the sets and makes them. HVD_ERR_MISMATCH when they differ;
 * else as hvd_engine_add_set. */
hvd_status_t hvd_api_add_sets(struct hvd_engine *engine, const struct hvd_static_sets *sets,
                              struct hvd_err *err);

/* --- errors.c --------------------------------------------------------------------------------- */

/* Converts an internal status to a public one and fills err (may be NULL) from `from` on failure.
 */
horovod_status_t hvd_api_status(hvd_status_t st, const struct hvd_err *from, horovod_error_t *err);

/* Fails because Horovod is not initialised. */
horovod_status_t hvd_api_not_initialized(horovod_error_t *err);

/* --- log.c ------------------------------------------------------------------------------------ */

/* A log to standard error from `level` on; hides_time leaves the time out of its lines. */
struct hvd_log hvd_api_log(enum hvd_log_level level, bool hides_time);

#endif
