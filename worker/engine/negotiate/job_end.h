#ifndef HVD_WORKER_ENGINE_NEGOTIATE_JOB_END_H
#define HVD_WORKER_ENGINE_NEGOTIATE_JOB_END_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* Nothing may be submitted to the set any more; what is not agreed yet ends with the text. */
void hvd_job_end_set(struct hvd_engine *e, struct hvd_set *set, const char *text);

/* The job ends in order, because a rank has called for that, or a tensor has stalled: the same for
 * all sets, as their coordinators say so. */
hvd_status_t hvd_job_end_pending(struct hvd_engine *e, const char *cause, struct hvd_err *err);

/* Gives up what is agreed as well: some rank will not do its part. */
void hvd_job_end_abort(struct hvd_engine *e, const char *cause);

/* Gives up a job that a stall has ended, and that others may still leave in order: here and for
 * all. */
void hvd_job_end_abandon_stalled(struct hvd_engine *e);

/* Tells who has to know that nothing goes on because of text, which is about the rank `whose`: rank
 * 0 tells all others, the others tell rank 0. Not through the tree, a part of which may be what is
 * lost; but where rank 0 is lost, its subtrees. */
void hvd_job_end_announce(struct hvd_engine *e, int whose, const char *text);

/* Tells the coordinator, directly, that the job is to end because of that rank. HVD_ERR_UNAVAILABLE
 * when it is lost. */
hvd_status_t hvd_job_end_report(struct hvd_engine *e, int whose, enum hvd_leave_why why,
                                const char *text);

/* This rank cannot go on: tells the others, through the coordinator, and ends everything here.
 * HVD_ERR_GONE: because the coordinator is lost, as err says. */
void hvd_job_end_fail(struct hvd_engine *e, const struct hvd_err *err);

/* Frees what was abandoned, once nothing writes to it any more. */
void hvd_job_end_free_lost(struct hvd_engine *e);

#endif
