#ifndef HVD_WORKER_ENGINE_EXECUTE_STAGING_H
#define HVD_WORKER_ENGINE_EXECUTE_STAGING_H

#include "worker/engine/execute/fused_op.h"

/*
 * Fused operations of tensors on the device: how they move is hvd_staging_mover; docs/device.md
 * draws it. Those of the host's tensors have no staging. Caller is the progress owner, without mu.
 */

/* Memory of the device for a result. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t hvd_staging_reserve(const struct hvd_engine *e, struct horovod_output *output,
                                 size_t bytes, struct hvd_err *err);

/* Whether the fused operation has got its memory to move by collectives of the device: such fused
 * operations follow each other on one stream. */
bool hvd_staging_is_launched(const struct hvd_staging *s);

/* For the one below: asked of a fused operation that has a staging. */
bool hvd_staging_is_unloading(const struct hvd_staging *s);

/* Whether only the device has something to do for the fused operation still. */
static inline bool hvd_staging_is_landing(const struct hvd_fused_op *f)
{
    return f->staging && hvd_staging_is_unloading(f->staging);
}

/* The memory of a tensor while the fused operation is in the memory of the host. */
struct hvd_piece hvd_staging_piece(const struct hvd_fused_op *f, uint32_t i);

/* Nothing of the set will be waited for: when this returns, the device touches no memory of it. */
void hvd_staging_abort(struct hvd_engine *e, struct hvd_set *set);

/* Frees a fused operation's staging, and what a set has of the device. NULL is fine. */
void hvd_staging_destroy(struct hvd_staging *s);
void hvd_staging_set_destroy(struct hvd_set_device *on);

#endif
