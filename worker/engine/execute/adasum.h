#ifndef HVD_WORKER_ENGINE_EXECUTE_ADASUM_H
#define HVD_WORKER_ENGINE_EXECUTE_ADASUM_H

#include "worker/engine/execute/fused_op.h"

/*
 * hvd_adasum_mover: an allreduce with HVD_ADASUM, as a sequence of the transport's collectives. One
 * of them moves at a time in a process set, and no other operation of the set overtakes it. Only
 * the progress owner calls this, without mu.
 */

/* Frees the memory that a set keeps for Adasum. NULL is allowed. */
void hvd_adasum_destroy(struct hvd_adasum *a);

#endif
