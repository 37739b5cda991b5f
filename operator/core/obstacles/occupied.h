#ifndef HVD_OPERATOR_CORE_OBSTACLES_OCCUPIED_H
#define HVD_OPERATOR_CORE_OBSTACLES_OCCUPIED_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Pods of others that have names of workers. */

/* Reports those that keep the set of the group from making a pod, or that it would take for its
 * own; false if there are none. */
bool hvd_occupied_report(struct hvd_pass *p, size_t group);

#endif
