/*
 * Start, end and identity of the job in this process. One engine at most. It outlives its shutdown,
 * so that threads that wait can still read how their tensors ended; the next horovod_init replaces
 * it. Lock order: `life` before `engine_lock`; both before the engine's own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "worker/api/api_internal.h"
#include "worker/transport/mpi.h"

#define IDLE_POLL_NS 50000000

static struct {
    pthread_mutex_t life;         /* one init or shutdown at a time */
    struct hvd_err init_err;      /* guarded by life */
    pthread_rwlock_t engine_lock; /* held for reading by whoever uses the engine */
    struct hvd_engine *engine;    /* guarded by engine_lock */
    atomic_bool is_running;
    struct hvd_log log; /* guarded by life while not running; constant while running */
} api = {
    .life = PTHREAD_MUTEX_INITIALIZER,
    .engine_lock = PTHREAD_RWLOCK_INITIALIZER,
};

struct hvd_engine *hvd_api_enter(bool is_running)
{
    if (is_running && !atomic_load_explicit(&api.is_running, memory_order_acquire))
        return NULL;
    pthread_rwlock_rdlock(&api.engine_lock);
    if (!api.engine)
        pthread_rwlock_unlock(&api.engine_lock);
    return api.engine;
}

void hvd_api_leave(void)
{
    pthread_rwlock_unlock(&api.engine_lock);
}

static hvd_status_t check_init_arguments(const int *ranks, int n_ranks, int n_process_sets,
                                         struct hvd_err *err)
{
    if (ranks || n_ranks != 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "a subset of %d ranks is not supported: pass NULL, 0", n_ranks);
    if (n_process_sets != 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%d process sets are not supported: pass NULL, NULL, 0", n_process_sets);
    return HVD_OK;
}

/* Settings, transport, engine. Holds life. */
static hvd_status_t start(struct hvd_engine **engine, struct hvd_err *err)
{
    struct hvd_settings settings = {0};
    struct hvd_transport *transport = NULL;
    hvd_status_t st = hvd_settings_read(&settings, err);

    if (st != HVD_OK)
        return st;
    api.log = (struct hvd_log){.level = settings.log_level, .sink = hvd_log_stderr};
    const struct hvd_mpi_options mpi = {.allow_single_thread = settings.mpi_threads_disable};
    st = hvd_mpi_create(&mpi, &transport, err);
    if (st != HVD_OK)
        return st;
    const struct hvd_engine_options options = {.cycle_ns = settings.cycle_ns,
                                               .idle_poll_ns = IDLE_POLL_NS,
                                               .stall_warning_ns = settings.stall_warning_ns,
                                               .log = &api.log};
    st = hvd_engine_create(transport, &options, engine, err);
    return st;
}

/* Replaces the engine of the last job, which nobody uses once the lock is held. */
static void install(struct hvd_engine *engine)
{
    pthread_rwlock_wrlock(&api.engine_lock);
    struct hvd_engine *old = api.engine;
    api.engine = engine;
    pthread_rwlock_unlock(&api.engine_lock);
    hvd_engine_destroy(old);
    atomic_store_explicit(&api.is_running, true, memory_order_release);
}

bool horovod_init(const int *ranks, int n_ranks, const int *process_set_ranks,
                  const int *process_set_sizes, int n_process_sets)
{
    struct hvd_engine *engine = NULL;
    hvd_status_t st;

    (void)process_set_ranks;
    (void)process_set_sizes;
    pthread_mutex_lock(&api.life);
    if (atomic_load(&api.is_running)) {
        pthread_mutex_unlock(&api.life);
        return true;
    }
    hvd_err_clear(&api.init_err);
    st = check_init_arguments(ranks, n_ranks, n_process_sets, &api.init_err);
    if (st == HVD_OK)
        st = start(&engine, &api.init_err);
    if (st == HVD_OK) {
        install(engine);
    } else {
        const struct hvd_log log = {.level = HVD_LOG_ERROR, .sink = hvd_log_stderr};
        hvd_log(&log, HVD_LOG_ERROR, "api", "horovod_init failed: %s", api.init_err.msg);
    }
    pthread_mutex_unlock(&api.life);
    return st == HVD_OK;
}

horovod_status_t horovod_init_error(horovod_error_t *err)
{
    pthread_mutex_lock(&api.life);
    horovod_status_t status = hvd_api_status(api.init_err.status, &api.init_err, err);
    pthread_mutex_unlock(&api.life);
    return status;
}

void horovod_shutdown(void)
{
    struct hvd_err err = {0};

    pthread_mutex_lock(&api.life);
    struct hvd_engine *engine = hvd_api_enter(true);
    if (engine) {
        hvd_status_t st = hvd_engine_shutdown(engine, &err);
        if (st == HVD_OK)
            atomic_store(&api.is_running, false);
        else
            hvd_log(&api.log, HVD_LOG_ERROR, "api", "horovod_shutdown failed: %s", err.msg);
        hvd_api_leave();
    }
    pthread_mutex_unlock(&api.life);
}

int horovod_is_initialized(void)
{
    return atomic_load_explicit(&api.is_running, memory_order_acquire);
}

/* The topology into *out; false when not initialised. */
static bool get_topology(struct hvd_topology *out)
{
    struct hvd_engine *engine = hvd_api_enter(true);

    if (!engine)
        return false;
    *out = *hvd_engine_topology(engine);
    hvd_api_leave();
    return true;
}

int horovod_rank(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.rank : -1;
}

int horovod_size(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.size : -1;
}

int horovod_local_rank(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.local_rank : -1;
}

int horovod_local_size(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.local_size : -1;
}

int horovod_cross_rank(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.cross_rank : -1;
}

int horovod_cross_size(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.cross_size : -1;
}

bool horovod_is_homogeneous(void)
{
    struct hvd_topology top;

    return get_topology(&top) && top.is_homogeneous;
}

int horovod_mpi_threads_supported(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.threads_multiple : -1;
}
