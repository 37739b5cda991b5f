#ifndef HVD_OPERATOR_CORE_OUTCOME_SIDECARS_H
#define HVD_OPERATOR_CORE_OUTCOME_SIDECARS_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Containers that outlive the master's own. */

#define HVD_REASON_MASTER_ENDED "MasterEnded" /* of the condition Running during that time */

/* Whether they keep the pod of the current master from ending. */
bool hvd_sidecars_hold(const struct hvd_pass *p);

/* Whether they have had enough time, and none of them belongs to the job's template: the attempt
 * has ended as the master's container did. */
bool hvd_sidecars_are_over(struct hvd_pass *p);

/* Sets the condition Running during that time. */
void hvd_sidecars_show(struct hvd_pass *p);

/* Adds the containers to the text of a master that has succeeded. */
void hvd_sidecars_name(const struct hvd_pass *p, char *out, size_t size);

/* Makes the kubelet end the pod of a finished job; the pod stays with its logs. */
void hvd_sidecars_stop(struct hvd_pass *p);

#endif
