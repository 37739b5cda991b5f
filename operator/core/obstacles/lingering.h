#ifndef HVD_OPERATOR_CORE_OBSTACLES_LINGERING_H
#define HVD_OPERATOR_CORE_OBSTACLES_LINGERING_H

#include <stddef.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Pods that are to go and that nobody deletes. */

#define HVD_REASON_NOT_DELETED "ObjectNotDeleted" /* of the condition DeletionBlocked */

/* Since when the pod is to go; 0: it is not, or it is being deleted. */
int64_t hvd_lingering_since_s(const struct hvd_pass *p, const struct hvd_object *pod);

/* Why it is to go, and what to do. */
void hvd_lingering_describe(const struct hvd_pass *p, const struct hvd_object *pod, char *out,
                            size_t size);

#endif
