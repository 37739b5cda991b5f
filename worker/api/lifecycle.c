/*
 * Start, end and identity of the job in this process. One engine at most. It outlives its shutdown,
 * so that threads that wait can still read how their tensors ended; the next horovod_init replaces
 * it, once nobody is inside any more (inside.h). Lock order: `life` before the engine's own.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "worker/api/api_internal.h"
#include "worker/api/inside.h"
#include "worker/transport/hybrid.h"
#include "worker/transport/mpi_comms.h"

#define IDLE_POLL_NS 50000000

static struct {
    pthread_mutex_t life;          /* one init or shutdown at a time */
    struct hvd_transport *mpi;     /* guarded by life; of the engine that runs */
    struct hvd_err init_err;       /* guarded by life */
    struct hvd_autotune *autotune; /* guarded by life; outlives the engine that it tunes */
    /* changed by who holds life; stay while somebody is inside who has read them */
    struct hvd_engine *_Atomic engine;
    struct hvd_watch *_Atomic watch; /* outlives the engine it watches */
    atomic_bool is_running;
    /* guarded by life while not running; constant while running */
    struct hvd_log log;
    bool has_dynamic_sets;
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
        hvd_inside_leave();
    return engine;
}

void hvd_api_leave(void)
{
    hvd_inside_leave();
}

static hvd_status_t check_start(const struct hvd_api_start *from, struct hvd_err *err)
{
    const struct hvd_static_sets *sets = &from->sets;

    if (from->n_ranks < 0 || (from->n_ranks > 0 && !from->ranks))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a job of %d ranks that are not given",
                        from->n_ranks);
    if (from->n_comms < 0 || (from->n_comms > 0 && !from->comms))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%d communicators that are not given",
                        from->n_comms);
    if (sets->n < 0 || (sets->n > 0 && (!sets->ranks || !sets->sizes)))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%d process sets and no ranks", sets->n);
    return HVD_OK;
}

static const char *look_up(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static void remark(void *ctx, const char *name, const char *why)
{
    hvd_log(ctx, HVD_LOG_INFO, "api", "%s has no effect: %s", name, why);
}

/* Has the threads that are made next run on this rank's core. *before: where this one ran. */
static hvd_status_t bind_to_core(const struct hvd_settings *settings, int local_rank,
                                 cpu_set_t *before, struct hvd_err *err)
{
    cpu_set_t core;

    if (settings->n_cores == 0)
        return HVD_OK;
    if (local_rank >= settings->n_cores)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "HOROVOD_THREAD_AFFINITY has %d entries, and this is rank %d of its host: "
                        "it needs one entry per rank of a host",
                        settings->n_cores, local_rank);
    CPU_ZERO(&core);
    CPU_SET((unsigned)settings->cores[local_rank] % CPU_SETSIZE, &core);
    int rc = pthread_getaffinity_np(pthread_self(), sizeof(*before), before);
    if (rc == 0)
        rc = pthread_setaffinity_np(pthread_self(), sizeof(core), &core);
    if (rc == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, rc,
                    "HOROVOD_THREAD_AFFINITY: processor %d cannot be used on this host: %s",
                    settings->cores[local_rank], strerror(rc));
}

static hvd_status_t create_watch(const struct hvd_settings *settings,
                                 const struct hvd_topology *topology, struct hvd_watch **watch,
                                 struct hvd_err *err)
{
    const struct hvd_watch_options options = {.rank = topology->rank,
                                              .size = topology->size,
                                              .timeline = settings->timeline,
                                              .marks_cycles = settings->timeline_marks_cycles,
                                              .all_ranks = settings->timeline_all_ranks,
                                              .timeline_bytes = settings->timeline_max_bytes,
                                              .metrics_file = settings->metrics_file,
                                              .flight_recorder = settings->flight_recorder,
                                              .log = &api.log};

    return hvd_watch_create(&options, watch, err);
}

/* A job that begins. */
struct job {
    struct hvd_engine *engine;
    struct hvd_watch *watch;
    struct hvd_autotune *autotune;  /* rank 0's; NULL: none */
    struct hvd_transport *mpi;      /* the engine's */
    struct hvd_comm_sets comm_sets; /* process sets that were given as communicators; owned */
};

/* Rank 0 decides for all. */
static hvd_status_t create_autotune(const struct hvd_settings *settings,
                                    const struct hvd_topology *topology,
                                    struct hvd_autotune **autotune, struct hvd_err *err)
{
    const struct hvd_autotune_options options = {
        .tuner = {.start = {.fusion_bytes = settings->fusion_bytes,
                            .cycle_us = settings->cycle_ns / 1000},
                  .is_fusion_fixed = settings->is_fusion_given,
                  .is_cycle_fixed = settings->is_cycle_given,
                  .warmup_samples = (uint32_t)settings->autotune_warmup_samples,
                  .steps_per_sample = (uint32_t)settings->autotune_steps_per_sample,
                  .points = (uint32_t)settings->autotune_max_samples,
                  .noise = settings->autotune_noise},
        .log_file = settings->autotune_log,
        .log = &api.log};

    return settings->autotune && topology->rank == 0 ? hvd_autotune_create(&options, autotune, err)
                                                     : HVD_OK;
}

/* The engine, its background thread bound as asked. Owns the transport from now on. */
static hvd_status_t start_engine(const struct hvd_settings *settings,
                                 struct hvd_transport *transport, struct job *job,
                                 struct hvd_err *err)
{
    const struct hvd_engine_options options = {.cycle_ns = settings->cycle_ns,
                                               .idle_poll_ns = IDLE_POLL_NS,
                                               .stall_warning_ns = settings->stall_warning_ns,
                                               .stall_shutdown_ns = settings->stall_shutdown_ns,
                                               .cache_capacity = (uint32_t)settings->cache_capacity,
                                               .fusion_bytes = settings->fusion_bytes,
                                               .keeps_groups_apart = settings->disable_group_fusion,
                                               .adasum_chunk_bytes = settings->adasum_chunk_bytes,
                                               .log = &api.log,
                                               .autotune = job->autotune,
                                               .watch = job->watch};
    cpu_set_t before;
    hvd_status_t st = bind_to_core(settings, transport->topology.local_rank, &before, err);

    if (st != HVD_OK) {
        transport->ops->destroy(transport, false);
        return st;
    }
    st = hvd_engine_create(transport, &options, &job->engine, err);
    if (settings->n_cores > 0)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
    return st;
}

/* What the environment says, into the job as well. Holds life. */
static hvd_status_t read_settings(struct hvd_settings *settings, struct hvd_err *err)
{
    static const struct hvd_lookup environment = {.get = look_up};
    hvd_status_t st = hvd_settings_read(&environment, settings, err);

    if (st != HVD_OK)
        return st;
    api.log = hvd_api_log(settings->log_level, settings->log_hides_time);
    api.has_dynamic_sets = settings->dynamic_process_sets;
    hvd_settings_remarks(&environment, remark, &api.log);
    return HVD_OK;
}

/* The ranks that take part, over MPI, and what their communicators say. */
static hvd_status_t meet(const struct hvd_settings *settings, const struct hvd_api_start *from,
                         struct job *job, struct hvd_err *err)
{
    const struct hvd_mpi_options options = {.allow_single_thread = settings->mpi_threads_disable,
                                            .comm = from->n_comms > 0 ? from->comms : NULL,
                                            .ranks = from->ranks,
                                            .n_ranks = from->n_ranks};
    hvd_status_t st = hvd_mpi_create(&options, &job->mpi, err);

    if (st != HVD_OK || from->n_comms <= 1)
        return st;
    st = hvd_comm_sets_read(job->mpi, from->comms, from->n_comms, &job->comm_sets, err);
    if (st != HVD_OK) /* what cannot be is so on every rank */
        job->mpi->ops->destroy(job->mpi, st == HVD_ERR_INVALID);
    return st;
}

/* What an engine that is gone has used. */
static void drop_helpers(const struct job *job)
{
    hvd_autotune_destroy(job->autotune);
    hvd_watch_destroy(job->watch);
}

/* Transport, watch, engine. Holds life. */
static hvd_status_t start(const struct hvd_settings *settings, const struct hvd_api_start *from,
                          struct job *job, struct hvd_err *err)
{
    struct hvd_transport *transport = NULL;
    const struct hvd_hybrid_options hybrid = {.wants_shm = settings->shm, .log = &api.log};
    hvd_status_t st = meet(settings, from, job, err);

    if (st == HVD_OK)
        st = hvd_hybrid_create(job->mpi, &hybrid, &transport, err);
    if (st != HVD_OK)
        return st;
    st = create_watch(settings, &transport->topology, &job->watch, err);
    if (st == HVD_OK)
        st = create_autotune(settings, &transport->topology, &job->autotune, err);
    if (st == HVD_OK)
        st = start_engine(settings, transport, job, err);
    else
        transport->ops->destroy(transport, false);
    if (st != HVD_OK)
        drop_helpers(job);
    return st;
}

/* Replaces the engine of the last job. Holds life. */
static void install(const struct job *job)
{
    /* The watch first: who has read an engine finds its watch, or a later one. */
    struct job old = {.autotune = api.autotune};
    old.watch = atomic_exchange(&api.watch, job->watch);
    old.engine = atomic_exchange(&api.engine, job->engine);

    hvd_inside_drain();
    api.mpi = job->mpi;
    api.autotune = job->autotune;
    hvd_engine_destroy(old.engine);
    drop_helpers(&old);
    hvd_api_place_for_children(hvd_engine_topology(job->engine));
    atomic_store_explicit(&api.is_running, true, memory_order_release);
}

/* Settings that make the ranks do different things if they differ. The others are rank 0's, or
 * each rank's own. */
static hvd_status_t agree_on_settings(struct hvd_engine *engine, const struct hvd_settings *s,
                                      struct hvd_err *err)
{
    const uint64_t chunk = (uint64_t)s->adasum_chunk_bytes;
    const uint64_t mixed = (chunk ^ chunk >> 32) * 0x9e3779b97f4a7c15u >> 36;
    const int32_t digest =
        (int32_t)(mixed << 2 | (uint64_t)s->disable_group_fusion << 1 | s->dynamic_process_sets);
    struct hvd_err why = {0};

    if (hvd_engine_topology(engine)->size == 1)
        return HVD_OK;
    hvd_status_t st = hvd_engine_agree(engine, digest, &why);
    if (st == HVD_ERR_MISMATCH)
        return HVD_FAIL(err, st, 0,
                        "The ranks differ in HOROVOD_DISABLE_GROUP_FUSION, "
                        "HOROVOD_DYNAMIC_PROCESS_SETS or HOROVOD_ADASUM_MPI_CHUNK_SIZE: give every "
                        "rank the same, as horovodrun and mpirun -x do");
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "no agreement about the settings: %s", why.msg);
    return HVD_OK;
}

/* The ranks agree on settings and on the process sets to begin with; without that the job ends
 * before it began. Holds life. */
static hvd_status_t agree(const struct job *job, const struct hvd_settings *settings,
                          const struct hvd_static_sets *sets, struct hvd_err *err)
{
    const struct hvd_static_sets of_comms = {job->comm_sets.ranks, job->comm_sets.sizes,
                                             job->comm_sets.n};
    hvd_status_t st = agree_on_settings(job->engine, settings, err);

    if (st == HVD_OK)
        st = hvd_api_add_sets(job->engine, &of_comms, err);
    if (st == HVD_OK)
        st = hvd_api_add_sets(job->engine, sets, err);
    if (st == HVD_OK)
        return HVD_OK;
    hvd_status_t ended = hvd_engine_shutdown(job->engine, NULL);
    (void)ended; /* the first failure says more */
    hvd_engine_destroy(job->engine);
    drop_helpers(job);
    return st;
}

/* From nothing to a job that runs. Holds life. */
static hvd_status_t begin(const struct hvd_api_start *from, struct hvd_err *err)
{
    struct job job = {0};
    struct hvd_settings settings;
    hvd_status_t st = check_start(from, err);

    if (st == HVD_OK)
        st = hvd_api_watch_forks(err);
    if (st == HVD_OK)
        st = read_settings(&settings, err);
    if (st == HVD_OK)
        st = start(&settings, from, &job, err);
    if (st == HVD_OK)
        st = agree(&job, &settings, &from->sets, err);
    hvd_comm_sets_fini(&job.comm_sets);
    if (st == HVD_OK)
        install(&job);
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
        st = begin(from, &api.init_err);
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

void horovod_shutdown(void)
{
    struct hvd_err err = {0};

    if (hvd_api_is_forked())
        return;
    pthread_mutex_lock(&api.life);
    struct hvd_engine *engine = hvd_api_enter(true);
    if (engine) {
        hvd_status_t st = hvd_engine_shutdown(engine, &err);
        if (st == HVD_OK) {
            atomic_store(&api.is_running, false);
            hvd_api_place_for_children(NULL);
            hvd_watch_end(api.watch);
        } else {
            hvd_log(&api.log, HVD_LOG_ERROR, "api", "horovod_shutdown failed: %s", err.msg);
        }
        hvd_api_leave();
    } else {
        hvd_mpi_leave(); /* a process that was left out of the job */
    }
    pthread_mutex_unlock(&api.life);
}

struct hvd_transport *hvd_api_lock_mpi(void)
{
    if (hvd_api_is_forked())
        return NULL;
    pthread_mutex_lock(&api.life);
    return atomic_load(&api.is_running) ? api.mpi : NULL;
}

void hvd_api_unlock_mpi(void)
{
    if (!hvd_api_is_forked())
        pthread_mutex_unlock(&api.life);
}

int horovod_is_initialized(void)
{
    return !hvd_api_is_forked() && atomic_load_explicit(&api.is_running, memory_order_acquire);
}

struct hvd_watch *hvd_api_watch(const struct hvd_log **log)
{
    *log = &api.log;
    return api.watch;
}

bool hvd_api_allows_set_changes(void)
{
    if (!api.has_dynamic_sets)
        hvd_log(&api.log, HVD_LOG_WARN, "api",
                "Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow adding process sets after Horovod "
                "initialization.");
    return api.has_dynamic_sets;
}
