#ifndef HVD_OPERATOR_CORE_OUTCOME_START_H
#define HVD_OPERATOR_CORE_OUTCOME_START_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. */

/* Whether workers of an earlier start exist, or may exist, without a record in a status: then it
 * takes them down, and the job waits for that. */
bool hvd_start_clears(struct hvd_pass *p);

#endif
