#ifndef HVD_WORKER_ENGINE_EXECUTE_ADASUM_H
#define HVD_WORKER_ENGINE_EXECUTE_ADASUM_H

#include "worker/engine/execute/fused_op.h"

/*
 * An allreduce with HVD_ADASUM as a row of collectives that the transport has: hvd_adasum_mover.
 * One of them moves at a time in a process set, and nothing overtakes it there. Caller is the
 * progress owner, without mu.
 */

/* Frees the memory that a set keeps for it. NULL is fine. */
void hvd_adasum_destroy(struct hvd_adasum *a);

#endif
