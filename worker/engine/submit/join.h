#ifndef HVD_WORKER_ENGINE_SUBMIT_JOIN_H
#define HVD_WORKER_ENGINE_SUBMIT_JOIN_H

#include "worker/engine/state/state.h"

/*
 * Caller holds mu where nothing else is said.
 */

/* This rank joins, which is about to be queued: it does so in all its sets. HVD_ERR_NOMEM: in none.
 */
hvd_status_t hvd_join_begin(struct hvd_engine *e, struct hvd_entry *join);

/* The set was made just now: joins it if this rank has joined. HVD_ERR_NOMEM. Takes mu. */
hvd_status_t hvd_join_enter(struct hvd_engine *e, struct hvd_set *set);

/* A join, or a part of one, has ended well or with its set: finishes the join with its last part.
 */
void hvd_join_ended(struct hvd_engine *e, struct hvd_entry *entry);

/* The join ends with the job: its parts end for themselves. */
void hvd_join_forget(const struct hvd_engine *e, const struct hvd_entry *join);

#endif
