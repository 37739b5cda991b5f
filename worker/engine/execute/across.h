#ifndef HVD_WORKER_ENGINE_EXECUTE_ACROSS_H
#define HVD_WORKER_ENGINE_EXECUTE_ACROSS_H

#include "base/status.h"
#include "worker/core/collective.h"

/*
 * An allreduce across hosts of parts that the ranks of a host have shared out: the step of the
 * memory of the host between those of devices (device.h). The ranks of equal local rank, one on
 * each host, are peers, and have equal parts. Two alltoalls of the process set, in which each rank
 * sends to its peers alone:
 *
 *     exchange      each peer receives its stretch of the part from all peers
 *     combine       and reduces it, in the order of the peers
 *     distribute    each peer receives the reduced stretches of all peers
 *
 * A stretch is reduced on one rank, so all have the same bits. Each rank sends twice its part, but
 * for what stays with it. One at a time in a set. Uses no I/O and no clock; not thread-safe.
 */
struct hvd_across;

/* Creates the state for a rank of a set. local_ranks are by rank in the set, as many on each host;
 * NULL: all are on one. HVD_ERR_NOMEM. */
hvd_status_t hvd_across_create(const int *local_ranks, int size, int rank, struct hvd_across **out);

/* Frees it. NULL is allowed. */
void hvd_across_destroy(struct hvd_across *a);

/* Returns the bytes of memory that a part of `count` elements needs. The part is at its beginning.
 */
size_t hvd_across_bytes(const struct hvd_across *a, int64_t count, enum hvd_dtype dtype);

/* Describes the exchange in *move, for the allreduce `of`, of a part in memory. Both are borrowed
 * until the distribution has finished. */
void hvd_across_exchange(struct hvd_across *a, const struct hvd_collective *of, void *memory,
                         int64_t count, struct hvd_collective *move);

/* Combines what the exchange has brought, and describes the distribution in *move. */
void hvd_across_distribute(struct hvd_across *a, enum hvd_reduce reduce,
                           struct hvd_collective *move);

#endif
