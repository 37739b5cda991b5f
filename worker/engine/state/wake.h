#ifndef HVD_WORKER_ENGINE_STATE_WAKE_H
#define HVD_WORKER_ENGINE_STATE_WAKE_H

#include "worker/engine/state/state.h"

/* Whether this thread may become the progress owner. */
bool hvd_wake_may_own(const struct hvd_engine *e);

/* Sets HVD_ERR_STATE in err for a tensor that this thread may not wait for, because it may not
 * become the progress owner. */
void hvd_wake_refuse(struct hvd_strview name, struct hvd_err *err);

/* Wakes the progress owner, or the background thread if there is none, for new work. Caller
 * holds mu. */
void hvd_wake_owner(struct hvd_engine *e);

/* Wakes the progress owner if it sleeps. Caller holds mu. */
void hvd_wake_sleeper(struct hvd_engine *e);

#endif
