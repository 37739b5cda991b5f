#ifndef HVD_WORKER_ENGINE_EXECUTE_STAGING_H
#define HVD_WORKER_ENGINE_EXECUTE_STAGING_H

#include "worker/engine/execute/fused_op.h"

/*
 * Fused operations of tensors on the device: what happens to them besides moving, and inputs that
 * are not there yet. Caller is the progress owner, without mu. docs/device.md draws it. A fused
 * operation of the host's tensors has no staging, and passes nothing of this.
 */

/* The fused operation, described as if its memory were the host's, is one of the device: makes its
 * staging. HVD_ERR_NOMEM. */
hvd_status_t hvd_staging_begin(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                               struct hvd_err *err);

/* Memory of the device for a result. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t hvd_staging_reserve(const struct hvd_engine *e, struct horovod_output *output,
                                 size_t bytes, struct hvd_err *err);

/*
 * It is the fused operation's turn. HVD_OK: f->move can start over the transport, or is on its way
 * already (hvd_staging_is_landing); HVD_INPROGRESS: an earlier fused operation has memory of it, or
 * its inputs are not in the memory of the host yet. Else what the device says.
 */
hvd_status_t hvd_staging_board(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                               struct hvd_err *err);

/* Whether the fused operation has got its memory to move by collectives of the device: such fused
 * operations follow each other on one stream. */
bool hvd_staging_is_launched(const struct hvd_staging *s);

/* For the two below: asked of a fused operation that has a staging. */
bool hvd_staging_is_exchanging(const struct hvd_staging *s);
bool hvd_staging_is_unloading(const struct hvd_staging *s);

/* Whether f->move asks the ranks of the set what their devices can do; f->has_more then. */
static inline bool hvd_staging_exchanges(const struct hvd_fused_op *f)
{
    return f->staging && hvd_staging_is_exchanging(f->staging);
}

/* Whether only the device has something to do for the fused operation still. */
static inline bool hvd_staging_is_landing(const struct hvd_fused_op *f)
{
    return f->staging && hvd_staging_is_unloading(f->staging);
}

/* They have answered; f->move and f->has_more are what they were. What the device says. */
hvd_status_t hvd_staging_answer(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* f->move has landed in the memory of the host: takes the results to the device. What the device
 * says. */
hvd_status_t hvd_staging_unload(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* HVD_OK when the device has done what it still had to, HVD_INPROGRESS, or what it says. */
hvd_status_t hvd_staging_test(struct hvd_engine *e, struct hvd_fused_op *f, struct hvd_err *err);

/* The memory of a tensor while the fused operation is in the memory of the host. */
struct hvd_piece hvd_staging_piece(const struct hvd_fused_op *f, uint32_t i);

/* The fused operation is done: its memory is the next one's. */
void hvd_staging_end(struct hvd_set *set, struct hvd_fused_op *f);

/* Nothing of the set will be waited for: when this returns, the device touches no memory of it. */
void hvd_staging_abort(struct hvd_engine *e, struct hvd_set *set);

/* Frees a fused operation's staging, and what a set has of the device. NULL is fine. */
void hvd_staging_destroy(struct hvd_staging *s);
void hvd_staging_set_destroy(struct hvd_set_device *on);

#endif
