#ifndef HVD_WORKER_CORE_MISMATCH_H
#define HVD_WORKER_CORE_MISMATCH_H

#include "worker/core/types.h"

/* Two ranks request the same name: what the first of them requested and who it was. */
struct hvd_request_of_rank {
    int rank;
    const struct hvd_request *req;
};

/*
 * Compares two requests of one name. Returns 0 when they agree, else the number of the first check
 * that failed (a lower one is reported first) and writes the sentence for every rank into text:
 * 1 data type, 2 operation, 3 shape, 4 pre- or postscale factor, 5 reduction, 8 dimensions of an
 * allgather or alltoall, 11 root, 12 device. The numbers are Horovod's; 6, 7 and 9 are
 * hvd_mismatch_unsupported's, and 10 (a fusion buffer that is too small) cannot happen here.
 */
int hvd_mismatch(struct hvd_request_of_rank one, struct hvd_request_of_rank other, char *text,
                 size_t size);

/*
 * Whether a tensor that all ranks agree about cannot be computed all the same: 6, 9 or 11 when some
 * ranks have joined and zeros from them make no sense, 7 when it has no dimension to work along;
 * else 0. Writes the sentence into text.
 */
int hvd_mismatch_unsupported(const struct hvd_request *req, bool any_joined, char *text,
                             size_t size);

#endif
