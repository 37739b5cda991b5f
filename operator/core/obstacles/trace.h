#ifndef HVD_OPERATOR_CORE_OBSTACLES_TRACE_H
#define HVD_OPERATOR_CORE_OBSTACLES_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/core/pass/pass.h"

#define HVD_TRACE_SIZE 512
#define HVD_TRACE_UID_SIZE 64

/*
 * Which Job of a name is the master's of the attempt under way, of all those that the events are
 * about: earlier attempts, earlier HorovodJobs and other users had Jobs of that name too.
 */
struct hvd_trace_bounds {
    char job_uid[HVD_TRACE_UID_SIZE]; /* the HorovodJob for which was asked */
    /* The Job itself, if the status has noted it: then the times do not matter. "": it has not. */
    char master_uid[HVD_TRACE_UID_SIZE];
    int64_t made_s;  /* it was not made before: a Job with an event from before is another one */
    int64_t ended_s; /* it ended after this second */
};

/*
 * Prints the bounds as the body of an HVD_ACTION_TRACE, which the caller frees with hvd_free. NULL:
 * out of memory.
 */
char *hvd_trace_encode(const struct hvd_trace_bounds *bounds);

/* Reads them again; what is no such body gives bounds that no event is within. */
void hvd_trace_decode(const char *body, struct hvd_trace_bounds *out);

/*
 * How a Job that is gone had ended: what the Job controller has written about it last, as an event
 * Completed or one that names a failure. events is a list of Events as the API sent it.
 * HVD_FAILURE_SUCCEEDED, _FAILED with the controller's words in out, _BEGUN if an event tells of
 * its pod alone, or _NO_TRACE; out is empty otherwise.
 */
enum hvd_failure_type hvd_trace_find(const cJSON *events, const struct hvd_trace_bounds *bounds,
                                     char out[HVD_TRACE_SIZE]);

/* Whether the failure is an answer about a Job that is gone. */
bool hvd_trace_is_answer(const struct hvd_failure *failure);

/*
 * Whether the status tells of an object that is not the job's and is in the way: no master could be
 * made then, and the events of that name may be about that object, which is gone since. Not so if
 * the status has noted the master's Job: the events name theirs.
 */
bool hvd_trace_was_in_conflict(const struct hvd_pass *p);

/*
 * Whether the events about the master's Job are asked for before it is made: another process may
 * have made it, of which no status tells yet. One that has started the workers of this attempt
 * itself, and has made no Job since, has no need to.
 */
bool hvd_trace_asks_first(struct hvd_pass *p);

/* Asks how the Job of that name had ended; its events since the attempt began may tell. Where they
 * could not be read, that is told of and asked again later. */
void hvd_trace_ask(struct hvd_pass *p, const char *name);

#endif
