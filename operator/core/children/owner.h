#ifndef HVD_OPERATOR_CORE_CHILDREN_OWNER_H
#define HVD_OPERATOR_CORE_CHILDREN_OWNER_H

#include <stdbool.h>

#include "operator/api/horovodjob.h"
#include "operator/core/view/projection.h"

/* Whose a child is. */

/* Whether the child is the job's: the job is its controller, or was (hvd_owner_is_lost). */
bool hvd_owner_is_job(const struct hvd_job *job, const struct hvd_object *child);

/*
 * Whether the job is not the controller of its own child any more, because somebody removed or
 * replaced the reference. The child has our name, and
 * - it was noted by its uid: status.masterUID, or what the shell has seen of it or made
 * (history.h); another controller does not count then;
 * - or it has no controller, and its pod template or its annotation has the job's uid; one without
 *   any uid, from an older operator, has our annotations and labels and was made after the job.
 * One of an earlier job, which was deleted without its children, is somebody else's. So is a
 * Secret, Service or ConfigMap without an owner that this process has not seen with it: nothing
 * tells it from a copy.
 */
bool hvd_owner_is_lost(const struct hvd_job *job, const struct hvd_object *child);

/* Whether the job has a child of that kind and name. */
bool hvd_owner_has_name(const struct hvd_job *job, enum hvd_kind kind, const char *name);

/* Whether the name is that of a set of the job: of a group that the spec has, or had once. */
bool hvd_owner_is_set_name(const struct hvd_job *job, const char *name);

#endif
