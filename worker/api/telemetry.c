/*
 * The exported functions of timeline, counters and flight recorder. Any thread.
 */
#include <string.h>

#include "worker/api/api_internal.h"

#define NOT_INITIALIZED (-1)
#define NOT_ENABLED (-2)
#define NOT_WRITTEN (-3)

/* Returns Horovod's codes; logs a file that cannot be written. */
static int timeline_result(hvd_status_t st, const struct hvd_log *log, const struct hvd_err *err)
{
    if (st == HVD_OK)
        return 1;
    if (st == HVD_ERR_STATE)
        return NOT_ENABLED;
    hvd_log(log, HVD_LOG_ERROR, "api", "horovod_start_timeline: %s", err->msg);
    return NOT_WRITTEN;
}

int horovod_start_timeline(const char *file, bool mark_cycles)
{
    struct hvd_err err = {0};
    const struct hvd_log *log;

    if (!hvd_api_enter(true))
        return NOT_INITIALIZED;
    struct hvd_telemetry *telemetry = hvd_api_telemetry(&log);
    hvd_status_t st = file && *file
                          ? hvd_telemetry_start_timeline(telemetry, file, mark_cycles, &err)
                          : HVD_FAIL(&err, HVD_ERR_INVALID, 0, "no file is named");
    const int result = timeline_result(st, log, &err);
    hvd_api_exit();
    return result;
}

int horovod_stop_timeline(void)
{
    struct hvd_err err = {0};
    const struct hvd_log *log;

    if (!hvd_api_enter(true))
        return NOT_INITIALIZED;
    const int result =
        timeline_result(hvd_telemetry_stop_timeline(hvd_api_telemetry(&log), &err), log, &err);
    hvd_api_exit();
    return result;
}

bool horovod_timeline_mark(const char *phase, bool begins)
{
    const struct hvd_log *log;

    if (!phase || !*phase || !hvd_api_enter(true))
        return false;
    const bool is_recorded = hvd_telemetry_marked(hvd_api_telemetry(&log), phase, begins);
    hvd_api_exit();
    return is_recorded;
}

static void convert(const struct hvd_counts *c, horovod_counters_t *out)
{
    *out = (horovod_counters_t){
        .submitted = c->submitted,
        .completed = c->completed,
        .failed = c->failed,
        .allreduce_tensors = c->tensors[HVD_ALLREDUCE],
        .allreduce_bytes = c->bytes[HVD_ALLREDUCE],
        .allgather_tensors = c->tensors[HVD_ALLGATHER],
        .allgather_bytes = c->bytes[HVD_ALLGATHER],
        .broadcast_tensors = c->tensors[HVD_BROADCAST],
        .broadcast_bytes = c->bytes[HVD_BROADCAST],
        .alltoall_tensors = c->tensors[HVD_ALLTOALL],
        .alltoall_bytes = c->bytes[HVD_ALLTOALL],
        .reducescatter_tensors = c->tensors[HVD_REDUCESCATTER],
        .reducescatter_bytes = c->bytes[HVD_REDUCESCATTER],
        .barriers = c->tensors[HVD_BARRIER],
        .joins = c->tensors[HVD_JOIN],
        .plans = c->plans,
        .messages_sent = c->messages_sent,
        .messages_received = c->messages_received,
        .message_bytes_sent = c->message_bytes_sent,
        .message_bytes_received = c->message_bytes_received,
        .sleeps = c->sleeps,
        .stall_warnings = c->stall_warnings,
        .ranks_lost = c->ranks_lost,
        .timeline_events = c->timeline_events,
        .timeline_dropped = c->timeline_dropped,
        .plan_hits = c->plan_hits,
        .plan_misses = c->plan_misses,
        .flights = c->flights,
        .idle_wakeups = c->idle_wakeups,
    };
}

horovod_status_t horovod_counters(horovod_counters_t *counters, horovod_error_t *err)
{
    const struct hvd_log *log;
    struct hvd_counts counts;
    horovod_counters_t all;
    struct hvd_err why = {0};

    if (!counters || counters->size < sizeof(counters->size)) {
        hvd_status_t st =
            HVD_FAIL(&why, HVD_ERR_INVALID, 0, "%s: set size to sizeof(horovod_counters_t)",
                     counters ? "horovod_counters_t.size is too small" : "NULL");
        return hvd_api_status(st, &why, err);
    }
    if (!hvd_api_enter(true))
        return hvd_api_not_initialized(err);
    hvd_telemetry_counts(hvd_api_telemetry(&log), &counts);
    hvd_api_exit();
    convert(&counts, &all);
    all.size = counters->size;
    memcpy(counters, &all, all.size < sizeof(all) ? all.size : sizeof(all));
    if (all.size > sizeof(all)) /* the caller has a newer header: clear its further fields */
        memset((char *)counters + sizeof(all), 0, all.size - sizeof(all));
    return HOROVOD_OK;
}

horovod_status_t horovod_dump_flight_recorder(const char *why, horovod_error_t *err)
{
    struct hvd_err reason = {0};
    const struct hvd_log *log;

    if (!hvd_api_enter(true))
        return hvd_api_not_initialized(err);
    hvd_status_t st = hvd_telemetry_dump(hvd_api_telemetry(&log), why ? why : "asked for", &reason);
    hvd_api_exit();
    return hvd_api_status(st, &reason, err);
}
