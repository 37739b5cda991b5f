#ifndef HVD_WORKER_ENGINE_NEGOTIATE_REQUEST_SEND_H
#define HVD_WORKER_ENGINE_NEGOTIATE_REQUEST_SEND_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* Takes submitted tensors, for hvd_request_send_queued. Caller holds mu, and a step must follow. */
void hvd_request_send_take(struct hvd_engine *e);

/* Requests the taken tensors; if there are none, those submitted since, unless they are still
 * held back. */
hvd_status_t hvd_request_send_queued(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                     struct hvd_err *err);

/* Whether queued tensors have been held back long enough. */
bool hvd_request_send_is_due(struct hvd_engine *e);

#endif
