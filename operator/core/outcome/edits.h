#ifndef HVD_OPERATOR_CORE_OUTCOME_EDITS_H
#define HVD_OPERATOR_CORE_OUTCOME_EDITS_H

#include "operator/core/pass/pass.h"

/* Within operator/core only. */

/* Takes over from the spec of a job that has not finished what its next status shows of it: the
 * generation, and the image of the workers that run or will run next. */
void hvd_edits_take(struct hvd_pass *p);

/* Takes over the generation of a finished job. Adds an event if that is a new one: edits of a
 * finished job start nothing. */
void hvd_edits_ignore(struct hvd_pass *p);

#endif
