#ifndef HVD_WORKER_ENGINE_EXECUTE_OP_TRACE_H
#define HVD_WORKER_ENGINE_EXECUTE_OP_TRACE_H

#include "worker/engine/execute/exec_plan.h"

/*
 * What the timeline and the recorder hear of what is executed. Caller is the progress owner.
 */

/* Cached tensors are in a plan, and laid out. */
void hvd_op_trace_agreed(struct hvd_engine *e, struct hvd_set *set,
                         const struct hvd_exec_plan *exec_plan);

/* A fused operation starts. */
void hvd_op_trace_started(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f);

/* A fused operation of cached tensors has ended well. */
void hvd_op_trace_ended(struct hvd_engine *e, const struct hvd_fused_op *f);

#endif
