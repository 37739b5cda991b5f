#ifndef HVD_OPERATOR_CORE_ENSURE_ADMIT_H
#define HVD_OPERATOR_CORE_ENSURE_ADMIT_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. What must be there before workers are. */

/* Whether the job has the port that it needs; chooses one if not, which is then to be written
 * before anything else. */
bool hvd_admit_port(struct hvd_pass *p);

/* Whether a gang scheduler, if there is to be one, can be asked to place workers. */
bool hvd_admit_gang(struct hvd_pass *p);

/* Removes the PodGroup of a job that has no workers any more, or soon will have none. */
void hvd_admit_release(struct hvd_pass *p);

#endif
