#ifndef HVD_OPERATOR_CORE_TRACE_H
#define HVD_OPERATOR_CORE_TRACE_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/reconcile.h"

#define HVD_TRACE_SIZE 512

/* From when on events about a Job of a name are about one of the job, and of its attempt under way;
 * only the last attempt of a job succeeds, so that the first is enough for a success. */
struct hvd_trace_bounds {
    int64_t created_s;
    int64_t attempt_s;
};

/*
 * How a Job that is gone had ended: what the Job controller has written about it last, as an event
 * Completed or one that names a failure. events is a list of Events as the API sent it.
 * HVD_FAILURE_SUCCEEDED, _FAILED with the controller's words in out, or _NO_TRACE; out is empty
 * otherwise.
 */
enum hvd_failure_type hvd_trace_find(const cJSON *events, const struct hvd_trace_bounds *bounds,
                                     char out[HVD_TRACE_SIZE]);

#endif
