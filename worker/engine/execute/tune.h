#ifndef HVD_WORKER_ENGINE_EXECUTE_TUNE_H
#define HVD_WORKER_ENGINE_EXECUTE_TUNE_H

#include "worker/engine/execute/fused_op.h"

/*
 * Caller is the progress owner, without mu.
 */

/* A fused operation has landed, its entries are not finished yet: counts it, and sets what comes of
 * it. There is an autotune. */
void hvd_tune_landed(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f);

#endif
