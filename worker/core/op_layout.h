#ifndef HVD_WORKER_CORE_OP_LAYOUT_H
#define HVD_WORKER_CORE_OP_LAYOUT_H

#include "worker/core/types.h"

/* What one rank has to do for an agreed tensor, in elements. */
struct hvd_work {
    int64_t count;      /* elements of this rank's input */
    int64_t total_rows; /* allgather, reducescatter: first dimension of the output */
    int64_t total;      /* elements of the output; of an alltoall: not known yet, 0 */
    bool moves_data;    /* false: nothing to transfer, on any rank */
};

/* Who performs the operation. */
struct hvd_self {
    int rank;
    int size;
};

/*
 * Lays out the work for the request that this rank made. rows: allgather: the agreed first
 * dimension of each rank; else not read. counts: allgather, reducescatter: receives the elements of
 * each rank (place.size of them); else not written. HVD_ERR_INVALID when the rows do not fit the
 * request: the ranks have diverged. HVD_ERR_TOO_LARGE when the output cannot exist.
 */
hvd_status_t hvd_op_layout_work(const struct hvd_request *req, const int64_t *rows,
                                struct hvd_self self, int64_t *counts, struct hvd_work *work,
                                struct hvd_err *err);

/*
 * The rows that an alltoall sends to each of `size` ranks, into splits. given: what the program
 * said, n_given of them, or NULL for equal parts. HVD_ERR_INVALID when they do not fit the tensor.
 */
hvd_status_t hvd_op_layout_splits(const struct hvd_request *req, const int64_t *given, int n_given,
                                  int size, int64_t *splits, struct hvd_err *err);

/* Whether that many ranks can do an Adasum: a power of two. HVD_ERR_INVALID with Horovod's words.
 */
hvd_status_t hvd_op_layout_check_adasum(int size, struct hvd_err *err);

#endif
