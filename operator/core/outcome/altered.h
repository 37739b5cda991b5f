#ifndef HVD_OPERATOR_CORE_OUTCOME_ALTERED_H
#define HVD_OPERATOR_CORE_OUTCOME_ALTERED_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Immutable fields that another writer set when the object was made. */

/* Whether the master's Job, or a set, is altered so that it makes another job. */
bool hvd_altered_is_wrong(const struct hvd_pass *p, enum hvd_kind kind);

/* Ends the job if one of its children is altered so; true if it did. */
bool hvd_altered_ends_job(struct hvd_pass *p);

/* Describes other alterations of the master's Job, or of a set; false, with out untouched, if there
 * are none. */
bool hvd_altered_describe(struct hvd_pass *p, enum hvd_kind kind, char *out, size_t size);

#endif
