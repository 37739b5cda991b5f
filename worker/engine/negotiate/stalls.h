#ifndef HVD_WORKER_ENGINE_NEGOTIATE_STALLS_H
#define HVD_WORKER_ENGINE_NEGOTIATE_STALLS_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* Whether it is time to look; then the next time is later. */
bool hvd_stalls_is_due(struct hvd_engine *e, int64_t now_ns);

/* Warns of the tensors of a set that wait too long here, its coordinator, or ends the job; an inner
 * node of the tree tells what it knows of them. */
hvd_status_t hvd_stalls_check(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                              struct hvd_err *err);

#endif
