#ifndef HVD_WORKER_ENGINE_EXECUTE_INPUTS_H
#define HVD_WORKER_ENGINE_EXECUTE_INPUTS_H

#include "worker/engine/state/state.h"

/*
 * Inputs that are not there yet. Caller is the progress owner, without mu.
 */

/* Takes the tensors whose inputs are not there yet off a list of queued ones; returns the rest.
 * What the device says: all are off the list then. */
hvd_status_t hvd_inputs_sift(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry **first,
                             struct hvd_err *err);

/* Queues those whose inputs have come. What the device says. */
hvd_status_t hvd_inputs_poll(struct hvd_engine *e, bool *progressed, struct hvd_err *err);

/* Forgets them: they have ended. */
void hvd_inputs_forget(struct hvd_engine *e, struct hvd_set *set);

#endif
