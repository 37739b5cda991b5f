#ifndef HVD_OPERATOR_CORE_OUTCOME_SIDECARS_H
#define HVD_OPERATOR_CORE_OUTCOME_SIDECARS_H

#include <stdbool.h>
#include <stddef.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Containers that run on after the master's own has ended. */

#define HVD_REASON_MASTER_ENDED "MasterEnded" /* of the condition Running meanwhile */

/* Whether they keep the pod of the current master from ending. */
bool hvd_sidecars_hold(const struct hvd_pass *p);

/* Whether they have held it for long enough, and none of them is of the job's template: the attempt
 * has ended as the master's container did. */
bool hvd_sidecars_are_over(struct hvd_pass *p);

/* The condition Running meanwhile. */
void hvd_sidecars_show(struct hvd_pass *p);

/* Adds the containers to the text of a master that has succeeded. */
void hvd_sidecars_name(const struct hvd_pass *p, char *out, size_t size);

/* Has the kubelet end the pod of a job that has finished; it stays with its logs. */
void hvd_sidecars_stop(struct hvd_pass *p);

#endif
