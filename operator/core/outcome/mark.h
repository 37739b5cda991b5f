#ifndef HVD_OPERATOR_CORE_OUTCOME_MARK_H
#define HVD_OPERATOR_CORE_OUTCOME_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/api/horovodjob.h"
#include "operator/core/pass/pass.h"

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
