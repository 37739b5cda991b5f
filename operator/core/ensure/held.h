#ifndef HVD_OPERATOR_CORE_ENSURE_HELD_H
#define HVD_OPERATOR_CORE_ENSURE_HELD_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. A master's Job that another writer keeps from making its pod. */

/* Whether that has ended the attempt under way; the next status then reports it. */
bool hvd_held_ends_attempt(struct hvd_pass *p);

/* Releases the job's own Job if it is held, and reports that. */
void hvd_held_release(struct hvd_pass *p, const struct hvd_object *job);

#endif
