#ifndef HVD_WORKER_ENGINE_WAIT_WAIT_H
#define HVD_WORKER_ENGINE_WAIT_WAIT_H

#include "worker/engine/state/state.h"

/* Makes the calls of tensors that have ended and that nobody waits for; whether there were any.
 * Caller is the progress owner, without mu. */
bool hvd_wait_call_back(struct hvd_engine *e);

#endif
