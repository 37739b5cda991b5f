#ifndef HVD_WORKER_ENGINE_EXECUTE_OP_TRACE_H
#define HVD_WORKER_ENGINE_EXECUTE_OP_TRACE_H

#include "worker/engine/execute/exec_plan.h"

/*
 * Trace events of execution, for timeline and recorder. Only the progress owner calls these
 * functions.
 */

/* Reports that a plan contains cached tensors, whose execution plan is ready. */
void hvd_op_trace_agreed(struct hvd_engine *e, struct hvd_set *set,
                         const struct hvd_exec_plan *exec_plan);

/* Reports that a fused operation starts on the transport, unless it has before. */
void hvd_op_trace_started(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f);

/* Reports that a fused operation, or its next step, starts to move. `by` is what moves it, such as
 * "nccl"; `op` what it does, HVD_ALLREDUCE for an allreduce as a whole. */
void hvd_op_trace_moves(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f,
                        const char *by, enum hvd_op op);

/* Reports that a fused operation of cached tensors has succeeded. */
void hvd_op_trace_ended(struct hvd_engine *e, const struct hvd_fused_op *f);

#endif
