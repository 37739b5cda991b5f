#ifndef HVD_WORKER_ENGINE_NEGOTIATE_REQUEST_SEND_H
#define HVD_WORKER_ENGINE_NEGOTIATE_REQUEST_SEND_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* Takes what was submitted, for hvd_request_send_queued to request; nothing while inputs are waited
 * for on a device, behind which it may have to line up. Caller holds mu, and has a step follow. */
void hvd_request_send_take(struct hvd_engine *e);

/* Requests what was taken, else for what was submitted since the last time, unless it is held back.
 */
hvd_status_t hvd_request_send_queued(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                     struct hvd_err *err);

/* Whether what is queued has waited long enough for more to come. */
bool hvd_request_send_is_due(struct hvd_engine *e);

#endif
