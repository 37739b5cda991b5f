#ifndef HVD_OPERATOR_CORE_ENSURE_DRIFT_H
#define HVD_OPERATOR_CORE_ENSURE_DRIFT_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. */

/* Describes what others changed and stays so while the job runs; false, and out untouched, if
 * nothing. */
bool hvd_drift_describe(struct hvd_pass *p, char *out, size_t size);

#endif
