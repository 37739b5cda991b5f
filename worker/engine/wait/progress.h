#ifndef HVD_WORKER_ENGINE_WAIT_PROGRESS_H
#define HVD_WORKER_ENGINE_WAIT_PROGRESS_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls this function, without mu.
 */

/* Does the work that is possible now; returns whether anything happened. */
bool hvd_progress_step(struct hvd_engine *e);

#endif
