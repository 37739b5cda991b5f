#ifndef HVD_WORKER_ENGINE_EXECUTE_ADASUM_H
#define HVD_WORKER_ENGINE_EXECUTE_ADASUM_H

#include "worker/engine/execute/fused_op.h"

/*
 * An allreduce with HVD_ADASUM as a row of collectives that the transport has; caller is the
 * progress owner, without mu. One of them moves at a time in a process set, and nothing overtakes
 * it there.
 */

/* Whether the fused operation is one. */
bool hvd_adasum_is(const struct hvd_fused_op *f);

/* Takes the inputs in; f->move becomes the first collective. HVD_ERR_NOMEM. */
hvd_status_t hvd_adasum_begin(const struct hvd_engine *e, struct hvd_set *set,
                              struct hvd_fused_op *f, struct hvd_err *err);

/* A collective has landed: f->move becomes the next one, and false is returned; true: the outputs
 * hold the result. */
bool hvd_adasum_advance(struct hvd_set *set, struct hvd_fused_op *f);

/* Frees the memory that a set keeps for it. NULL is fine. */
void hvd_adasum_destroy(struct hvd_adasum *a);

#endif
