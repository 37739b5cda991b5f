#ifndef HVD_WORKER_ENGINE_EXECUTE_STAGING_H
#define HVD_WORKER_ENGINE_EXECUTE_STAGING_H

#include "worker/engine/execute/fused_op.h"

/*
 * Fused operations of tensors on the device: hvd_staging_mover moves them, and docs/device.md draws
 * that. Operations of host tensors have no staging. Only the progress owner calls these functions,
 * without mu.
 */

/* Allocates a result in device memory. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t hvd_staging_reserve(const struct hvd_engine *e, struct horovod_output *output,
                                 size_t bytes, struct hvd_err *err);

/* Whether the fused operation has claimed memory to move by collectives of the device. Such
 * operations follow each other on one stream. */
bool hvd_staging_is_launched(const struct hvd_staging *s);

/* Whether the device copies results to their places; for hvd_staging_is_landing. */
bool hvd_staging_is_unloading(const struct hvd_staging *s);

/* Whether only the device has work left for the fused operation. */
static inline bool hvd_staging_is_landing(const struct hvd_fused_op *f)
{
    return f->staging && hvd_staging_is_unloading(f->staging);
}

/* Returns the host memory of a tensor while the fused operation is in host memory. */
struct hvd_piece hvd_staging_piece(const struct hvd_fused_op *f, uint32_t i);

/* Ends the set's work on the device. After the return the device accesses no memory of the set. */
void hvd_staging_abort(struct hvd_engine *e, struct hvd_set *set);

/* Free a fused operation's staging, and a set's resources on the device. NULL is allowed. */
void hvd_staging_destroy(struct hvd_staging *s);
void hvd_staging_set_destroy(struct hvd_set_device *on);

#endif
