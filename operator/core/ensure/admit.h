#ifndef HVD_OPERATOR_CORE_ENSURE_ADMIT_H
#define HVD_OPERATOR_CORE_ENSURE_ADMIT_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. The prerequisites of workers. */

/* Whether the job has the port that it needs. If not, chooses one, which the status must hold
 * before any other write. */
bool hvd_admit_port(struct hvd_pass *p);

/* Whether the gang scheduler, if one is configured, can place workers. */
bool hvd_admit_gang(struct hvd_pass *p);

/* Removes the PodGroup of a job that has no workers, or soon will have none. */
void hvd_admit_release(struct hvd_pass *p);

#endif
