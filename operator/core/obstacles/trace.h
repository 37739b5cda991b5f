#ifndef HVD_OPERATOR_CORE_OBSTACLES_TRACE_H
#define HVD_OPERATOR_CORE_OBSTACLES_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/pass/pass.h"

#define HVD_TRACE_SIZE 512
#define HVD_TRACE_UID_SIZE 64

/*
 * Identifies the master's Job of the attempt under way among all Jobs of that name in events:
 * earlier attempts, earlier HorovodJobs and other users had such Jobs too.
 */
struct hvd_trace_bounds {
    char job_uid[HVD_TRACE_UID_SIZE]; /* the HorovodJob of the question */
    /* The Job itself, if the status has recorded it: then the times do not matter. "": it has not.
     */
    char master_uid[HVD_TRACE_UID_SIZE];
    int64_t made_s;  /* the Job was not made before: one with an earlier event is another Job */
    int64_t ended_s; /* it ended after this second */
};

/*
 * Prints the bounds as the body of an HVD_ACTION_TRACE, which the caller frees with hvd_free. NULL:
 * out of memory.
 */
char *hvd_trace_encode(const struct hvd_trace_bounds *bounds);

/* Parses the body; any other text gives bounds that exclude every event. */
void hvd_trace_decode(const char *body, struct hvd_trace_bounds *out);

/*
 * How a Job that is gone had ended: the last event of the Job controller about it that is Completed
 * or names a failure. events is a list of Events as the API sent it. Returns HVD_FAILURE_SUCCEEDED,
 * or _FAILED with the controller's text in out. Otherwise out is empty: _BEGUN if events mention
 * only its pod, or _NO_TRACE.
 */
enum hvd_failure_type hvd_trace_find(const cJSON *events, const struct hvd_trace_bounds *bounds,
                                     char out[HVD_TRACE_SIZE]);

/* Whether the failure is an answer about a Job that is gone. */
bool hvd_trace_is_answer(const struct hvd_failure *failure);

/*
 * Whether the status reports a foreign object in the way. Then no master could be made, and the
 * events of that name may be about that object, which is gone since. False if the status has
 * recorded the master's Job: events name its uid.
 */
bool hvd_trace_was_in_conflict(const struct hvd_pass *p);

/*
 * Whether to read the events about the master's Job before making it: another process may have made
 * one that no status records yet. A process that has itself started the workers of this attempt,
 * and has made no Job since, need not.
 */
bool hvd_trace_asks_first(struct hvd_pass *p);

/* Asks how the Job of that name ended; its events since the attempt began may show it. A failed
 * read is reported and repeated later. */
void hvd_trace_ask(struct hvd_pass *p, const char *name);

#endif
