/*
 * What is left of a master's Job that was removed while nobody looked, by its
 * ttlSecondsAfterFinished or by hand: the Job controller writes an event when a Job ends, which
 * stays for an hour. Events of other writers do not count. Pure.
 */
#include "operator/core/trace.h"

#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/pass.h"

static bool is_by_controller(const cJSON *event)
{
    static const char controller[] = "job-controller";

    return hvd_str_equal(hvd_json_str(event, "source.component"), controller) ||
           hvd_str_equal(hvd_json_str(event, "reportingComponent"), controller);
}

static bool is_failure(const char *reason)
{
    static const char *const reasons[] = {"BackoffLimitExceeded", "DeadlineExceeded",
                                          "PodFailurePolicy"};
    bool is = false;

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        is = is || hvd_str_equal(reason, reasons[i]);
    return is;
}

/* When the event was written last. */
static int64_t written_s(const cJSON *event)
{
    int64_t last_s = hvd_rfc3339_parse(hvd_json_str(event, "lastTimestamp"));
    int64_t event_s = hvd_rfc3339_parse(hvd_json_str(event, "eventTime"));

    return last_s > event_s ? last_s : event_s;
}

enum hvd_failure_type hvd_trace_find(const cJSON *events, const struct hvd_trace_bounds *bounds,
                                     char out[HVD_TRACE_SIZE])
{
    enum hvd_failure_type found = HVD_FAILURE_NO_TRACE;
    const cJSON *event = NULL;

    out[0] = '\0';
    cJSON_ArrayForEach(event, hvd_json_get(events, "items"))
    {
        const char *reason = hvd_json_str(event, "reason");
        const char *message = hvd_json_str(event, "message");
        int64_t at_s = written_s(event);

        if (!is_by_controller(event))
            continue;
        if (hvd_str_equal(reason, "Completed") && at_s >= bounds->created_s) {
            out[0] = '\0';
            return HVD_FAILURE_SUCCEEDED;
        }
        if (!is_failure(reason) || at_s < bounds->attempt_s)
            continue;
        found = HVD_FAILURE_FAILED;
        hvd_pass_text(out, HVD_TRACE_SIZE, "%s", message ? message : reason);
    }
    return found;
}
