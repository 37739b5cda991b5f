#ifndef HVD_OPERATOR_CORE_ATTEMPT_LOSS_H
#define HVD_OPERATOR_CORE_ATTEMPT_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. Workers that are lost while the master runs. */

#define HVD_LOSS_TEXT_SIZE 1024

/*
 * Whether a worker that a master counts on was lost since that started: its container ended, its
 * pod failed, is on its way out, was replaced or is gone. Fills *out, whose message points into
 * text. An elastic job goes on without it: there only workers count that were removed by scaling
 * within two minutes before its master failed.
 */
bool hvd_loss_find(const struct hvd_pass *p, struct hvd_worker_failure *out,
                   char text[HVD_LOSS_TEXT_SIZE]);

/* Whether the container of a worker ended so often before the master could start that it is taken
 * for hopeless. Fills *out as hvd_loss_find does. */
bool hvd_loss_find_hopeless(const struct hvd_pass *p, struct hvd_worker_failure *out,
                            char text[HVD_LOSS_TEXT_SIZE]);

/* How many workers of the group a master that runs counts on, while none is known to be lost; 0
 * when it counts on none, as that of an elastic job. */
int64_t hvd_loss_counted_on(const struct hvd_pass *p, size_t group);

/*
 * Tells the workers that a new master starts with from others of the same names, and from those
 * whose containers were started again since: never 0, and the same for others with a chance of
 * 2^-64.
 */
uint64_t hvd_loss_workers_hash(const struct hvd_pass *p);

/* How many workers the master's Job, which must be there, was made for and still may count on; 0:
 * it does not say. */
int64_t hvd_loss_started(const struct hvd_pass *p);

/*
 * Notes on the master's Job that workers were let go by the user, before they are: when more are
 * wanted again, those that come are others, and none of them was lost. True when that note is being
 * made; the sets are changed in a later pass.
 */
bool hvd_loss_note_fewer(struct hvd_pass *p);

/* Whether the pod's end, if it ended, is not its program's doing. */
bool hvd_loss_is_disruption(const struct hvd_object *pod);

#endif
