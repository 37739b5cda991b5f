#ifndef HVD_WORKER_ENGINE_NEGOTIATE_MAKE_SET_H
#define HVD_WORKER_ENGINE_NEGOTIATE_MAKE_SET_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls this function, without mu.
 */

/* Creates the transport's part of the set together with all members, and answers other ranks
 * meanwhile. HVD_ERR_GONE: the job ends, for the reason in err. Else fails as the transport's
 * add_set does. */
hvd_status_t hvd_make_set(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

#endif
