#ifndef HVD_OPERATOR_CORE_OWNER_H
#define HVD_OPERATOR_CORE_OWNER_H

#include <stdbool.h>

#include "operator/api/horovodjob.h"
#include "operator/core/observe.h"

/* Within operator/core only. Whose a child is. */

/* Whether the child is the job's: the job is its controller, or was (hvd_owner_is_lost). */
bool hvd_owner_is_job(const struct hvd_job *job, const struct hvd_object *child);

/*
 * Whether the job's own StatefulSet, Job or PodGroup has no controller any more, because somebody
 * removed the reference: it has our name, and an annotation with the job's uid, whatever its labels
 * are; one without a uid, from an older operator, has our labels and was made after the job. One
 * of an earlier job, which was deleted without its children, is somebody else's. So are other kinds
 * without an owner, as nothing tells them from copies.
 */
bool hvd_owner_is_lost(const struct hvd_job *job, const struct hvd_object *child);

#endif
