#ifndef HVD_WORKER_ENGINE_EXECUTE_INPUTS_H
#define HVD_WORKER_ENGINE_EXECUTE_INPUTS_H

#include "worker/engine/state/state.h"

/*
 * Inputs that are not ready yet. Only the progress owner calls these functions, without mu.
 */

/* Removes the tensors whose inputs are not ready from a list of queued ones. Fails as the device
 * does; the list is empty then. */
hvd_status_t hvd_inputs_sift(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry **first,
                             struct hvd_err *err);

/* Queues the tensors whose inputs have become ready. Fails as the device does. */
hvd_status_t hvd_inputs_poll(struct hvd_engine *e, bool *progressed, struct hvd_err *err);

/* Forgets the set's tensors without ready inputs, because they have ended. */
void hvd_inputs_forget(struct hvd_engine *e, struct hvd_set *set);

#endif
