#ifndef HVD_OPERATOR_CORE_OBSTACLES_STAGE_H
#define HVD_OPERATOR_CORE_OBSTACLES_STAGE_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Slow pods. */

#define HVD_STAGE_TEXT_SIZE 768

/* Describes why the pod is not Ready: by its events, or that the delay has lasted for minutes.
 * False, with out untouched, if there is nothing to report yet. Reads its events. */
bool hvd_stage_describe(struct hvd_pass *p, const struct hvd_object *pod,
                        char out[HVD_STAGE_TEXT_SIZE]);

#endif
