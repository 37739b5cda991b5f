#ifndef HVD_OPERATOR_CORE_OUTCOME_DEADLINE_H
#define HVD_OPERATOR_CORE_OUTCOME_DEADLINE_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. ActiveDeadlineSeconds. */

/* True once it is over, and the job failed for it; else wakes then. */
bool hvd_deadline_ends_job(struct hvd_pass *p);

/* The same of a job that waits for a read: if its master has ended by then, the job ends as that
 * says. has_spec: what follows from a failure can be asked of the spec. */
void hvd_deadline_ends_waiting(struct hvd_pass *p, bool has_spec);

#endif
