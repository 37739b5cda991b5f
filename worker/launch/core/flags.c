/*
 * The flags of horovodrun that set a variable of the runtime in the environment of the ranks, with
 * the names that Horovod gives them. Numbers are checked here, before anything starts; what a text
 * may be is the runtime's to say.
 */
#include "worker/launch/core/flags.h"

#include <inttypes.h>
#include <stdlib.h>

enum kind {
    FIXED,   /* no value: the variable gets `text` */
    TEXT,    /* as it is */
    INTEGER, /* 0 to max */
    MIB,     /* likewise; the variable is in bytes */
    DECIMAL, /* 0 to max */
};

struct hvd_launch_flag {
    const char *name;
    const char *variable;
    enum kind kind;
    const char *text;
    int64_t max;
};

static const struct hvd_launch_flag flags[] = {
    {"--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", MIB, NULL, INT64_C(1) << 40},
    {"--cycle-time-ms", "HOROVOD_CYCLE_TIME", DECIMAL, NULL, 60000},
    {"--cache-capacity", "HOROVOD_CACHE_CAPACITY", INTEGER, NULL, 1 << 30},
    {"--autotune", "HOROVOD_AUTOTUNE", FIXED, "1", 0},
    {"--no-autotune", "HOROVOD_AUTOTUNE", FIXED, "0", 0},
    {"--autotune-log-file", "HOROVOD_AUTOTUNE_LOG", TEXT, NULL, 0},
    {"--autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", INTEGER, NULL, 1000000},
    {"--autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", INTEGER, NULL, 1000000},
    {"--autotune-bayes-opt-max-samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", INTEGER, NULL,
     200},
    {"--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", DECIMAL, NULL,
     1},
    {"--timeline-filename", "HOROVOD_TIMELINE", TEXT, NULL, 0},
    {"--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", FIXED, "1", 0},
    {"--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", FIXED, "0", 0},
    {"--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE", FIXED, "1", 0},
    {"--stall-check", "HOROVOD_STALL_CHECK_DISABLE", FIXED, "0", 0},
    {"--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", INTEGER, NULL,
     1000000},
    {"--stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", INTEGER, NULL,
     1000000},
    {"--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", FIXED, "1", 0},
    {"--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", FIXED, "0", 0},
    {"--thread-affinity", "HOROVOD_THREAD_AFFINITY", TEXT, NULL, 0},
    {"--log-level", "HOROVOD_LOG_LEVEL", TEXT, NULL, 0},
    {"--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME", FIXED, "1", 0},
    {"--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME", FIXED, "0", 0},
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
    return flag->kind != FIXED;
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

hvd_status_t hvd_launch_flag_apply(const struct hvd_launch_flag *flag, const char *value,
                                   struct hvd_args *out, struct hvd_err *err)
{
    if (flag->kind == FIXED && value)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s takes no value", flag->name);
    if (flag->kind == FIXED)
        return hvd_args_addf(out, err, "%s=%s", flag->variable, flag->text);
    if (value[0] == '\0')
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "flag %s: the value is empty", flag->name);
    if (flag->kind == INTEGER || flag->kind == MIB)
        return apply_integer(flag, value, out, err);
    if (flag->kind == DECIMAL && check_decimal(flag, value, err) < 0)
        return HVD_ERR_INVALID;
    return hvd_args_addf(out, err, "%s=%s", flag->variable, value);
}
