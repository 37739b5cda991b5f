/*
 * Starts a job: settings, the other ranks, transports, engine. One thread at a time. Each rank
 * first does what can fail on it alone. Then the ranks exchange their status, so that all of them
 * fail with the reason of the failed one.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rank_state.h"
#include "base/text.h"
#include "worker/api/begin.h"
#include "worker/api/providers.h"
#include "worker/transport/hybrid/hybrid.h"

#define IDLE_POLL_NS 50000000
#define GRACE_NS 300000000
#define NS_PER_MS 1000000

/* The state of a job that starts. */
struct start {
    struct hvd_settings settings;
    struct hvd_bootstrap_sets given_sets; /* process sets from MPI communicators; owned */
    cpu_set_t before;                     /* the CPUs on which this thread could run */
    bool is_bound;                        /* this thread runs on one core while it creates others */
    struct hvd_transport *transport;      /* the engine takes it */
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

/* Binds this thread to this rank's core, so that the threads that it creates inherit that core. */
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
    const struct hvd_transport *t = ctx;

    return t->ops->host(t, rank);
}

static hvd_status_t create_telemetry(const struct hvd_settings *settings,
                                     const struct hvd_topology *topology, struct hvd_job *job,
                                     struct hvd_err *err)
{
    const struct hvd_telemetry_options options = {.rank = topology->rank,
                                                  .size = topology->size,
                                                  .host = host_of,
                                                  .ctx = job->bootstrap->transport,
                                                  .timeline = settings->timeline,
                                                  .marks_cycles = settings->timeline_marks_cycles,
                                                  .all_ranks = settings->timeline_all_ranks,
                                                  .timeline_bytes = settings->timeline_max_bytes,
                                                  .metrics_file = settings->metrics_file,
                                                  .flight_recorder = settings->flight_recorder,
                                                  .log = &job->log};

    return hvd_telemetry_create(&options, &job->telemetry, err);
}

/* Only rank 0 tunes, for all ranks. */
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

/* Reads the settings from the environment. */
static hvd_status_t read_settings(struct start *s, struct hvd_job *job, struct hvd_err *err)
{
    static const struct hvd_lookup environment = {.get = look_up, .provider = hvd_providers_of};
    hvd_status_t st = hvd_settings_read(&environment, &s->settings, err);

    if (st != HVD_OK)
        return st;
    hvd_rank_state_set_stall_times(s->settings.stall_warning_ns / NS_PER_MS,
                                   s->settings.stall_shutdown_ns / NS_PER_MS);
    job->log = hvd_api_log(s->settings.log_level, s->settings.log_hides_time);
    job->has_dynamic_sets = s->settings.dynamic_process_sets;
    job->waits_on_host = !s->settings.async_completion;
    job->device_options = (struct hvd_cuda_options){
        .has_no_nccl = s->settings.gpu_operations == HVD_GPU_OVER_HOST,
        .has_torus = s->settings.torus_allreduce && !s->settings.hierarchical_allreduce,
        .has_hierarchy = s->settings.hierarchical_allreduce};
    hvd_settings_remarks(&environment, remark, &job->log);
    return HVD_OK;
}

/* Creates the bootstrap, which from here on tracks the arrival of the ranks. st is the status so
 * far; returns it, or the bootstrap's failure. */
static hvd_status_t create_bootstrap(const struct hvd_api_start *from, hvd_status_t st,
                                     const struct start *s, struct hvd_job *job,
                                     struct hvd_err *err)
{
    const struct hvd_settings *settings = &s->settings;
    const struct hvd_bootstrap_options options = {.allow_single_thread =
                                                      st == HVD_OK && settings->mpi_threads_disable,
                                                  .algorithm = settings->mpi_allreduce,
                                                  .table = settings->mpi_allreduce_table,
                                                  .is_deterministic = settings->deterministic,
                                                  .warning_ns = settings->stall_warning_ns,
                                                  .shutdown_ns = settings->stall_shutdown_ns,
                                                  .ranks = from->ranks,
                                                  .n_ranks = from->n_ranks,
                                                  .groups = from->comms,
                                                  .n_groups = from->n_comms,
                                                  .log = &job->log};
    const hvd_status_t made =
        hvd_providers_bootstrap()->create(&options, &job->bootstrap, st == HVD_OK ? err : NULL);

    return st == HVD_OK ? made : st;
}

/* Does the rest of what can fail on this rank alone, now that it knows its place. */
static hvd_status_t prepare(struct start *s, struct hvd_job *job, struct hvd_err *err)
{
    const struct hvd_topology *topology = &job->bootstrap->transport->topology;
    hvd_status_t st = bind_to_core(s, topology->local_rank, err);

    if (st == HVD_OK)
        st = create_telemetry(&s->settings, topology, job, err);
    if (st == HVD_OK)
        st = create_autotune(&s->settings, topology, job, err);
    return st;
}

/* A setting that has to be the same on all ranks. */
struct shared_setting {
    const char *name;
    uint64_t value;
};

/* Fails with the names of the settings that differ, which all ranks find together. */
static hvd_status_t name_differences(struct hvd_bootstrap *b, const struct shared_setting *settings,
                                     size_t n, struct hvd_err *err)
{
    char out[HVD_ERR_MSG_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));
    int n_different = 0;

    for (size_t i = 0; i < n; i++) {
        bool is_same = true;
        const hvd_status_t st = hvd_bootstrap_same(b, settings[i].value, &is_same, err);
        if (st != HVD_OK)
            return st;
        if (!is_same)
            hvd_text_add(&text, "%s%s", n_different++ > 0 ? ", " : "", settings[i].name);
    }
    return HVD_FAIL(err, HVD_ERR_MISMATCH, 0,
                    "The ranks differ in %s: give every rank the same, as horovodrun and "
                    "mpirun -x do",
                    out);
}

/* Compares the settings that have to be the same on all ranks. Rank 0 decides the others, or each
 * rank sets its own. */
static hvd_status_t agree_on_settings(struct hvd_bootstrap *b, const struct hvd_settings *s,
                                      struct hvd_err *err)
{
    const struct shared_setting settings[] = {
        {"HOROVOD_MPI_ALLREDUCE", (uint64_t)s->mpi_allreduce},
        {"HOROVOD_MPI_ALLREDUCE_TABLE", hvd_algorithm_table_digest(&s->mpi_allreduce_table)},
        {"HOROVOD_DETERMINISTIC", s->deterministic},
        {"HOROVOD_COORDINATOR_FANOUT", (uint64_t)s->coordinator_fanout},
        {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", (uint64_t)s->adasum_chunk_bytes},
        {"HOROVOD_DISABLE_GROUP_FUSION", s->disable_group_fusion},
        {"HOROVOD_TORUS_ALLREDUCE", s->torus_allreduce},
        {"HOROVOD_HIERARCHICAL_ALLREDUCE", s->hierarchical_allreduce},
        {"HOROVOD_DYNAMIC_PROCESS_SETS", s->dynamic_process_sets}};
    const size_t n = sizeof(settings) / sizeof(settings[0]);
    uint64_t sum = 0;
    bool is_same = true;

    for (size_t i = 0; i < n; i++) {
        sum = (sum ^ settings[i].value) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    const hvd_status_t st = hvd_bootstrap_same(b, sum, &is_same, err);
    return st != HVD_OK || is_same ? st : name_differences(b, settings, n, err);
}

/* Adopts the stall times of rank 0, because the rank that probes and the rank that answers must
 * agree on them. */
static hvd_status_t adopt_stall_times(struct hvd_bootstrap *b, struct hvd_settings *s,
                                      struct hvd_err *err)
{
    int64_t times[] = {s->stall_warning_ns, s->stall_shutdown_ns};
    const hvd_status_t st = b->ops->broadcast(b, times, sizeof(times), 0, err);

    if (st != HVD_OK)
        return HVD_WRAP(err, st, "the settings of rank 0");
    s->stall_warning_ns = times[0];
    s->stall_shutdown_ns = times[1];
    return HVD_OK;
}

/* The arguments of the steps with the other ranks. They run in a thread that may be abandoned. */
struct meeting {
    struct hvd_bootstrap *bootstrap;
    struct hvd_settings settings;
    struct hvd_log log;
    hvd_status_t status;                  /* of this rank so far ... */
    struct hvd_err why;                   /* ... and why */
    struct hvd_bootstrap_sets given_sets; /* the result */
    struct hvd_transport *transport;
};

static hvd_status_t meet_others(void *ctx, struct hvd_err *err)
{
    struct meeting *m = ctx;
    struct hvd_bootstrap *b = m->bootstrap;

    *err = m->why;
    hvd_status_t st = hvd_bootstrap_agree(b, m->status, err);
    if (st == HVD_OK)
        st = agree_on_settings(b, &m->settings, err);
    if (st == HVD_OK)
        st = adopt_stall_times(b, &m->settings, err);
    if (st == HVD_OK && b->ops->read_sets)
        st = b->ops->read_sets(b, &m->given_sets, err);
    return st;
}

static hvd_status_t share_memory(void *ctx, struct hvd_err *err)
{
    struct meeting *m = ctx;
    const struct hvd_hybrid_options hybrid = {.wants_shm = m->settings.shm, .log = &m->log};

    return hvd_hybrid_create(m->bootstrap->transport, &hybrid, &m->transport, err);
}

/* Agrees with the other ranks. On failure the job ends before it began, on all ranks. */
static hvd_status_t settle(struct meeting *m, struct start *s, struct hvd_err *err)
{
    struct hvd_bootstrap *b = m->bootstrap;
    struct hvd_err why = {0};
    hvd_status_t st = b->ops->attend(b, meet_others, m, &why);

    if (st == HVD_OK) {
        s->settings = m->settings;
        s->given_sets = m->given_sets;
        b->ops->set_times(b, s->settings.stall_warning_ns, s->settings.stall_shutdown_ns);
        return HVD_OK;
    }
    if (err)
        *err = why;
    if (st == HVD_ERR_GONE || b->ops->finish(b, NULL) != HVD_OK)
        return st;
    b->ops->keep(b); /* so that the program may try again */
    b->transport->ops->destroy(b->transport, true);
    b->transport = NULL;
    return st;
}

/* Does the steps that need the other ranks, once they are found: agreement, shared memory, and the
 * confirmation that all have it. st is the status of this rank so far. */
static hvd_status_t join_others(hvd_status_t st, struct start *s, struct hvd_job *job,
                                struct hvd_err *err)
{
    struct hvd_bootstrap *b = job->bootstrap;
    struct meeting *m = hvd_calloc(1, sizeof(*m));

    if (!m) /* the others only notice that this rank does not come */
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a job");
    m->bootstrap = b;
    m->settings = s->settings;
    m->log = job->log;
    m->status = st;
    if (st != HVD_OK && err)
        m->why = *err;
    st = settle(m, s, err);
    if (st == HVD_OK)
        st = b->ops->attend(b, share_memory, m, err);
    if (st == HVD_ERR_GONE)
        return st;
    s->transport = st == HVD_OK ? m->transport : NULL;
    hvd_free(m);
    return st == HVD_OK ? b->ops->finish(b, err) : st;
}

/* Finds the ranks that take part, and continues with them. st is the status of this rank so far.
 * Either all of them succeed, or none. */
static hvd_status_t meet(hvd_status_t st, struct start *s, struct hvd_job *job, struct hvd_err *err)
{
    const hvd_status_t met = job->bootstrap->ops->join(job->bootstrap, st == HVD_OK ? err : NULL);

    if (met != HVD_OK)
        return st == HVD_OK ? met : st;
    if (st == HVD_OK)
        st = prepare(s, job, err);
    return join_others(st, s, job, err);
}

/* Creates the engine. Afterwards only memory can run out. */
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

/* Agrees with the other ranks on the process sets to begin with. On failure the job ends before it
 * began. */
static hvd_status_t agree(const struct start *s, const struct hvd_job *job,
                          const struct hvd_static_sets *sets, struct hvd_err *err)
{
    const struct hvd_static_sets given = {s->given_sets.ranks, s->given_sets.sizes,
                                          s->given_sets.n};
    hvd_status_t st = hvd_api_add_sets(job->engine, &given, err);

    if (st == HVD_OK)
        st = hvd_api_add_sets(job->engine, sets, err);
    if (st == HVD_OK)
        return HVD_OK;
    job->bootstrap->ops->keep(job->bootstrap); /* so that the program may try again */
    hvd_status_t ended = hvd_engine_shutdown(job->engine, NULL);
    (void)ended; /* the first failure is the cause */
    return st;
}

void hvd_api_begin_fini(struct hvd_job *job)
{
    struct hvd_device_port *device = job->engine ? hvd_engine_device(job->engine) : NULL;

    hvd_engine_destroy(job->engine);
    hvd_device_release(device);
    hvd_autotune_destroy(job->autotune);
    hvd_telemetry_destroy(job->telemetry);
    hvd_bootstrap_destroy(job->bootstrap);
    job->engine = NULL;
    job->autotune = NULL;
    job->telemetry = NULL;
    job->bootstrap = NULL;
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
    st = create_bootstrap(from, st, &s, job, err);
    if (job->bootstrap)
        st = meet(st, &s, job, err);
    if (st == HVD_OK)
        st = start_engine(&s, job, err);
    unbind(&s);
    if (st == HVD_OK)
        st = agree(&s, job, &from->sets, err);
    hvd_bootstrap_sets_fini(&s.given_sets);
    if (st != HVD_OK)
        hvd_api_begin_fini(job);
    return st;
}
