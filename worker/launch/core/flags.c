/*
 * The flags of horovodrun that set a variable of the runtime in the environment of the ranks, with
 * the names that Horovod gives them. Values are checked here, before anything starts; paths are
 * left to the runtime.
 */
#include "worker/launch/core/flags.h"

#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#include "base/log.h"

enum kind {
    FIXED,   /* no value: the variable gets `text` */
    TEXT,    /* unchanged */
    INTEGER, /* 0 to max */
    MIB,     /* 0 to max; the variable is in bytes */
    DECIMAL, /* 0 to max */
    LEVEL,   /* a level of the log */
    CORES,   /* numbers of processors, separated by commas */
    IGNORED, /* no value, no variable; `note` gives the reason why it changes nothing */
    REFUSED, /* `text` gives the reason */
};

struct hvd_launch_flag {
    const char *name;
    const char *variable;
    enum kind kind;
    const char *text;
    int64_t max;
    const char *note; /* the reason why it changes nothing, or NULL */
};

#define BY_ITSELF "the library uses the structure of the hosts by itself"
#define OWN_STREAMS "each process set has streams of its own"
#define NO_GLOO "there is no Gloo in this library: Open MPI starts the ranks and is the controller"
#define NOT_ELASTIC                                                                                \
    "the ranks of a job over Open MPI are fixed: give -np with -H or --hostfile; a HorovodJob "    \
    "with "                                                                                        \
    "elastic sizes starts anew with the hosts that there are"

static const struct hvd_launch_flag flags[] = {
    {"--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", MIB, NULL, INT64_C(1) << 40, NULL},
    {"--cycle-time-ms", "HOROVOD_CYCLE_TIME", DECIMAL, NULL, 60000, NULL},
    {"--cache-capacity", "HOROVOD_CACHE_CAPACITY", INTEGER, NULL, 1 << 30, NULL},
    {"--autotune", "HOROVOD_AUTOTUNE", FIXED, "1", 0, NULL},
    {"--no-autotune", "HOROVOD_AUTOTUNE", FIXED, "0", 0, NULL},
    {"--autotune-log-file", "HOROVOD_AUTOTUNE_LOG", TEXT, NULL, 0, NULL},
    {"--autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", INTEGER, NULL, 1000000, NULL},
    {"--autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", INTEGER, NULL, 1000000,
     NULL},
    {"--autotune-bayes-opt-max-samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", INTEGER, NULL,
     200, NULL},
    {"--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", DECIMAL, NULL,
     1, NULL},
    {"--timeline-filename", "HOROVOD_TIMELINE", TEXT, NULL, 0, NULL},
    {"--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", FIXED, "1", 0, NULL},
    {"--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", FIXED, "0", 0, NULL},
    {"--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE", FIXED, "1", 0, NULL},
    {"--stall-check", "HOROVOD_STALL_CHECK_DISABLE", FIXED, "0", 0, NULL},
    {"--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", INTEGER, NULL,
     1000000, NULL},
    {"--stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", INTEGER, NULL,
     1000000, NULL},
    {"--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", FIXED, "1", 0, NULL},
    {"--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", FIXED, "0", 0, NULL},
    {"--thread-affinity", "HOROVOD_THREAD_AFFINITY", CORES, NULL, 0, NULL},
    {"--log-level", "HOROVOD_LOG_LEVEL", LEVEL, NULL, 0, NULL},
    {"--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME", FIXED, "1", 0, NULL},
    {"--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME", FIXED, "0", 0, NULL},
    {"--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", FIXED, "1", 0, NULL},
    {"--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", FIXED, "0", 0, NULL},
    {"--hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", FIXED, "1", 0, NULL},
    {"--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", FIXED, "0", 0, NULL},
    {"--hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", FIXED, "1", 0, BY_ITSELF},
    {"--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", FIXED, "0", 0, NULL},
    {"--torus-allreduce", "HOROVOD_TORUS_ALLREDUCE", FIXED, "1", 0, NULL},
    {"--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE", FIXED, "0", 0, NULL},
    {"--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS", INTEGER, NULL, 1000, OWN_STREAMS},
    {"--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", INTEGER, NULL, 1000000,
     "there is no Gloo in this library"},
    {"--gloo", NULL, IGNORED, NULL, 0, NO_GLOO},
    {"--jsrun", NULL, REFUSED, "jsrun is not supported: mpirun starts the ranks, also under LSF", 0,
     NULL},
    {"--min-np", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--min-num-proc", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--max-np", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--max-num-proc", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--slots-per-host", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--elastic-timeout", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--reset-limit", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--blacklist-cooldown-range", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
    {"--host-discovery-script", NULL, REFUSED, NOT_ELASTIC, 0, NULL},
};

const struct hvd_launch_flag *hvd_launch_flag_find(struct hvd_strview name)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (hvd_strview_equal(name, flags[i].name))
            return &flags[i];
    return NULL;
}

bool hvd_launch_flag_takes_value(const struct hvd_launch_flag *flag)
{
    return flag->kind != FIXED && flag->kind != IGNORED && flag->kind != REFUSED;
}

const char *hvd_launch_flag_note(const struct hvd_launch_flag *flag)
{
    return flag->note;
}

static hvd_status_t apply_integer(const struct hvd_launch_flag *flag, const char *value,
                                  struct hvd_args *out, struct hvd_err *err)
{
    const int64_t range[2] = {0, flag->max};
    int64_t number = 0;
    hvd_status_t st = hvd_str_parse_int64(hvd_strview_of(value), range, &number, err);

    if (st < 0)
        return HVD_WRAP(err, st, "flag %s", flag->name);
    return hvd_args_addf(out, err, "%s=%" PRId64, flag->variable,
                         flag->kind == MIB ? number << 20 : number);
}

static hvd_status_t check_decimal(const struct hvd_launch_flag *flag, const char *value,
                                  struct hvd_err *err)
{
    char *end = NULL;
    const double number = strtod(value, &end);

    if (*end == '\0' && number >= 0 && number <= (double)flag->max)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "flag %s: \"%.64s\" is not a number from 0 to %" PRId64, flag->name, value,
                    flag->max);
}

/* Accepts the log levels that the runtime accepts. */
static hvd_status_t check_level(const struct hvd_launch_flag *flag, const char *value,
                                struct hvd_err *err)
{
    if (hvd_log_level_parse(value) >= 0 || strcasecmp(value, "trace") == 0 ||
        strcasecmp(value, "fatal") == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "flag %s: \"%.64s\" is not trace, debug, info, warning, error or fatal",
                    flag->name, value);
}

static hvd_status_t check_cores(const struct hvd_launch_flag *flag, const char *value,
                                struct hvd_err *err)
{
    static const int64_t range[2] = {0, 65535};
    struct hvd_strview rest = hvd_strview_of(value);
    int64_t core;

    while (rest.data)
        if (hvd_str_parse_int64(hvd_strview_trim(hvd_strview_cut(&rest, ',')), range, &core, NULL) <
            0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "flag %s: \"%.64s\" is not a list of processor numbers as in 0,1,2,3",
                            flag->name, value);
    return HVD_OK;
}

hvd_status_t hvd_launch_flag_apply(const struct hvd_launch_flag *flag, const char *value,
                                   struct hvd_args *out, struct hvd_err *err)
{
    if (flag->kind == REFUSED)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s: %s", flag->name, flag->text);
    if ((flag->kind == FIXED || flag->kind == IGNORED) && value)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s takes no value", flag->name);
    if (flag->kind == IGNORED)
        return HVD_OK;
    if (flag->kind == FIXED)
        return hvd_args_addf(out, err, "%s=%s", flag->variable, flag->text);
    if (value[0] == '\0')
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s: the value is empty", flag->name);
    if (flag->kind == INTEGER || flag->kind == MIB)
        return apply_integer(flag, value, out, err);
    if (flag->kind == LEVEL && check_level(flag, value, err) < 0)
        return HVD_ERR_INVALID;
    if (flag->kind == CORES && check_cores(flag, value, err) < 0)
        return HVD_ERR_INVALID;
    if (flag->kind == DECIMAL && check_decimal(flag, value, err) < 0)
        return HVD_ERR_INVALID;
    return hvd_args_addf(out, err, "%s=%s", flag->variable, value);
}
