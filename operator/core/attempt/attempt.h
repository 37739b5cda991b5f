#ifndef HVD_OPERATOR_CORE_ATTEMPT_ATTEMPT_H
#define HVD_OPERATOR_CORE_ATTEMPT_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/api/horovodjob.h"
#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. The attempt under way. */

/* The number of the Job's attempt; a Job without its annotation belongs to the current attempt. */
int32_t hvd_attempt_of(const struct hvd_pass *p, const struct hvd_object *job);

/* The Job of the attempt under way; NULL if there is none. A Job that a deleted HorovodJob of the
 * same name left does not count. */
const struct hvd_object *hvd_attempt_job(const struct hvd_pass *p);

/* Whether objects of an ended attempt must be cleared away before the next attempt. */
bool hvd_attempt_is_uncleared(const struct hvd_pass *p);

/* Whether an attempt has started and its end is not recorded yet. */
bool hvd_attempt_is_under_way(const struct hvd_pass *p);

/* The worker that the attempt under way has lost, NULL if none. A loss of an earlier attempt stays
 * in the status and does not count. Borrowed from the next status. */
const struct hvd_worker_failure *hvd_attempt_loss(const struct hvd_pass *p);

#define HVD_ATTEMPT_SIZE 80

/*
 * Names the attempt under way, "attempt 2 of 3 after 1 interruption". The numbers count only
 * attempts that count against backoffLimit; interruptions are listed apart.
 */
void hvd_attempt_describe(const struct hvd_pass *p, char out[HVD_ATTEMPT_SIZE]);

/* Records how an attempt ended: log is borrowed from the view, reason is constant, message is
 * copied. Adds the time. For number 0 it takes the last attempt that the next status counts. */
void hvd_attempt_note_end(struct hvd_pass *p, const struct hvd_attempt_end *end);

#endif
