#ifndef HVD_WORKER_ENGINE_WAIT_WAIT_H
#define HVD_WORKER_ENGINE_WAIT_WAIT_H

#include "worker/engine/state/state.h"

/* Calls the callbacks of tensors that have ended; returns whether there were any. Only the
 * progress owner calls this, without mu. */
bool hvd_wait_call_back(struct hvd_engine *e);

#endif
