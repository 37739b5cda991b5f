/*
 * The settings of the runtime. One table has every variable that is honoured; another has every
 * variable of Horovod without an effect here, and the reason. docs/environment.md lists both (a
 * test compares). An invalid value is an error that names the variable, because a silent default
 * would hide a typo. No environment and no log here: the caller passes both.
 */
#include "worker/api/settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/text.h"

enum kind {
    SWITCH,    /* bool */
    INTEGER,   /* int64_t */
    DURATION,  /* int64_t of nanoseconds; written as a number of units of `unit_ns` */
    FRACTION,  /* double */
    PATH,      /* char[HVD_SETTING_MAX] */
    LEVEL,     /* enum hvd_log_level */
    METHOD,    /* enum hvd_algorithm */
    TABLE,     /* struct hvd_algorithm_table */
    CORES,     /* n_cores, cores */
    GPU_ROUTE, /* enum hvd_gpu_operations */
    PROVIDER,  /* not stored: the name of a provider that this library was built with */
};

struct variable {
    const char *name;
    enum kind kind;
    size_t offset;
    double fallback;
    double max; /* the minimum is 0 */
    const char *unit;
    double unit_ns;
};

#define FIELD(name) offsetof(struct hvd_settings, name)
#define EXABYTE 1152921504606846976.0

static const struct variable honoured[] = {
    {"HOROVOD_CONTROLLER", PROVIDER, 0, 0, 0, "", 0},
    {"HOROVOD_CPU_OPERATIONS", PROVIDER, 0, 0, 0, "", 0},
    {"HOROVOD_MPI_THREADS_DISABLE", SWITCH, FIELD(mpi_threads_disable), 0, 0, "", 0},
    {"HOROVOD_SHM", SWITCH, FIELD(shm), 1, 0, "", 0},
    {"HOROVOD_MPI_ALLREDUCE", METHOD, FIELD(mpi_allreduce), 0, 0, "", 0},
    {"HOROVOD_MPI_ALLREDUCE_TABLE", TABLE, FIELD(mpi_allreduce_table), 0, 0, "", 0},
    {"HOROVOD_DETERMINISTIC", SWITCH, FIELD(deterministic), 0, 0, "", 0},
    {"HOROVOD_FUSION_THRESHOLD", INTEGER, FIELD(fusion_bytes), 134217728, EXABYTE, "bytes", 0},
    {"HOROVOD_CYCLE_TIME", DURATION, FIELD(cycle_ns), 1, 60000, "milliseconds", 1e6},
    {"HOROVOD_CACHE_CAPACITY", INTEGER, FIELD(cache_capacity), 1 << 14, 1 << 30, "tensors", 0},
    {"HOROVOD_COORDINATOR_FANOUT", INTEGER, FIELD(coordinator_fanout), 0, 1e6, "children", 0},
    {"HOROVOD_DISABLE_GROUP_FUSION", SWITCH, FIELD(disable_group_fusion), 0, 0, "", 0},
    {"HOROVOD_DYNAMIC_PROCESS_SETS", SWITCH, FIELD(dynamic_process_sets), 0, 0, "", 0},
    {"HOROVOD_STALL_CHECK_DISABLE", SWITCH, SIZE_MAX, 0, 0, "", 0},
    {"HOROVOD_STALL_CHECK_TIME_SECONDS", DURATION, FIELD(stall_warning_ns), 60, 1e6, "seconds",
     1e9},
    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", DURATION, FIELD(stall_shutdown_ns), 0, 1e6, "seconds",
     1e9},
    {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", INTEGER, FIELD(adasum_chunk_bytes), 1 << 30, EXABYTE, "bytes",
     0},
    {"HOROVOD_GPU_OPERATIONS", GPU_ROUTE, FIELD(gpu_operations), 0, 0, "", 0},
    {"HOROVOD_TORUS_ALLREDUCE", SWITCH, FIELD(torus_allreduce), 0, 0, "", 0},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE", SWITCH, FIELD(hierarchical_allreduce), 0, 0, "", 0},
    {"HOROVOD_ENABLE_ASYNC_COMPLETION", SWITCH, FIELD(async_completion), 1, 0, "", 0},
    {"HOROVOD_AUTOTUNE", SWITCH, FIELD(autotune), 0, 0, "", 0},
    {"HOROVOD_AUTOTUNE_LOG", PATH, FIELD(autotune_log), 0, 0, "", 0},
    {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", INTEGER, FIELD(autotune_warmup_samples), 3, 1e6, "samples",
     0},
    {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", INTEGER, FIELD(autotune_steps_per_sample), 10, 1e6,
     "steps", 0},
    {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", INTEGER, FIELD(autotune_max_samples), 20, 200,
     "settings", 0},
    {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", FRACTION, FIELD(autotune_noise), 0.8, 1, "", 0},
    {"HOROVOD_THREAD_AFFINITY", CORES, 0, 0, 0, "", 0},
    {"HOROVOD_LOG_LEVEL", LEVEL, FIELD(log_level), HVD_LOG_WARN, 0, "", 0},
    {"HOROVOD_LOG_HIDE_TIME", SWITCH, FIELD(log_hides_time), 0, 0, "", 0},
    {"HOROVOD_LOG_TIMESTAMP", SWITCH, SIZE_MAX, 1, 0, "", 0},
    {"HOROVOD_TIMELINE", PATH, FIELD(timeline), 0, 0, "", 0},
    {"HOROVOD_TIMELINE_MARK_CYCLES", SWITCH, FIELD(timeline_marks_cycles), 0, 0, "", 0},
    {"HOROVOD_TIMELINE_ALL_RANKS", SWITCH, FIELD(timeline_all_ranks), 0, 0, "", 0},
    {"HOROVOD_TIMELINE_MAX_BYTES", INTEGER, FIELD(timeline_max_bytes), 0, EXABYTE, "bytes", 0},
    {"HOROVOD_METRICS_FILE", PATH, FIELD(metrics_file), 0, 0, "", 0},
    {"HOROVOD_FLIGHT_RECORDER", PATH, FIELD(flight_recorder), 0, 0, "", 0},
};

#define FROM_MPI "ranks come from MPI"
#define NO_GLOO "there is no Gloo in this library"

static const struct {
    const char *name;
    const char *why;
} without_effect[] = {
    {"HOROVOD_RANK", FROM_MPI},
    {"HOROVOD_SIZE", FROM_MPI},
    {"HOROVOD_LOCAL_RANK", FROM_MPI},
    {"HOROVOD_LOCAL_SIZE", FROM_MPI},
    {"HOROVOD_CROSS_RANK", FROM_MPI},
    {"HOROVOD_CROSS_SIZE", FROM_MPI},
    {"HOROVOD_HOSTNAME", FROM_MPI},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", NO_GLOO},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", NO_GLOO},
    {"HOROVOD_GLOO_IFACE", NO_GLOO},
    {"HOROVOD_GLOO_TIMEOUT_SECONDS", NO_GLOO},
    {"HOROVOD_HIERARCHICAL_ALLGATHER", "the transport uses the hosts' structure by itself"},
    {"HOROVOD_BATCH_D2D_MEMCOPIES", "a kernel copies all tensors of a fused operation at once"},
    {"HOROVOD_NUM_NCCL_STREAMS", "each process set has streams of its own"},
    {"HOROVOD_ENABLE_XLA_OPS", "allreduces that XLA compiles for the host need no setting"},
    {"HOROVOD_ELASTIC", "the ranks of an MPI job are fixed"},
    {"HOROVOD_DISABLE_NVTX_RANGES", "the library marks no ranges for NVIDIA's profiler"},
    {"HOROVOD_CCL_CACHE", "there is no oneCCL in this library"},
    {"DDL_OPTIONS", "there is no DDL in this library"},
};

#define N_HONOURED (sizeof(honoured) / sizeof(honoured[0]))
#define N_WITHOUT_EFFECT (sizeof(without_effect) / sizeof(without_effect[0]))

/* Returns the value; NULL when it is not set, or empty. */
static const char *look_up(const struct hvd_lookup *from, const char *name)
{
    const char *text = from->get(from->ctx, name);

    return text && *text ? text : NULL;
}

/* Returns whether a program requests Gloo, which MPI replaces here. */
static bool is_gloo(const char *text)
{
    return strcasecmp(text, "gloo") == 0;
}

/* Returns whether the library was built with the provider that a variable names. */
static bool has_provider(const struct hvd_lookup *from, const char *variable, const char *text)
{
    for (size_t i = 0; from->provider(variable, i); i++)
        if (strcasecmp(text, from->provider(variable, i)) == 0)
            return true;
    return false;
}

/* A number above 0 is on, as in Horovod. Horovod takes every word for off; here words such as
 * "true" have their usual meaning, and any other text is an error. */
static hvd_status_t read_switch(const char *text, bool *out)
{
    static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}};
    static const int64_t range[2] = {0, INT_MAX};
    int64_t value;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        for (int is_on = 0; is_on < 2; is_on++) {
            if (strcasecmp(text, words[i][is_on]) == 0) {
                *out = is_on;
                return HVD_OK;
            }
        }
    }
    if (hvd_str_parse_int64(hvd_strview_of(text), range, &value, NULL) != HVD_OK)
        return HVD_ERR_INVALID;
    *out = value > 0;
    return HVD_OK;
}

static hvd_status_t read_duration(const struct variable *v, const char *text, int64_t *out)
{
    char *end = NULL;
    double value = strtod(text, &end);

    if (*end != '\0' || !isfinite(value) || value < 0 || value > v->max)
        return HVD_ERR_INVALID;
    *out = (int64_t)(value * v->unit_ns);
    return HVD_OK;
}

static hvd_status_t read_fraction(const struct variable *v, const char *text, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);

    if (*end != '\0' || !(value >= 0 && value <= v->max))
        return HVD_ERR_INVALID;
    *out = value;
    return HVD_OK;
}

static hvd_status_t read_level(const char *text, enum hvd_log_level *out)
{
    int level = hvd_log_level_parse(text);

    if (strcasecmp(text, "trace") == 0)
        level = HVD_LOG_DEBUG;
    if (strcasecmp(text, "fatal") == 0)
        level = HVD_LOG_ERROR;
    if (level < 0)
        return HVD_ERR_INVALID;
    *out = (enum hvd_log_level)level;
    return HVD_OK;
}

static hvd_status_t read_gpu_route(const char *text, enum hvd_gpu_operations *out)
{
    const bool is_nccl = strcasecmp(text, "nccl") == 0;

    *out = is_nccl ? HVD_GPU_OVER_NCCL : HVD_GPU_OVER_HOST;
    return is_nccl || strcasecmp(text, "mpi") == 0 ? HVD_OK : HVD_ERR_INVALID;
}

static hvd_status_t read_method(const char *text, enum hvd_algorithm *out)
{
    const int algorithm = hvd_algorithm_parse(text);

    if (algorithm < 0)
        return HVD_ERR_INVALID;
    *out = (enum hvd_algorithm)algorithm;
    return HVD_OK;
}

static hvd_status_t read_cores(const char *text, struct hvd_settings *settings)
{
    static const int64_t range[2] = {0, 65535};
    struct hvd_strview rest = hvd_strview_of(text);
    int64_t core;

    while (rest.data) {
        struct hvd_strview item = hvd_strview_trim(hvd_strview_cut(&rest, ','));
        if (settings->n_cores == HVD_AFFINITY_MAX ||
            hvd_str_parse_int64(item, range, &core, NULL) != HVD_OK)
            return HVD_ERR_INVALID;
        settings->cores[settings->n_cores++] = (int)core;
    }
    return HVD_OK;
}

static hvd_status_t read_path(const char *text, char *out)
{
    const size_t len = strlen(text);

    if (len >= HVD_SETTING_MAX)
        return HVD_ERR_INVALID;
    memcpy(out, text, len + 1);
    return HVD_OK;
}

/* Stores the value of a variable in its field. HVD_ERR_INVALID if the text is no valid value. */
static hvd_status_t read_value(const struct hvd_lookup *from, const struct variable *v,
                               const char *text, struct hvd_settings *settings)
{
    const int64_t range[2] = {0, v->max < EXABYTE ? (int64_t)v->max : (int64_t)EXABYTE};
    char *field = (char *)settings + (v->offset == SIZE_MAX ? 0 : v->offset);
    bool ignored;

    switch (v->kind) {
    case SWITCH:
        return read_switch(text, v->offset == SIZE_MAX ? &ignored : (bool *)(void *)field);
    case INTEGER:
        return hvd_str_parse_int64(hvd_strview_of(text), range, (int64_t *)(void *)field, NULL);
    case DURATION:
        return read_duration(v, text, (int64_t *)(void *)field);
    case FRACTION:
        return read_fraction(v, text, (double *)(void *)field);
    case LEVEL:
        return read_level(text, (enum hvd_log_level *)(void *)field);
    case METHOD:
        return read_method(text, (enum hvd_algorithm *)(void *)field);
    case TABLE:
        return hvd_algorithm_table_parse(text, (struct hvd_algorithm_table *)(void *)field, NULL);
    case GPU_ROUTE:
        return read_gpu_route(text, (enum hvd_gpu_operations *)(void *)field);
    case CORES:
        return read_cores(text, settings);
    case PATH:
        return read_path(text, field);
    case PROVIDER:
        return has_provider(from, v->name, text) || is_gloo(text) ? HVD_OK : HVD_ERR_INVALID;
    }
    return HVD_ERR_INVALID;
}

static void set_fallback(const struct variable *v, struct hvd_settings *settings)
{
    char *field = (char *)settings + v->offset;

    if (v->kind == SWITCH && v->offset != SIZE_MAX)
        *(bool *)(void *)field = v->fallback > 0;
    else if (v->kind == INTEGER)
        *(int64_t *)(void *)field = (int64_t)v->fallback;
    else if (v->kind == DURATION)
        *(int64_t *)(void *)field = (int64_t)(v->fallback * v->unit_ns);
    else if (v->kind == FRACTION)
        *(double *)(void *)field = v->fallback;
    else if (v->kind == LEVEL)
        *(enum hvd_log_level *)(void *)field = (enum hvd_log_level)(int)v->fallback;
}

static hvd_status_t refuse_table(const struct variable *v, const char *text, struct hvd_err *err)
{
    struct hvd_algorithm_table table;
    struct hvd_err why = {0};
    const hvd_status_t st = hvd_algorithm_table_parse(text, &table, &why);

    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "%s=%.64s is not rows RANKS:DOUBLING:RING,...,*:DOUBLING:RING of sizes in "
                    "bytes: %s",
                    v->name, text, st == HVD_OK ? "" : why.msg);
}

static hvd_status_t refuse_provider(const struct hvd_lookup *from, const struct variable *v,
                                    const char *text, struct hvd_err *err)
{
    char out[160];
    struct hvd_text names = hvd_text_in(out, sizeof(out));

    for (size_t i = 0; from->provider(v->name, i); i++)
        hvd_text_add(&names, "%s%s", i > 0 ? " or " : "", from->provider(v->name, i));
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "%s=%.64s is not %s, which is all that this library was built with", v->name,
                    text, out);
}

/* Fails with a message that names the allowed values. */
static hvd_status_t refuse(const struct hvd_lookup *from, const struct variable *v,
                           const char *text, struct hvd_err *err)
{
    char allowed[160] = "";

    switch (v->kind) {
    case SWITCH:
        snprintf(allowed, sizeof(allowed), "0 or 1 (or false, true, no, yes, off, on)");
        break;
    case INTEGER:
        snprintf(allowed, sizeof(allowed), "a whole number of %s from 0 to %.0f", v->unit, v->max);
        break;
    case DURATION:
        snprintf(allowed, sizeof(allowed), "a number of %s from 0 to %g", v->unit, v->max);
        break;
    case FRACTION:
        snprintf(allowed, sizeof(allowed), "a number from 0 to %g", v->max);
        break;
    case LEVEL:
        snprintf(allowed, sizeof(allowed), "trace, debug, info, warning, error or fatal");
        break;
    case METHOD:
        snprintf(allowed, sizeof(allowed), "auto, doubling, rabenseifner, ring or mpi");
        break;
    case GPU_ROUTE:
        snprintf(allowed, sizeof(allowed), "NCCL or MPI");
        break;
    case TABLE:
        return refuse_table(v, text, err);
    case CORES:
        snprintf(allowed, sizeof(allowed),
                 "a list of processor numbers, one per rank of a host, as in 0,1,2,3 (%d at most)",
                 HVD_AFFINITY_MAX);
        break;
    case PATH:
        snprintf(allowed, sizeof(allowed), "a path of at most %d bytes", HVD_SETTING_MAX - 1);
        break;
    case PROVIDER:
        return refuse_provider(from, v, text, err);
    }
    return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s=%.64s is not %s", v->name, text, allowed);
}

/* Returns the value of a switch without a field. Its value was checked before. */
static bool is_on(const struct hvd_lookup *from, const char *name, bool fallback)
{
    const char *text = look_up(from, name);
    bool value = fallback;

    if (text && read_switch(text, &value) != HVD_OK)
        return fallback;
    return value;
}

hvd_status_t hvd_settings_read(const struct hvd_lookup *from, struct hvd_settings *settings,
                               struct hvd_err *err)
{
    struct hvd_settings found = {0};

    for (size_t i = 0; i < N_HONOURED; i++) {
        const char *text = look_up(from, honoured[i].name);
        set_fallback(&honoured[i], &found);
        if (text && read_value(from, &honoured[i], text, &found) != HVD_OK)
            return refuse(from, &honoured[i], text, err);
    }
    if (found.deterministic && hvd_algorithm_depends_on_offset(found.mpi_allreduce))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "HOROVOD_MPI_ALLREDUCE=%s adds up in an order that depends on how tensors "
                        "were fused, and HOROVOD_DETERMINISTIC rules that out: leave one of them",
                        hvd_algorithm_name((int)found.mpi_allreduce));
    found.is_cycle_given = look_up(from, "HOROVOD_CYCLE_TIME") != NULL;
    found.is_fusion_given = look_up(from, "HOROVOD_FUSION_THRESHOLD") != NULL;
    if (is_on(from, "HOROVOD_STALL_CHECK_DISABLE", false))
        found.stall_warning_ns = 0;
    if (found.stall_shutdown_ns < found.stall_warning_ns || found.stall_warning_ns == 0)
        found.stall_shutdown_ns = 0;
    if (!is_on(from, "HOROVOD_LOG_TIMESTAMP", true))
        found.log_hides_time = true;
    *settings = found;
    return HVD_OK;
}

void hvd_settings_remarks(const struct hvd_lookup *from,
                          void (*say)(void *ctx, const char *name, const char *why), void *ctx)
{
    static const char shutdown[] = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS";
    static const char table[] = "HOROVOD_MPI_ALLREDUCE_TABLE";
    const char *text = look_up(from, shutdown);
    struct hvd_settings settings;

    for (size_t i = 0; i < N_WITHOUT_EFFECT; i++)
        if (look_up(from, without_effect[i].name))
            say(ctx, without_effect[i].name, without_effect[i].why);
    for (size_t i = 0; i < N_HONOURED; i++) {
        const char *name = honoured[i].kind == PROVIDER ? look_up(from, honoured[i].name) : NULL;
        if (name && is_gloo(name) && !has_provider(from, honoured[i].name, name))
            say(ctx, honoured[i].name, NO_GLOO ": MPI does its work");
    }
    if (look_up(from, table) && hvd_settings_read(from, &settings, NULL) == HVD_OK &&
        settings.mpi_allreduce != HVD_ALGORITHM_AUTO)
        say(ctx, table, "HOROVOD_MPI_ALLREDUCE names one algorithm for all");
    if (text && strtod(text, NULL) > 0 && hvd_settings_read(from, &settings, NULL) == HVD_OK &&
        settings.stall_shutdown_ns == 0)
        say(ctx, shutdown,
            "it is below the warning time HOROVOD_STALL_CHECK_TIME_SECONDS, or the check is off");
}
