#ifndef HVD_OPERATOR_CORE_OBSTACLES_LINGERING_H
#define HVD_OPERATOR_CORE_OBSTACLES_LINGERING_H

#include <stddef.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Pods that should be deleted but are not. */

#define HVD_REASON_NOT_DELETED "ObjectNotDeleted" /* of the condition DeletionBlocked */

/* Since when the pod should be deleted; 0: it should not, or it is being deleted. */
int64_t hvd_lingering_since_s(const struct hvd_pass *p, const struct hvd_object *pod);

/* Describes why it should be deleted, and what to do. */
void hvd_lingering_describe(const struct hvd_pass *p, const struct hvd_object *pod, char *out,
                            size_t size);

#endif
