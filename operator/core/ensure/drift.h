#ifndef HVD_OPERATOR_CORE_ENSURE_DRIFT_H
#define HVD_OPERATOR_CORE_ENSURE_DRIFT_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. */

/* Describes a change by another writer that stays while the job runs; false, with out untouched, if
 * there is none. */
bool hvd_drift_describe(struct hvd_pass *p, char *out, size_t size);

#endif
