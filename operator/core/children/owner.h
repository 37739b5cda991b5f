#ifndef HVD_OPERATOR_CORE_CHILDREN_OWNER_H
#define HVD_OPERATOR_CORE_CHILDREN_OWNER_H

#include <stdbool.h>

#include "operator/api/horovodjob.h"
#include "operator/core/view/projection.h"

/* The ownership of children. */

/* Whether the child is the job's: the job is its controller, or was (hvd_owner_is_lost). */
bool hvd_owner_is_job(const struct hvd_job *job, const struct hvd_object *child);

/*
 * Whether the job lost the control of its own child because another writer removed or replaced the
 * reference. The child has one of the job's names, and one of these is true:
 * - The operator has recorded its uid: as status.masterUID, or because the shell saw the child with
 *   its owner or made it (history.h). Another controller does not count then.
 * - It has no controller, and its pod template or its annotation has the job's uid. A child of an
 *   older operator has no uid; it needs the operator's annotations and labels, and was made after
 *   the job.
 * A child of an earlier job, which was deleted without its children, is foreign. So is a Secret,
 * Service or ConfigMap without an owner that this process has not seen with one: it may be a copy.
 */
bool hvd_owner_is_lost(const struct hvd_job *job, const struct hvd_object *child);

/* Whether the job has a child of that kind and name. */
bool hvd_owner_has_name(const struct hvd_job *job, enum hvd_kind kind, const char *name);

/* Whether the name is that of a set of the job, for a group that the spec has or once had. */
bool hvd_owner_is_set_name(const struct hvd_job *job, const char *name);

#endif
