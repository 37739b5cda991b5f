/*
 * The settings of the runtime, from the environment, read once per horovod_init. A value that is
 * none is an error that names the variable: silently running with a default would hide a typo.
 */
#include <math.h>
#include <stdlib.h>

#include "worker/api/api_internal.h"

/* What a number may be, and what it is when the variable is not set. */
struct number {
    const char *name;
    const char *unit;
    double fallback;
    double max;
};

static hvd_status_t read_number(const struct number *number, double *out, struct hvd_err *err)
{
    const char *text = getenv(number->name);
    char *end = NULL;

    if (!text || !*text) {
        *out = number->fallback;
        return HVD_OK;
    }
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || value < 0 || value > number->max)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s=%.64s is not a number of %s from 0 to %g",
                        number->name, text, number->unit, number->max);
    *out = value;
    return HVD_OK;
}

/* As Horovod reads a switch: on when it is a number above 0. */
static bool read_switch(const char *name)
{
    const char *text = getenv(name);

    return text && strtol(text, NULL, 10) > 0;
}

hvd_status_t hvd_settings_read(struct hvd_settings *settings, struct hvd_err *err)
{
    static const struct number cycle = {"HOROVOD_CYCLE_TIME", "milliseconds", 1, 60000};
    static const struct number stall = {"HOROVOD_STALL_CHECK_TIME_SECONDS", "seconds", 60, 1e6};
    const char *level = getenv("HOROVOD_LOG_LEVEL");
    double cycle_ms = 0;
    double stall_s = 0;
    hvd_status_t st = read_number(&cycle, &cycle_ms, err);

    if (st == HVD_OK)
        st = read_number(&stall, &stall_s, err);
    if (st != HVD_OK)
        return st;
    int parsed = level ? hvd_log_level_parse(level) : HVD_LOG_WARN;
    if (level && (hvd_str_equal(level, "trace") || hvd_str_equal(level, "TRACE")))
        parsed = HVD_LOG_DEBUG;
    if (level && (hvd_str_equal(level, "fatal") || hvd_str_equal(level, "FATAL")))
        parsed = HVD_LOG_ERROR;
    if (parsed < 0)
        return HVD_FAIL(
            err, HVD_ERR_INVALID, 0,
            "HOROVOD_LOG_LEVEL=%.64s is not trace, debug, info, warning, error or fatal", level);
    *settings = (struct hvd_settings){
        .cycle_ns = (int64_t)(cycle_ms * 1e6),
        .stall_warning_ns =
            read_switch("HOROVOD_STALL_CHECK_DISABLE") ? 0 : (int64_t)(stall_s * 1e9),
        .mpi_threads_disable = read_switch("HOROVOD_MPI_THREADS_DISABLE"),
        .log_level = (enum hvd_log_level)parsed,
    };
    return HVD_OK;
}
