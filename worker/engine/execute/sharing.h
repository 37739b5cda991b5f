#ifndef HVD_WORKER_ENGINE_EXECUTE_SHARING_H
#define HVD_WORKER_ENGINE_EXECUTE_SHARING_H

#include "worker/engine/execute/fused_op.h"

/*
 * Caller is the progress owner, without mu.
 */

/* That a fused operation under way reads or writes memory of that address. */
struct hvd_use {
    struct hvd_use *next; /* in a bucket of the set */
    const void *at;
    const struct hvd_fused_op *fused_op;
    bool writes;
};

/* Notes the memory of a fused operation that is to start; of the host: and copies what its members
 * share. HVD_INPROGRESS, and nothing is noted, while another fused operation of the set has some of
 * it; HVD_ERR_NOMEM. */
hvd_status_t hvd_sharing_claim(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err);

/* The results of the copies go to their tensors. */
void hvd_sharing_write_back(struct hvd_fused_op *f);

/* The fused operation is done with its memory, noted or not. */
void hvd_sharing_release(struct hvd_set *set, struct hvd_fused_op *f);

#endif
