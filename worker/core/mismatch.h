#ifndef HVD_WORKER_CORE_MISMATCH_H
#define HVD_WORKER_CORE_MISMATCH_H

#include "worker/core/types.h"

/* A rank's request, for comparison with another rank's request of the same name. */
struct hvd_request_of_rank {
    int rank;
    const struct hvd_request *req;
};

/*
 * Compares two requests of one name. Returns 0 when they agree, else the number of the first check
 * that fails, and writes the message for every rank into text.
 *
 * 1 is the data type, 2 the operation, 3 the shape, 4 a pre- or postscale factor, 5 the reduction.
 * 8 is a dimension of an allgather or alltoall, 11 the root, 12 the device. The numbers are
 * Horovod's, and a lower one is reported first. hvd_mismatch_unsupported has 6, 7 and 9. The fusion
 * buffer is never too small here, so 10 does not occur.
 */
int hvd_mismatch(struct hvd_request_of_rank one, struct hvd_request_of_rank other, char *text,
                 size_t size);

/*
 * Checks whether a tensor on which all ranks agree can be computed. Returns 6, 9 or 11 when some
 * ranks have joined and the operation does not allow their zeros. Returns 7 when the tensor has no
 * dimension to work along, else 0. Writes the message into text.
 */
int hvd_mismatch_unsupported(const struct hvd_request *req, bool any_joined, char *text,
                             size_t size);

#endif
