#ifndef HVD_OPERATOR_CORE_ATTEMPT_LOSS_H
#define HVD_OPERATOR_CORE_ATTEMPT_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Workers that are lost while the master runs. */

#define HVD_LOSS_TEXT_SIZE 1024

/*
 * Whether a worker that the master counts on was lost since the master started: its container
 * ended, or its pod failed, is being removed, was replaced or is gone. Fills *out, whose message
 * points into text. An elastic job continues without a lost worker. For such a job only removals by
 * scaling count, within two minutes before its master failed.
 */
bool hvd_loss_find(const struct hvd_pass *p, struct hvd_worker_failure *out,
                   char text[HVD_LOSS_TEXT_SIZE]);

/* Whether a worker's container ended so often before the master could start that it counts as
 * hopeless. Fills *out as hvd_loss_find does. */
bool hvd_loss_find_hopeless(const struct hvd_pass *p, struct hvd_worker_failure *out,
                            char text[HVD_LOSS_TEXT_SIZE]);

/* The number of the group's workers that a running master counts on, while none is known to be
 * lost. 0 if it counts on none, as the master of an elastic job. */
int64_t hvd_loss_counted_on(const struct hvd_pass *p, size_t group);

/*
 * A hash of the workers that a new master starts with. It differs for other workers of the same
 * names, and after restarts of their containers. Never 0; collides with a chance of 2^-64.
 */
uint64_t hvd_loss_workers_hash(const struct hvd_pass *p);

/* The number of workers that the master's Job, which must exist, was made for; 0: not recorded. */
int64_t hvd_loss_started(const struct hvd_pass *p);

/*
 * Records on the master's Job that the user reduces the replicas, before the workers go. When the
 * user raises them again, the new workers are not the old ones, and none was lost. True when this
 * pass writes the record; a later pass then changes the sets.
 */
bool hvd_loss_note_fewer(struct hvd_pass *p);

/* Whether something other than the pod's program caused its end, if it ended. */
bool hvd_loss_is_disruption(const struct hvd_object *pod);

#endif
