#ifndef HVD_WORKER_CORE_PLAN_H
#define HVD_WORKER_CORE_PLAN_H

#include "worker/core/message.h"

/* What one rank has to do for a step of the plan, in elements. */
struct hvd_work {
    int64_t count;      /* elements of this rank's input */
    int64_t total_rows; /* allgather: first dimension of the output */
    int64_t total;      /* elements of the output */
    bool moves_data;    /* false: nothing to transfer, on any rank */
};

/* Who performs the plan. */
struct hvd_place {
    int rank;
    int size;
};

/*
 * Lays out the work of a step (an operation, not an error) for the request that this rank made.
 * rows and counts have place.size elements and are filled for an allgather (NULL is fine for
 * others): the first dimension and the elements of each rank. HVD_ERR_INVALID when the step does
 * not fit the request: the ranks have diverged. HVD_ERR_TOO_LARGE when the output cannot exist.
 */
hvd_status_t hvd_plan_work(const struct hvd_request *req, const struct hvd_step *step,
                           struct hvd_place place, int64_t *rows_counts[2], struct hvd_work *work,
                           struct hvd_err *err);

#endif
