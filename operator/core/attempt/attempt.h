#ifndef HVD_OPERATOR_CORE_ATTEMPT_ATTEMPT_H
#define HVD_OPERATOR_CORE_ATTEMPT_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/api/horovodjob.h"
#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. The attempt under way. */

/* Which attempt the Job is; one that lost its annotation is the current one. */
int32_t hvd_attempt_of(const struct hvd_pass *p, const struct hvd_object *job);

/* The Job of the attempt under way; NULL if there is none. One that a deleted HorovodJob of the
 * same name has left is none. */
const struct hvd_object *hvd_attempt_job(const struct hvd_pass *p);

/* Whether something of an attempt that has ended is to be cleared away before the next one. */
bool hvd_attempt_is_uncleared(const struct hvd_pass *p);

/* Whether an attempt was started and its end is not recorded yet. */
bool hvd_attempt_is_under_way(const struct hvd_pass *p);

/* The worker that the attempt under way has lost, NULL if none; one of an earlier attempt stays in
 * the status and is not meant. Borrowed from the next status. */
const struct hvd_worker_failure *hvd_attempt_loss(const struct hvd_pass *p);

#define HVD_ATTEMPT_SIZE 80

/*
 * Names the attempt under way, "attempt 2 of 3 after 1 interruption": its number among those that
 * count against backoffLimit, out of how many, and how many others were interrupted, which are no
 * part of either.
 */
void hvd_attempt_describe(const struct hvd_pass *p, char out[HVD_ATTEMPT_SIZE]);

/* Records how an attempt ended: log is borrowed from the view, reason is constant, message is
 * copied. The time is added here, and for number 0 the one that the next status counted last. */
void hvd_attempt_note_end(struct hvd_pass *p, const struct hvd_attempt_end *end);

#endif
