#ifndef HVD_OPERATOR_CORE_OUTCOME_MARK_H
#define HVD_OPERATOR_CORE_OUTCOME_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/api/horovodjob.h"
#include "operator/core/pass/pass.h"

/* Parses the annotation. NULL and malformed texts give HVD_JOB_NEW, and false. */
bool hvd_mark_decode(const char *text, struct hvd_mark *out);

/* Prints it; the caller frees it with hvd_free. NULL: out of memory. */
char *hvd_mark_encode(const struct hvd_mark *mark);

/* Reads the annotation of the job's ConfigMap into the pass. A suspension counts only for the
 * attempt that is under way in the status. */
void hvd_mark_find(struct hvd_pass *p);

/* Whether an end is recorded, which is final. */
bool hvd_mark_is_end(const struct hvd_pass *p);

/* Records the end, or the suspension, of the next status, before anything is removed for it. True
 * once it is recorded, or if it cannot be. */
bool hvd_mark_note(struct hvd_pass *p);

#endif
