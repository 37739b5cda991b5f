#ifndef HVD_WORKER_ENGINE_STATE_WAKE_H
#define HVD_WORKER_ENGINE_STATE_WAKE_H

#include "worker/engine/state/state.h"

/* Whether this thread may drive. */
bool hvd_wake_may_own(const struct hvd_engine *e);

/* HVD_ERR_STATE into err, for a tensor that this thread may not wait for, as it may not drive. */
void hvd_wake_refuse(struct hvd_strview name, struct hvd_err *err);

/* Tells whoever drives, or should, that there is work. Caller holds mu. */
void hvd_wake_owner(struct hvd_engine *e);

/* Ends the sleep of the progress owner if it sleeps. Caller holds mu. */
void hvd_wake_sleeper(struct hvd_engine *e);

#endif
