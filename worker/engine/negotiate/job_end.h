#ifndef HVD_WORKER_ENGINE_NEGOTIATE_JOB_END_H
#define HVD_WORKER_ENGINE_NEGOTIATE_JOB_END_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* Ends submissions to the set. Tensors that are not agreed yet end with the text. */
void hvd_job_end_set(struct hvd_engine *e, struct hvd_set *set, const char *text);

/* Ends the job in order, because a rank has called shutdown or a tensor has stalled. Set 0 ends
 * now; each other set ends when its coordinator's plan contains the end. */
hvd_status_t hvd_job_end_pending(struct hvd_engine *e, const char *cause, struct hvd_err *err);

/* Ends agreed tensors as well, because some rank will not do its part. */
void hvd_job_end_abort(struct hvd_engine *e, const char *cause);

/* Ends the job on all ranks, after a stall has ended it in an orderly way and before all ranks
 * have left. */
void hvd_job_end_abandon_stalled(struct hvd_engine *e);

/* Ends the job on all ranks for a cause that this rank has found, and which is not its own. */
void hvd_job_end_of_all(struct hvd_engine *e, const char *cause);

/* Announces that the job cannot continue because of text, which concerns the rank `whose`. Rank
 * 0 sends this to all others, the others send it to rank 0. The messages do not use the tree, a
 * part of which may be lost. If rank 0 is lost, the ranks below it receive the announcement
 * instead. */
void hvd_job_end_announce(struct hvd_engine *e, int whose, const char *text);

/* Reports directly to the coordinator that the job must end because of the rank `whose`.
 * HVD_ERR_UNAVAILABLE when the coordinator is lost. */
hvd_status_t hvd_job_end_report(struct hvd_engine *e, int whose, enum hvd_leave_why why,
                                const char *text);

/* Ends everything here because this rank cannot continue, and announces that through the
 * coordinator. HVD_ERR_GONE in err: the coordinator is lost. */
void hvd_job_end_fail(struct hvd_engine *e, const struct hvd_err *err);

/* Frees the outputs of abandoned operations, once nothing can write to them any more. */
void hvd_job_end_free_lost(struct hvd_engine *e);

#endif
