#ifndef HVD_OPERATOR_CORE_OBSTACLES_TERMINATING_H
#define HVD_OPERATOR_CORE_OBSTACLES_TERMINATING_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Objects that should be gone but are not. */

/* The message of WorkersReady once the workers are gone. */
#define HVD_TEXT_REMOVED "the workers are removed: the job has finished"

/* Sets the condition DeletionBlocked, and adds an event for each object that it names. */
void hvd_terminating_report(struct hvd_pass *p);

/* Whether the StatefulSet or Job that made the pod is stuck in its deletion. Its controller then
 * removes no pod any more, and the garbage collector removes none before it is gone. */
bool hvd_terminating_leaves_pod(struct hvd_pass *p, const struct hvd_object *pod);

#endif
