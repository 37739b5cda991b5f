#ifndef HVD_WORKER_CORE_OP_LAYOUT_H
#define HVD_WORKER_CORE_OP_LAYOUT_H

#include "worker/core/types.h"

/* The work of one rank for an agreed tensor, in elements. */
struct hvd_work {
    int64_t count;      /* elements of this rank's input */
    int64_t total_rows; /* allgather, reducescatter: first dimension of the output */
    int64_t total;      /* elements of the output; alltoall: 0, because it is not known yet */
    bool moves_data;    /* false: no rank has anything to transfer */
};

/* This rank in its process set, and the size of the set. */
struct hvd_self {
    int rank;
    int size;
};

/*
 * Computes the work for the request that this rank made. rows: for an allgather, the agreed first
 * dimension of each rank; otherwise not read. counts: for an allgather or reducescatter, receives
 * the elements of each of self.size ranks; otherwise not written.
 *
 * HVD_ERR_INVALID when the rows do not fit the request, so the ranks have diverged.
 * HVD_ERR_TOO_LARGE when the output cannot exist.
 */
hvd_status_t hvd_op_layout_work(const struct hvd_request *req, const int64_t *rows,
                                struct hvd_self self, int64_t *counts, struct hvd_work *work,
                                struct hvd_err *err);

/*
 * Writes into splits the rows that an alltoall sends to each of `size` ranks. given: the program's
 * n_given values, or NULL for equal parts. HVD_ERR_INVALID when they do not fit the tensor.
 */
hvd_status_t hvd_op_layout_splits(const struct hvd_request *req, const int64_t *given, int n_given,
                                  int size, int64_t *splits, struct hvd_err *err);

/* Checks that the number of ranks is a power of two, which Adasum requires. HVD_ERR_INVALID with
 * Horovod's text. */
hvd_status_t hvd_op_layout_check_adasum(int size, struct hvd_err *err);

#endif
