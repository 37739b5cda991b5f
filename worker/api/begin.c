/*
 * From nothing to a job that runs: settings, the other ranks, transports, engine. One thread at a
 * time. What can fail on one rank alone is done before the ranks tell each other how it went, so
 * that all of them fail, with the reason of the one that could not.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rank_state.h"
#include "worker/api/begin.h"
#include "worker/transport/hybrid.h"
#include "worker/transport/mpi_comms.h"

#define IDLE_POLL_NS 50000000
#define GRACE_NS 300000000
#define NS_PER_MS 1000000

/* A job on its way. */
struct start {
    struct hvd_settings settings;
    struct hvd_comm_sets comm_sets;  /* process sets that were given as communicators; owned */
    cpu_set_t before;                /* where this thread ran */
    bool is_bound;                   /* and does not while threads are made */
    struct hvd_mpi_arrival *arrival; /* who comes; owned */
    struct hvd_transport *transport; /* the engine takes it */
};

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

/* Has the threads that are made next run on this rank's core. */
static hvd_status_t bind_to_core(struct start *s, int local_rank, struct hvd_err *err)
{
    const struct hvd_settings *settings = &s->settings;
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
    int rc = pthread_getaffinity_np(pthread_self(), sizeof(s->before), &s->before);
    if (rc == 0)
        rc = pthread_setaffinity_np(pthread_self(), sizeof(core), &core);
    s->is_bound = rc == 0;
    if (rc == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, rc,
                    "HOROVOD_THREAD_AFFINITY: processor %d cannot be used on this host: %s",
                    settings->cores[local_rank], strerror(rc));
}

static void unbind(const struct start *s)
{
    if (s->is_bound)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(s->before), &s->before);
}

static const char *host_of(const void *ctx, int rank)
{
    const struct hvd_transport *mpi = ctx;

    return mpi->ops->host(mpi, rank);
}

static hvd_status_t create_telemetry(const struct hvd_settings *settings,
                                     const struct hvd_topology *topology, struct hvd_job *job,
                                     struct hvd_err *err)
{
    const struct hvd_telemetry_options options = {.rank = topology->rank,
                                                  .size = topology->size,
                                                  .host = host_of,
                                                  .ctx = job->mpi,
                                                  .timeline = settings->timeline,
                                                  .marks_cycles = settings->timeline_marks_cycles,
                                                  .all_ranks = settings->timeline_all_ranks,
                                                  .timeline_bytes = settings->timeline_max_bytes,
                                                  .metrics_file = settings->metrics_file,
                                                  .flight_recorder = settings->flight_recorder,
                                                  .log = &job->log};

    return hvd_telemetry_create(&options, &job->telemetry, err);
}

/* Rank 0 decides for all. */
static hvd_status_t create_autotune(const struct hvd_settings *settings,
                                    const struct hvd_topology *topology, struct hvd_job *job,
                                    struct hvd_err *err)
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
        .log = &job->log};

    return settings->autotune && topology->rank == 0
               ? hvd_autotune_create(&options, &job->autotune, err)
               : HVD_OK;
}

/* What the environment says. */
static hvd_status_t read_settings(struct start *s, struct hvd_job *job, struct hvd_err *err)
{
    static const struct hvd_lookup environment = {.get = look_up};
    hvd_status_t st = hvd_settings_read(&environment, &s->settings, err);

    if (st != HVD_OK)
        return st;
    hvd_rank_state_set_stall_times(s->settings.stall_warning_ns / NS_PER_MS,
                                   s->settings.stall_shutdown_ns / NS_PER_MS);
    job->log = hvd_api_log(s->settings.log_level, s->settings.log_hides_time);
    job->has_dynamic_sets = s->settings.dynamic_process_sets;
    hvd_settings_remarks(&environment, remark, &job->log);
    return HVD_OK;
}

/* From here on it is watched who comes; st: how it went so far, and how it goes on. */
static hvd_status_t watch_arrival(struct start *s, const struct hvd_job *job, hvd_status_t st,
                                  struct hvd_err *err)
{
    const hvd_status_t made =
        hvd_mpi_arrival_create(s->settings.stall_warning_ns, s->settings.stall_shutdown_ns,
                               &job->log, &s->arrival, st == HVD_OK ? err : NULL);

    return st == HVD_OK ? made : st;
}

/* All that this rank can fail in alone, now that it knows its place. */
static hvd_status_t prepare(struct start *s, struct hvd_job *job, struct hvd_err *err)
{
    const struct hvd_topology *topology = &job->mpi->topology;
    hvd_status_t st = bind_to_core(s, topology->local_rank, err);

    if (st == HVD_OK)
        st = create_telemetry(&s->settings, topology, job, err);
    if (st == HVD_OK)
        st = create_autotune(&s->settings, topology, job, err);
    return st;
}

/* Settings that make the ranks do different things if they differ. The others are rank 0's, or
 * each rank's own. */
static hvd_status_t agree_on_settings(const struct hvd_transport *mpi, const struct hvd_settings *s,
                                      struct hvd_err *err)
{
    const uint64_t values[] = {(uint64_t)s->mpi_allreduce,
                               hvd_algorithm_table_digest(&s->mpi_allreduce_table),
                               s->deterministic,
                               (uint64_t)s->coordinator_fanout,
                               (uint64_t)s->adasum_chunk_bytes,
                               s->disable_group_fusion,
                               s->dynamic_process_sets};
    uint64_t sum = 0;
    bool is_same = true;

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        sum = (sum ^ values[i]) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    hvd_status_t st = hvd_mpi_comms_same(mpi, sum, &is_same, err);
    if (st != HVD_OK || is_same)
        return st;
    return HVD_FAIL(err, HVD_ERR_MISMATCH, 0,
                    "The ranks differ in HOROVOD_DISABLE_GROUP_FUSION, "
                    "HOROVOD_DYNAMIC_PROCESS_SETS, HOROVOD_ADASUM_MPI_CHUNK_SIZE, "
                    "HOROVOD_MPI_ALLREDUCE, HOROVOD_MPI_ALLREDUCE_TABLE, HOROVOD_DETERMINISTIC or "
                    "HOROVOD_COORDINATOR_FANOUT: give every rank the same, as horovodrun and "
                    "mpirun -x do");
}

/* When a rank counts as silent has to be the same for those who ask and those who answer. */
static hvd_status_t adopt_stall_times(const struct hvd_transport *mpi, struct hvd_settings *s,
                                      struct hvd_err *err)
{
    int64_t times[] = {s->stall_warning_ns, s->stall_shutdown_ns};
    hvd_status_t st = hvd_mpi_comms_adopt(mpi, times, 2, err);

    if (st == HVD_OK) {
        s->stall_warning_ns = times[0];
        s->stall_shutdown_ns = times[1];
    }
    return st;
}

/* What is done together with the other ranks, in a thread that may be left behind. */
struct meeting {
    struct hvd_transport *mpi;
    struct hvd_settings settings;
    struct hvd_log log;
    const void *comms; /* see hvd_api_start */
    int n_comms;
    hvd_status_t status;            /* how it went here so far ... */
    struct hvd_err why;             /* ... and why */
    struct hvd_comm_sets comm_sets; /* what comes of it */
    struct hvd_transport *transport;
};

static hvd_status_t meet_others(void *ctx, struct hvd_err *err)
{
    struct meeting *m = ctx;

    *err = m->why;
    hvd_status_t st = hvd_mpi_comms_agree(m->mpi, m->status, err);
    if (st == HVD_OK)
        st = agree_on_settings(m->mpi, &m->settings, err);
    if (st == HVD_OK)
        st = adopt_stall_times(m->mpi, &m->settings, err);
    if (st == HVD_OK && m->n_comms > 1)
        st = hvd_mpi_comms_sets_read(m->mpi, m->comms, m->n_comms, &m->comm_sets, err);
    return st;
}

static hvd_status_t share_memory(void *ctx, struct hvd_err *err)
{
    struct meeting *m = ctx;
    const struct hvd_hybrid_options hybrid = {.wants_shm = m->settings.shm, .log = &m->log};

    return hvd_hybrid_create(m->mpi, &hybrid, &m->transport, err);
}

/* The ranks agree, or the job ends before it began: on all of them. */
static hvd_status_t settle(struct meeting *m, struct start *s, struct hvd_job *job,
                           struct hvd_err *err)
{
    struct hvd_err why = {0};
    hvd_status_t st = hvd_mpi_arrival_attend(s->arrival, meet_others, m, &why);

    if (st == HVD_OK) {
        s->settings = m->settings;
        s->comm_sets = m->comm_sets;
        hvd_mpi_arrival_set_times(s->arrival, s->settings.stall_warning_ns,
                                  s->settings.stall_shutdown_ns);
        return HVD_OK;
    }
    if (err)
        *err = why;
    if (st == HVD_ERR_GONE || hvd_mpi_arrival_finish(s->arrival, NULL) != HVD_OK)
        return st;
    hvd_mpi_keep(job->mpi); /* so that the program may try again */
    job->mpi->ops->destroy(job->mpi, true);
    return st;
}

/* All that takes the other ranks, after MPI: agreement, shared memory, and that all have it. st:
 * how it went here so far. */
static hvd_status_t join_others(const struct hvd_api_start *from, hvd_status_t st, struct start *s,
                                struct hvd_job *job, struct hvd_err *err)
{
    struct meeting *m = hvd_calloc(1, sizeof(*m));

    if (!m) /* nobody else is told: they see that this rank does not come */
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a job");
    m->mpi = job->mpi;
    m->settings = s->settings;
    m->log = job->log;
    m->comms = from->comms;
    m->n_comms = from->n_comms;
    m->status = st;
    if (st != HVD_OK && err)
        m->why = *err;
    st = settle(m, s, job, err);
    if (st == HVD_OK)
        st = hvd_mpi_arrival_attend(s->arrival, share_memory, m, err);
    if (st == HVD_ERR_GONE)
        return st;
    s->transport = st == HVD_OK ? m->transport : NULL;
    hvd_free(m);
    return st == HVD_OK ? hvd_mpi_arrival_finish(s->arrival, err) : st;
}

/* The ranks that take part, over MPI; st: how it went here so far. All of them go on, or none. */
static hvd_status_t meet(const struct hvd_api_start *from, hvd_status_t st, struct start *s,
                         struct hvd_job *job, struct hvd_err *err)
{
    const bool is_single = st == HVD_OK && s->settings.mpi_threads_disable;
    const struct hvd_mpi_options options = {.allow_single_thread = is_single,
                                            .algorithm = s->settings.mpi_allreduce,
                                            .table = s->settings.mpi_allreduce_table,
                                            .is_deterministic = s->settings.deterministic,
                                            .comm = from->n_comms > 0 ? from->comms : NULL,
                                            .ranks = from->ranks,
                                            .n_ranks = from->n_ranks,
                                            .arrival = s->arrival};
    hvd_status_t met = hvd_mpi_create(&options, &job->mpi, st == HVD_OK ? err : NULL);

    if (met != HVD_OK)
        return st == HVD_OK ? met : st;
    if (st == HVD_OK)
        st = prepare(s, job, err);
    return join_others(from, st, s, job, err);
}

/* After which there is nothing left to fail but memory. */
static hvd_status_t start_engine(const struct start *s, struct hvd_job *job, struct hvd_err *err)
{
    const struct hvd_settings *settings = &s->settings;
    const struct hvd_engine_options options = {.cycle_ns = settings->cycle_ns,
                                               .idle_poll_ns = IDLE_POLL_NS,
                                               .grace_ns = GRACE_NS,
                                               .stall_warning_ns = settings->stall_warning_ns,
                                               .stall_shutdown_ns = settings->stall_shutdown_ns,
                                               .cache_capacity = (uint32_t)settings->cache_capacity,
                                               .fusion_bytes = settings->fusion_bytes,
                                               .tree_fanout = (int)settings->coordinator_fanout,
                                               .keeps_groups_apart = settings->disable_group_fusion,
                                               .adasum_chunk_bytes = settings->adasum_chunk_bytes,
                                               .log = &job->log,
                                               .autotune = job->autotune,
                                               .telemetry = job->telemetry};

    return hvd_engine_create(s->transport, &options, &job->engine, err);
}

/* The ranks agree on the process sets to begin with; without that the job ends before it began. */
static hvd_status_t agree(const struct start *s, const struct hvd_job *job,
                          const struct hvd_static_sets *sets, struct hvd_err *err)
{
    const struct hvd_static_sets of_comms = {s->comm_sets.ranks, s->comm_sets.sizes,
                                             s->comm_sets.n};
    hvd_status_t st = hvd_api_add_sets(job->engine, &of_comms, err);

    if (st == HVD_OK)
        st = hvd_api_add_sets(job->engine, sets, err);
    if (st == HVD_OK)
        return HVD_OK;
    hvd_mpi_keep(job->mpi); /* so that the program may try again */
    hvd_status_t ended = hvd_engine_shutdown(job->engine, NULL);
    (void)ended; /* the first failure says more */
    return st;
}

void hvd_api_begin_fini(struct hvd_job *job)
{
    hvd_engine_destroy(job->engine);
    hvd_autotune_destroy(job->autotune);
    hvd_telemetry_destroy(job->telemetry);
    job->engine = NULL;
    job->autotune = NULL;
    job->telemetry = NULL;
    job->mpi = NULL;
}

hvd_status_t hvd_api_begin(struct hvd_job *job, const struct hvd_api_start *from,
                           struct hvd_err *err)
{
    struct start s = {.is_bound = false};
    hvd_status_t st = check_start(from, err);

    if (st == HVD_OK)
        st = hvd_api_watch_forks(err);
    if (st != HVD_OK)
        return st;
    st = read_settings(&s, job, err);
    st = watch_arrival(&s, job, st, err);
    if (s.arrival)
        st = meet(from, st, &s, job, err);
    if (st == HVD_OK)
        st = start_engine(&s, job, err);
    unbind(&s);
    if (st == HVD_OK)
        st = agree(&s, job, &from->sets, err);
    hvd_mpi_comms_sets_fini(&s.comm_sets);
    hvd_mpi_arrival_destroy(s.arrival);
    if (st != HVD_OK)
        hvd_api_begin_fini(job);
    return st;
}
