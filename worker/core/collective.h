#ifndef HVD_WORKER_CORE_COLLECTIVE_H
#define HVD_WORKER_CORE_COLLECTIVE_H

#include "worker/core/types.h"

/* One collective that a transport or a device moves, from the view of this rank. */

/* A stretch of a payload, in elements. */
struct hvd_piece {
    const void *input;
    void *output;
    int64_t count;
};

/* One collective. The caller fills it and keeps it in place until it has finished. The caller
 * never copies it while it moves. */
struct hvd_collective {
    enum hvd_op op; /* not HVD_BARRIER or HVD_JOIN, which move no data */
    enum hvd_dtype dtype;
    enum hvd_reduce reduce; /* HVD_SUM, HVD_MIN, HVD_MAX or HVD_PRODUCT: an average is a sum with a
                               divisor */
    struct hvd_scaling scaling; /* allreduce, reducescatter */
    int root;                   /* within the process set */
    uint32_t set;               /* the process set that moves it; 0: all ranks */
    const void *input;          /* broadcast: read on the root alone */
    void *output;
    int64_t count; /* elements of the input; for allreduce and broadcast, also of the output */
    const struct hvd_piece *pieces; /* allreduce: tensors fused into one payload, instead of input
                                       and output. Same order and counts on every rank; count is
                                       their sum. Borrowed until finished; NULL: not fused */
    int n_pieces;
    const int64_t *counts;   /* elements, borrowed until finished. allgather: of each rank's input;
                                reducescatter: of each rank's output; alltoall: sent to each rank,
                                contiguous in rank order. An alltoall may have no elements on any
                                rank, and its ranks cannot detect that */
    const int64_t *received; /* alltoall: elements received from each rank; borrowed as above */
    void *_state;            /* the adapter's */
};

#endif
