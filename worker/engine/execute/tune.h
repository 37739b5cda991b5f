#ifndef HVD_WORKER_ENGINE_EXECUTE_TUNE_H
#define HVD_WORKER_ENGINE_EXECUTE_TUNE_H

#include "worker/engine/execute/fused_op.h"

/*
 * Only the progress owner calls this function, without mu.
 */

/* Counts a fused operation that has landed, before its entries are finished, and applies new
 * settings. Requires e->options.autotune. */
void hvd_tune_landed(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f);

#endif
