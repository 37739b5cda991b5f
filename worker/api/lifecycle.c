/*
 * Start and end of the job in this process. One job at most. A job outlives its shutdown, so that
 * waiting threads can still read the status of their tensors. The next horovod_init replaces it,
 * once no thread is inside any more (inside.h). Lock order: `life` before the engine's own.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/rank_state.h"
#include "worker/api/begin.h"
#include "worker/api/inside.h"
#include "worker/api/providers.h"

static struct {
    pthread_mutex_t life;    /* one init or shutdown at a time */
    struct hvd_err init_err; /* guarded by life */
    /* changed under life; each stays valid while a thread that has read it is inside */
    struct hvd_job *_Atomic job;       /* its fields are constant, or synchronise themselves */
    struct hvd_engine *_Atomic engine; /* the job's */
    atomic_bool is_running;
} api = {
    .life = PTHREAD_MUTEX_INITIALIZER,
};

struct hvd_engine *hvd_api_enter(bool is_running)
{
    if (hvd_api_is_forked() ||
        (is_running && !atomic_load_explicit(&api.is_running, memory_order_acquire)))
        return NULL;
    hvd_inside_enter();
    struct hvd_engine *engine = atomic_load_explicit(&api.engine, memory_order_acquire);
    if (!engine)
        hvd_inside_exit();
    return engine;
}

void hvd_api_exit(void)
{
    hvd_inside_exit();
}

static void destroy_job(struct hvd_job *job)
{
    if (job)
        hvd_api_begin_fini(job);
    hvd_free(job);
}

/* Publishes a job that runs in place of the last one, and frees that one. Holds life. */
static void install(struct hvd_job *job)
{
    /* The job first: a thread that has read an engine then finds its job, or a later one. */
    struct hvd_job *old = atomic_exchange(&api.job, job);

    atomic_store(&api.engine, job->engine);
    hvd_inside_drain();
    destroy_job(old);
    hvd_api_topology_for_children(hvd_engine_topology(job->engine));
    atomic_store_explicit(&api.is_running, true, memory_order_release);
}

/* Creates and publishes a job. Holds life. */
static hvd_status_t begin(const struct hvd_api_start *from, struct hvd_err *err)
{
    struct hvd_job *job = hvd_calloc(1, sizeof(*job));

    if (!job)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a job");
    hvd_status_t st = hvd_api_begin(job, from, err);
    if (st == HVD_OK)
        install(job);
    else
        destroy_job(job);
    return st;
}

/* begin() that also reports this rank's phase to its wrapper and marks its children. Holds life. */
static hvd_status_t join(const struct hvd_api_start *from, struct hvd_err *err)
{
    hvd_api_mark_children();
    hvd_rank_state_open();
    hvd_rank_state_join_all(from->n_ranks == 0 && from->n_comms == 0);
    hvd_rank_state_set(HVD_RANK_JOINING);
    hvd_status_t st = begin(from, err);
    hvd_rank_state_set(st == HVD_OK ? HVD_RANK_RUNNING : HVD_RANK_ENDED);
    return st;
}

bool hvd_api_init(const struct hvd_api_start *from)
{
    const struct hvd_log log = {.level = HVD_LOG_ERROR, .sink = hvd_log_stderr};
    struct hvd_err why = {0};
    hvd_status_t st = HVD_OK;

    if (hvd_api_is_forked()) {
        hvd_api_explain_fork(&why);
        hvd_log(&log, HVD_LOG_ERROR, "api", "horovod_init failed: %s", why.msg);
        return false;
    }
    pthread_mutex_lock(&api.life);
    if (!atomic_load(&api.is_running)) {
        hvd_err_clear(&api.init_err);
        st = hvd_api_check_started(&api.init_err);
        if (st == HVD_OK)
            st = join(from, &api.init_err);
    }
    if (st != HVD_OK)
        hvd_log(&log, HVD_LOG_ERROR, "api", "horovod_init failed: %s", api.init_err.msg);
    pthread_mutex_unlock(&api.life);
    return st == HVD_OK;
}

bool horovod_init(const int *ranks, int n_ranks, const int *process_set_ranks,
                  const int *process_set_sizes, int n_process_sets)
{
    return hvd_api_init(
        &(struct hvd_api_start){.ranks = ranks,
                                .n_ranks = n_ranks,
                                .sets = {process_set_ranks, process_set_sizes, n_process_sets}});
}

horovod_status_t horovod_init_error(horovod_error_t *err)
{
    if (hvd_api_is_forked())
        return hvd_api_not_initialized(err);
    pthread_mutex_lock(&api.life);
    horovod_status_t status = hvd_api_status(api.init_err.status, &api.init_err, err);
    pthread_mutex_unlock(&api.life);
    return status;
}

/* Leaves the job, if one runs; otherwise lets the bootstrap provider clean up. */
static void leave(bool may_begin_again)
{
    const struct hvd_bootstrap_provider *provider = hvd_providers_bootstrap();
    struct hvd_err err = {0};

    if (hvd_api_is_forked())
        return;
    pthread_mutex_lock(&api.life);
    struct hvd_engine *engine = hvd_api_enter(true);
    if (engine) {
        struct hvd_bootstrap *b = atomic_load(&api.job)->bootstrap;
        if (may_begin_again)
            b->ops->keep(b);
        hvd_status_t st = hvd_engine_shutdown(engine, &err);
        hvd_rank_state_set(HVD_RANK_ENDED);
        if (st == HVD_OK) {
            atomic_store(&api.is_running, false);
            hvd_api_topology_for_children(NULL);
            hvd_telemetry_end(atomic_load(&api.job)->telemetry);
        } else {
            hvd_log(&atomic_load(&api.job)->log, HVD_LOG_ERROR, "api",
                    "horovod_shutdown failed: %s", err.msg);
        }
        hvd_api_exit();
    } else if (!may_begin_again && provider->leave) {
        provider->leave(); /* a process that was no part of the job, or whose job kept MPI */
    }
    pthread_mutex_unlock(&api.life);
}

void horovod_shutdown(void)
{
    leave(false);
}

void horovod_shutdown_job(void)
{
    leave(true);
}

struct hvd_bootstrap *hvd_api_lock_job(void)
{
    if (hvd_api_is_forked())
        return NULL;
    pthread_mutex_lock(&api.life);
    return atomic_load(&api.is_running) ? atomic_load(&api.job)->bootstrap : NULL;
}

void hvd_api_unlock_job(void)
{
    if (!hvd_api_is_forked())
        pthread_mutex_unlock(&api.life);
}

int horovod_is_initialized(void)
{
    return !hvd_api_is_forked() && atomic_load_explicit(&api.is_running, memory_order_acquire);
}

struct hvd_telemetry *hvd_api_telemetry(const struct hvd_log **log)
{
    struct hvd_job *job = atomic_load_explicit(&api.job, memory_order_acquire);

    *log = &job->log;
    return job->telemetry;
}

struct hvd_cuda_options hvd_api_device_options(void)
{
    return atomic_load_explicit(&api.job, memory_order_acquire)->device_options;
}

bool hvd_api_waits_on_host(void)
{
    return atomic_load_explicit(&api.job, memory_order_acquire)->waits_on_host;
}

bool hvd_api_allows_set_changes(void)
{
    const struct hvd_job *job = atomic_load_explicit(&api.job, memory_order_acquire);

    if (!job->has_dynamic_sets)
        hvd_log(&job->log, HVD_LOG_WARN, "api",
                "Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow adding process sets after Horovod "
                "initialization.");
    return job->has_dynamic_sets;
}
