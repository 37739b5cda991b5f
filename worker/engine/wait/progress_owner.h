#ifndef HVD_WORKER_ENGINE_WAIT_PROGRESS_OWNER_H
#define HVD_WORKER_ENGINE_WAIT_PROGRESS_OWNER_H

#include "worker/engine/state/state.h"

/* Makes progress for the waiter's entry, for which it is registered, as long as that is possible
 * without sleeping. The waiter needs no condition variable for this. False when another thread is,
 * or must be, the progress owner. is_brief: only for work of some microseconds. The caller must
 * then call hvd_progress_owner_release or hvd_progress_owner_wait. Caller holds mu, before and
 * afterwards. */
bool hvd_progress_owner_first(struct hvd_engine *e, const struct hvd_waiter *waiter, bool is_brief);

/* Wakes a thread to make progress if there is work and no progress owner. Caller holds mu. */
void hvd_progress_owner_release(struct hvd_engine *e);

/* Waits until the waiter's entry is done or, for a waiter without entry, until the job is over.
 * Makes progress when no other thread does. Caller holds mu, before and afterwards. */
void hvd_progress_owner_wait(struct hvd_engine *e, struct hvd_waiter *waiter);

/* Does one step if there is no progress owner and this thread may be it; returns whether
 * anything happened. Caller holds mu, before and afterwards. */
bool hvd_progress_owner_once(struct hvd_engine *e);

/* The background thread's function; arg is the engine. */
void *hvd_progress_owner_background(void *arg);

#endif
