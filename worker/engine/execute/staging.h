#ifndef HVD_WORKER_ENGINE_EXECUTE_STAGING_H
#define HVD_WORKER_ENGINE_EXECUTE_STAGING_H

#include "worker/engine/execute/fused_op.h"

/*
 * Fused operations of tensors on the device: hvd_staging_mover moves them, and docs/device.md draws
 * that. Operations of host tensors have no staging. Only the progress owner calls these functions,
 * without mu.
 */

/* Whether an operation can write its output to this memory of the program, if the device can
 * tell. */
bool hvd_staging_accepts(const struct hvd_engine *e, const struct hvd_fused_op *f,
                         const void *memory);

/* Allocates a result in device memory. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t hvd_staging_reserve(const struct hvd_engine *e, struct horovod_output *output,
                                 size_t bytes, struct hvd_err *err);

/* Whether the fused operation has claimed memory to move between devices. Such operations keep
 * their order on the device. */
bool hvd_staging_is_direct(const struct hvd_staging *s);

/* Whether the device works for the fused operation, and nothing of it moves over the transport. */
bool hvd_staging_is_on_device(const struct hvd_fused_op *f);

/* Whether the fused operation, or a step of it, is handed over to move between devices. */
bool hvd_staging_is_launched(const struct hvd_fused_op *f);

/* Whether the fused operation, whose turn has come, takes three steps. */
bool hvd_staging_has_steps(const struct hvd_fused_op *f);

/* Returns the host memory of a tensor while the fused operation is in host memory. */
struct hvd_piece hvd_staging_piece(const struct hvd_fused_op *f, uint32_t i);

/* Passes the event of a launched operation to its tensors, before they are published. */
void hvd_staging_pass_event(struct hvd_fused_op *f);

/* Ends the device's work for all sets. Tensors whose operations were launched end by their
 * events. */
void hvd_staging_abort(struct hvd_engine *e, const char *cause);

/* Drops the work of a fused operation, after hvd_staging_abort. */
void hvd_staging_forget(struct hvd_fused_op *f);

/* Frees a fused operation's staging. NULL is allowed. */
void hvd_staging_destroy(struct hvd_staging *s);

#endif
