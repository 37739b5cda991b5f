#ifndef HVD_WORKER_API_API_INTERNAL_H
#define HVD_WORKER_API_API_INTERNAL_H

#include <horovod/horovod.h>

#include "worker/api/settings.h"
#include "worker/device/cuda/cuda.h"
#include "worker/engine/engine.h"
#include "worker/transport/bootstrap.h"

/* The process sets that a job begins with, in the form of horovod_init; borrowed. */
struct hvd_static_sets {
    const int *ranks;
    const int *sizes;
    int n;
};

/* The arguments of horovod_init or horovod_init_multi_comm; borrowed. */
struct hvd_api_start {
    const int *ranks;  /* the ranks that take part, of all or of the first communicator */
    int n_ranks;       /* 0: all */
    const void *comms; /* MPI_Comm *: the job, then process sets */
    int n_comms;
    struct hvd_static_sets sets;
};

/* --- waits.c ---------------------------------------------------------------------------------- */

/* Converts milliseconds to nanoseconds, clamped to what an int64_t holds with a margin; 0 for a
 * negative timeout. */
int64_t hvd_api_timeout_ns(int64_t timeout_ms);

/* --- lifecycle.c ------------------------------------------------------------------------------ */

/* Begins a job, as horovod_init does: returns false on failure, logs the reason and keeps it. */
bool hvd_api_init(const struct hvd_api_start *from);

/* Keeps the job from ending. Returns the bootstrap by which its ranks found each other, or NULL if
 * no job runs. Call hvd_api_unlock_job in both cases. */
struct hvd_bootstrap *hvd_api_lock_job(void);

/* Lets the job end again. */
void hvd_api_unlock_job(void);

/*
 * Returns the engine, which stays valid until hvd_api_exit; NULL if there is none, and then the
 * caller must not call hvd_api_exit. is_running: returns NULL also when the engine was shut down.
 */
struct hvd_engine *hvd_api_enter(bool is_running);

/* Ends what hvd_api_enter began. */
void hvd_api_exit(void);

/* Returns the telemetry of the entered engine, and stores its log in *log; both are valid until
 * hvd_api_exit. */
struct hvd_telemetry *hvd_api_telemetry(const struct hvd_log **log);

/* Returns whether process sets may be added and removed. If not, logs which variable allows it. The
 * engine is entered. */
bool hvd_api_allows_set_changes(void);

/* Returns the settings for the GPU of the entered engine. */
struct hvd_cuda_options hvd_api_device_options(void);

/* Returns whether horovod_wait_stream waits for the GPU. The engine is entered. */
bool hvd_api_waits_on_host(void);

/* --- forked.c: what takes no lock, so that a forked process may call it ----------------------- */

/* Marks children of fork() from now on. HVD_ERR_NOMEM. */
hvd_status_t hvd_api_watch_forks(struct hvd_err *err);

/* Stores the place of the rank for children of fork(); NULL: the job has ended. Holds life. */
void hvd_api_topology_for_children(const struct hvd_topology *topology);

/* Returns whether this process was forked from one that has used Horovod. */
bool hvd_api_is_forked(void);

/* Stores the place of the rank that this process was forked from; false if there was no job. */
bool hvd_api_parents_topology(struct hvd_topology *topology);

/* Fills *why with the reason why a forked process cannot use Horovod. */
void hvd_api_explain_fork(struct hvd_err *why);

/* --- started.c -------------------------------------------------------------------------------- */

/* The environment variable by which a rank marks the processes that it starts. */
#define HVD_API_RANK_PROCESS "HOROVOD_RANK_PROCESS"

/* Returns HVD_ERR_STATE if a rank that still lives has started this process and passed on its
 * place. Holds life. */
hvd_status_t hvd_api_check_started(struct hvd_err *err);

/* Marks the processes that this one starts from now on as children of a rank. Does nothing without
 * a launcher. Holds life. */
void hvd_api_mark_children(void);

/* --- process_sets.c --------------------------------------------------------------------------- */

/*
 * Agrees with the other ranks about the sets and creates them. HVD_ERR_MISMATCH when the ranks pass
 * different numbers of sets; else as hvd_engine_add_set.
 */
hvd_status_t hvd_api_add_sets(struct hvd_engine *engine, const struct hvd_static_sets *sets,
                              struct hvd_err *err);

/* --- errors.c --------------------------------------------------------------------------------- */

/* Converts an internal status to a public one and fills err (may be NULL) from `from` on failure.
 */
horovod_status_t hvd_api_status(hvd_status_t st, const struct hvd_err *from, horovod_error_t *err);

/* Fails because Horovod is not initialised. */
horovod_status_t hvd_api_not_initialized(horovod_error_t *err);

/* --- log.c ------------------------------------------------------------------------------------ */

/* Returns a log to standard error from `level` on; hides_time omits the time from its lines. */
struct hvd_log hvd_api_log(enum hvd_log_level level, bool hides_time);

#endif
