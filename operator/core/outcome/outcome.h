#ifndef HVD_OPERATOR_CORE_OUTCOME_OUTCOME_H
#define HVD_OPERATOR_CORE_OUTCOME_OUTCOME_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Ends and pauses. */

/* Checks whether the current master has ended; if so, puts that into the next status and returns
 * true. */
bool hvd_outcome_master(struct hvd_pass *p);

/* Whether it has succeeded, according to its Job or its pod. */
bool hvd_outcome_is_success(const struct hvd_pass *p);

/* Sets the condition Failed, which is final. reason is also the event's, for kubectl describe. */
void hvd_outcome_fail(struct hvd_pass *p, const char *reason, const char *message);

#define HVD_REASON_DELETED "Deleted" /* of the end of a HorovodJob that is being deleted */

/* Ends the job as its ConfigMap records (mark.h). */
void hvd_outcome_noted(struct hvd_pass *p);

/* Whether the master's Job has completed though its attempt was given up: it was suspended, or
 * failed for a lost worker, and the Job could not be deleted in time. The job has then
 * succeeded. */
bool hvd_outcome_late(struct hvd_pass *p);

/* Whether a HorovodJob that is being deleted has no master any more, or never gets one; it has then
 * failed. */
bool hvd_outcome_abandoned(struct hvd_pass *p);

/* Removes the objects of a finished job, according to cleanPodPolicy and ttlSecondsAfterFinished,
 * and reports those that cannot be removed. */
void hvd_outcome_clean(struct hvd_pass *p);

/* Removes the workers of a job whose master has ended and whose end cannot be written, unless
 * cleanPodPolicy keeps them. The master's Job stays, because it alone records the end. */
void hvd_outcome_release_workers(struct hvd_pass *p);

/* Removes the running objects of a job that failed for its spec or its deadline, according to
 * cleanPodPolicy, though its status is not written yet. */
void hvd_outcome_take_down(struct hvd_pass *p);

/* Takes master and workers down; true once none of them is left. */
bool hvd_outcome_quiesce(struct hvd_pass *p);

/* Records a worker that was lost under a running master. Ends the attempt if the master does not
 * end by itself; true if it did so. */
bool hvd_outcome_lost(struct hvd_pass *p);

/* Ends an attempt whose workers never become Ready, because one of them ends again and again. */
bool hvd_outcome_hopeless(struct hvd_pass *p);

/* Whether another writer has deleted the Job of the attempt under way; the attempt has then
 * ended. */
bool hvd_outcome_vanished(struct hvd_pass *p);

/* Removes workers that no controller takes down, for a job that is to have none. */
void hvd_outcome_remove_workers(struct hvd_pass *p);

/* Removes a master that its Job has released. */
void hvd_outcome_remove_stray(struct hvd_pass *p);

/* Removes pods that are long overdue, because their node does not answer any more. */
void hvd_outcome_force_delete(struct hvd_pass *p);

#endif
