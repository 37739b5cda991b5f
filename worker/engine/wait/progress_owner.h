#ifndef HVD_WORKER_ENGINE_WAIT_PROGRESS_OWNER_H
#define HVD_WORKER_ENGINE_WAIT_PROGRESS_OWNER_H

#include "worker/engine/state/state.h"

/* Drives for the waiter's entry, which is registered, for as long as that goes on without sleeping;
 * false: somebody else drives, or has to. A waiter that can sleep is not needed for it. is_brief:
 * for what takes some microseconds alone. hvd_progress_owner_release has to follow, or
 * hvd_progress_owner_wait. Caller holds mu, and holds it afterwards. */
bool hvd_progress_owner_first(struct hvd_engine *e, const struct hvd_waiter *waiter, bool is_brief);

/* Nobody drives, or will at once: calls somebody if there is anything left to drive. Caller holds
 * mu. */
void hvd_progress_owner_release(struct hvd_engine *e);

/* Waits until the waiter's entry is done, or the job is over for a waiter without entry; drives
 * when nobody else does. Caller holds mu, and holds it afterwards. */
void hvd_progress_owner_wait(struct hvd_engine *e, struct hvd_waiter *waiter);

/* One step when nobody drives and this thread may. Caller holds mu, and holds it afterwards. */
bool hvd_progress_owner_once(struct hvd_engine *e);

/* The background thread's function; arg is the engine. */
void *hvd_progress_owner_background(void *arg);

#endif
