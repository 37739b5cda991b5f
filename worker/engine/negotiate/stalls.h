#ifndef HVD_WORKER_ENGINE_NEGOTIATE_STALLS_H
#define HVD_WORKER_ENGINE_NEGOTIATE_STALLS_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* Whether it is time for a check; if so, schedules the next one. */
bool hvd_stalls_is_due(struct hvd_engine *e, int64_t now_ns);

/* On the set's coordinator: warns of tensors that wait too long, or ends the job. On an inner
 * node of the tree: sends up which ranks have requested them. */
hvd_status_t hvd_stalls_check(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                              struct hvd_err *err);

#endif
