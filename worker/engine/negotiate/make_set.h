#ifndef HVD_WORKER_ENGINE_NEGOTIATE_MAKE_SET_H
#define HVD_WORKER_ENGINE_NEGOTIATE_MAKE_SET_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* Has the transport make what the set needs, in which all members take part; answers other ranks
 * meanwhile. HVD_ERR_GONE: the job ends, for the reason in err; otherwise as add_set. */
hvd_status_t hvd_make_set(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

#endif
