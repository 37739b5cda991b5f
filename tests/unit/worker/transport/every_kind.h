#ifndef HVD_TESTS_UNIT_WORKER_TRANSPORT_EVERY_KIND_H
#define HVD_TESTS_UNIT_WORKER_TRANSPORT_EVERY_KIND_H

#include "worker/transport/transport.h"

/*
 * Every kind of collective in a process set that is there, against closed forms: uneven and empty
 * parts, in place and not, fused pieces, all types, scaling, several at once, and what every_edge.h
 * has. Every member calls it, in a thread or process of its own. Payloads are `scale` times as
 * large, >= 1. NULL when all holds, else what does not, in a static text.
 */
const char *hvd_transport_every_kind(struct hvd_transport *t, uint32_t set, const int *ranks,
                                     int n_ranks, int scale);

/* The same in set 0, then in process sets that it adds and removes: even ranks and odd ones side by
 * side, the first and the last rank, all but the first. */
const char *hvd_transport_every_set(struct hvd_transport *t, int scale);

#endif
