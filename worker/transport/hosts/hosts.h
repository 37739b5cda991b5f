#ifndef HVD_WORKER_TRANSPORT_HOSTS_HOSTS_H
#define HVD_WORKER_TRANSPORT_HOSTS_HOSTS_H

#include "worker/transport/team.h"
#include "worker/transport/transport.h"

/*
 * Collectives of a process set on several hosts: within a domain of ranks through memory that they
 * share, between the domains through another transport, of which only the leaders of each domain
 * make use. What crosses between hosts is what one rank per host would send. Not a transport
 * itself: it has no messages and does not sleep.
 */
struct hvd_hosts;

/* The shape of the shared memory; the same for all ranks of the team. 0 takes the default. */
struct hvd_hosts_shape {
    size_t stage_bytes; /* of a chunk, at each rank; a multiple of 128 */
    int n_buffers;      /* chunks that are under way at once */
};

struct hvd_hosts_options {
    struct hvd_hosts_shape shape;
    const struct hvd_team *team; /* borrowed */
    struct hvd_transport *far;   /* reaches all ranks; borrowed */
    uint32_t peers_set; /* where this rank carries: far's set of the team's peers, by job rank */
    struct hvd_transport
        *doorbell; /* of shared memory: where local peers sleep; borrowed. NULL: nowhere */
    const int *
        doorbell_ranks; /* by local rank: which rank there a local peer is; borrowed for the call */
    void *segment; /* of hvd_hosts_size bytes, shared by the local peers and zeroed before the first
                      of them; borrowed until destroy */
};

/* Bytes of the memory that a domain of so many local peers shares; 0 when the shape is not a legal
 * one for a team of `size` ranks. */
size_t hvd_hosts_size(const struct hvd_hosts_shape *shape, int n_local, int size);

/* Attaches this rank. HVD_ERR_NOMEM, HVD_ERR_INVALID for a shape that is none. */
hvd_status_t hvd_hosts_create(const struct hvd_hosts_options *options, struct hvd_hosts **out,
                              struct hvd_err *err);

/* Frees it. Nothing of it is moving; what was abandoned was given up at `far` too. */
void hvd_hosts_destroy(struct hvd_hosts *h);

/* Whether it moves an operation. Not an alltoall: every element of one goes from one rank to one
 * other, so that going through leaders would send no byte less between hosts. */
bool hvd_hosts_moves(enum hvd_op op);

/* As the ops of transport.h of the same names. */
hvd_status_t hvd_hosts_start(struct hvd_hosts *h, struct hvd_collective *c, struct hvd_err *err);
hvd_status_t hvd_hosts_test(struct hvd_hosts *h, struct hvd_collective *c, struct hvd_err *err);
void hvd_hosts_abandon(struct hvd_hosts *h, struct hvd_collective *c);
int hvd_hosts_awaits(struct hvd_hosts *h, int *ranks, int room); /* the first one that moves */
uint64_t hvd_hosts_moved(struct hvd_hosts *h);                   /* of all of them */

/* Whether a local peer has brought something on that this rank can go on with. */
bool hvd_hosts_has_news(const struct hvd_hosts *h);

#endif
