#ifndef HVD_OPERATOR_CORE_OUTCOME_MARK_H
#define HVD_OPERATOR_CORE_OUTCOME_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/api/horovodjob.h"

#define HVD_MARK_REASON_SIZE 64
#define HVD_MARK_MESSAGE_SIZE 1024
#define HVD_MARK_TEXT_MAX 1280 /* of the annotation */

struct hvd_pass;

/* How a job has ended, or that its attempt was suspended, as its ConfigMap says
 * (HVD_ANNOTATION_END) while its status cannot. */
struct hvd_mark {
    enum hvd_job_state state; /* HVD_JOB_SUCCEEDED, _FAILED, _SUSPENDED; _NEW: nothing is noted */
    int32_t attempts;         /* as the status is to have them */
    int32_t failures;
    int32_t interruptions;
    char reason[HVD_MARK_REASON_SIZE]; /* of the condition of that end, and its message */
    char message[HVD_MARK_MESSAGE_SIZE];
};

/* Reads the annotation; NULL and what is none give HVD_JOB_NEW, and false. */
bool hvd_mark_decode(const char *text, struct hvd_mark *out);

/* Prints it; the caller frees it with hvd_free. NULL: out of memory. */
char *hvd_mark_encode(const struct hvd_mark *mark);

/* Reads what the job's ConfigMap says into the pass. A suspension counts for the attempt that the
 * status shows under way, and no longer. */
void hvd_mark_find(struct hvd_pass *p);

/* Whether an end is noted, which is final. */
bool hvd_mark_is_end(const struct hvd_pass *p);

/* Notes the end, or the suspension, that the next status says, before anything is removed for it.
 * True once it is noted, or where it cannot be. */
bool hvd_mark_note(struct hvd_pass *p);

#endif
