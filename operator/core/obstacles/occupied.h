#ifndef HVD_OPERATOR_CORE_OBSTACLES_OCCUPIED_H
#define HVD_OPERATOR_CORE_OBSTACLES_OCCUPIED_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Foreign pods that have names of workers. */

/* Reports foreign pods that keep the group's set from making a pod, or that it would adopt; false
 * if there are none. */
bool hvd_occupied_report(struct hvd_pass *p, size_t group);

#endif
