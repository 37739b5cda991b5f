#ifndef HVD_OPERATOR_CORE_OUTCOME_START_H
#define HVD_OPERATOR_CORE_OUTCOME_START_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. */

/* Whether workers of an earlier start are there, or may be, of which no status tells: they
 * are taken down, and the job waits for it. */
bool hvd_start_clears(struct hvd_pass *p);

#endif
