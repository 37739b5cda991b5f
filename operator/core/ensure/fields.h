#ifndef HVD_OPERATOR_CORE_ENSURE_FIELDS_H
#define HVD_OPERATOR_CORE_ENSURE_FIELDS_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Fields of children that the operator leaves unset and another writer
 * has set. */

/* Repairs the type of the Service. True while that requires a new Service, so that no other repair
 * of this one is useful. */
bool hvd_fields_repair_service(struct hvd_pass *p, const struct hvd_object *service);

/* Repairs those of a StatefulSet, and of the master's Job that has not ended. */
void hvd_fields_repair_set(struct hvd_pass *p, const struct hvd_object *set);
void hvd_fields_repair_job(struct hvd_pass *p, const struct hvd_object *job);

#endif
