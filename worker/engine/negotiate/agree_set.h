#ifndef HVD_WORKER_ENGINE_NEGOTIATE_AGREE_SET_H
#define HVD_WORKER_ENGINE_NEGOTIATE_AGREE_SET_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls this, without mu.
 */

/* A rank's request: the change, then the ranks of the new set or the number of the old one. */
enum hvd_change {
    HVD_CHANGE_NONE, /* waits for all ranks, which must pass the same number */
    HVD_CHANGE_ADD,
    HVD_CHANGE_REMOVE,
};

/* The agreement of a submission with such a change. */
extern const struct hvd_agreement hvd_agree_set_agreement;

/* Creates the next process set; may wait for its other members. After HVD_ERR_NOMEM or
 * HVD_ERR_SYSTEM the ranks have diverged. */
hvd_status_t hvd_agree_set_register(struct hvd_engine *e, const int *ranks, int n_ranks,
                                    uint32_t *id, struct hvd_err *err);

#endif
