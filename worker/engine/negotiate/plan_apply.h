#ifndef HVD_WORKER_ENGINE_NEGOTIATE_PLAN_APPLY_H
#define HVD_WORKER_ENGINE_NEGOTIATE_PLAN_APPLY_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls this function, without mu.
 */

/* Applies a plan of the coordinator; the reader must be at its start. */
hvd_status_t hvd_plan_apply(struct hvd_engine *e, struct hvd_set *set, struct hvd_reader reader,
                            struct hvd_err *err);

#endif
