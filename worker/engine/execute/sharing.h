#ifndef HVD_WORKER_ENGINE_EXECUTE_SHARING_H
#define HVD_WORKER_ENGINE_EXECUTE_SHARING_H

#include "worker/engine/execute/fused_op.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* A fused operation's use of memory at an address, from its claim to its end. */
struct hvd_use {
    struct hvd_use *next; /* in a bucket of the set */
    const void *at;
    const struct hvd_fused_op *fused_op;
    bool writes;
};

/* Records the memory of a fused operation that shall start; in host memory, also copies members
 * that share memory. HVD_INPROGRESS, without any record, while another fused operation of the set
 * uses some of it; HVD_ERR_NOMEM. */
hvd_status_t hvd_sharing_claim(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err);

/* Copies results back to the tensors whose members moved in copies. */
void hvd_sharing_write_back(struct hvd_fused_op *f);

/* Forgets the memory of the fused operation, whether recorded or not, and frees the copies. */
void hvd_sharing_release(struct hvd_set *set, struct hvd_fused_op *f);

#endif
