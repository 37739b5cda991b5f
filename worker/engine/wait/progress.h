#ifndef HVD_WORKER_ENGINE_WAIT_PROGRESS_H
#define HVD_WORKER_ENGINE_WAIT_PROGRESS_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* Does what can be done now; whether anything happened. */
bool hvd_progress_step(struct hvd_engine *e);

#endif
