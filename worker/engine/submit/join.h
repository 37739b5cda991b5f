#ifndef HVD_WORKER_ENGINE_SUBMIT_JOIN_H
#define HVD_WORKER_ENGINE_SUBMIT_JOIN_H

#include "worker/engine/state/state.h"

/*
 * The caller holds mu, unless the comment states otherwise.
 */

/* Starts the join in all sets of this rank, before the join itself is queued. HVD_ERR_NOMEM: in
 * none. */
hvd_status_t hvd_join_begin(struct hvd_engine *e, struct hvd_entry *join);

/* Joins a newly created set if this rank has joined. HVD_ERR_NOMEM. Takes mu. */
hvd_status_t hvd_join_enter(struct hvd_engine *e, struct hvd_set *set);

/* Handles the end of a join, or of a part, by success or with its set. Finishes the join with
 * its last part. */
void hvd_join_ended(struct hvd_engine *e, struct hvd_entry *entry);

/* Detaches the parts of a join that ends with the job; they end separately. */
void hvd_join_forget(const struct hvd_engine *e, const struct hvd_entry *join);

#endif
