#ifndef HVD_OPERATOR_CORE_OUTCOME_DEADLINE_H
#define HVD_OPERATOR_CORE_OUTCOME_DEADLINE_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. ActiveDeadlineSeconds. */

/* True once the time is over and the job failed for it; else wakes then. */
bool hvd_deadline_ends_job(struct hvd_pass *p);

/* The same for a job that waits for a read. If its master has ended by then, that determines the
 * job's end. has_spec: the spec is available for the consequences of a failure. */
void hvd_deadline_ends_waiting(struct hvd_pass *p, bool has_spec);

#endif
