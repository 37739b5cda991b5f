#ifndef HVD_TESTS_UNIT_WORKER_TRANSPORT_EVERY_EDGE_H
#define HVD_TESTS_UNIT_WORKER_TRANSPORT_EVERY_EDGE_H

#include "worker/transport/transport.h"

/*
 * Every reduction of every type in a process set that is there, on elements at the edges of the
 * type: integers that wrap around, NaN, infinities, numbers that overflow, denormals and zeros of
 * both signs. What is compared are bits, with the plain arithmetic of the kernels' reference. Half
 * of the ranks reduce in place, the others do not, and parts are uneven and empty. Every member
 * calls it, in a thread or process of its own; rank is its place in the set. NULL when all holds,
 * else what does not, in a static text.
 */
const char *hvd_transport_every_edge(struct hvd_transport *t, uint32_t set, int rank, int n_ranks);

/* Such elements of a rank of n_ranks, others for another salt. Reductions of those of all ranks,
 * and of zeros in place of some, have the same bits in every order. */
void hvd_transport_fill_edges(enum hvd_dtype dtype, int rank, int n_ranks, uint64_t salt,
                              char *data, int64_t count);

#endif
