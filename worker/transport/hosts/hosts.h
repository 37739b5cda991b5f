#ifndef HVD_WORKER_TRANSPORT_HOSTS_HOSTS_H
#define HVD_WORKER_TRANSPORT_HOSTS_HOSTS_H

#include "worker/transport/team.h"
#include "worker/transport/transport.h"

/*
 * Collectives of a process set on several hosts. Ranks of a domain use memory that they share; the
 * leaders of the domains use another transport between them. Hosts exchange as many bytes as one
 * rank per host would. It is no transport itself: it has no messages and does not sleep.
 */
struct hvd_hosts;

/* The shape of the shared memory; the same for all ranks of the team. 0 takes the default. */
struct hvd_hosts_shape {
    size_t stage_bytes; /* of a chunk, at each rank; a multiple of 128 */
    int n_buffers;      /* chunks under way at once */
};

struct hvd_hosts_options {
    struct hvd_hosts_shape shape;
    const struct hvd_team *team;    /* borrowed */
    struct hvd_transport *far;      /* reaches all ranks; borrowed */
    uint32_t peers_set;             /* on a leader: far's set of the team's peers, by job rank */
    struct hvd_transport *doorbell; /* of shared memory: where local peers sleep; borrowed. NULL:
                                       they do not sleep */
    const int *doorbell_ranks; /* by local rank: the local peer's rank in `doorbell`; borrowed for
                                  the call */
    void *segment; /* of hvd_hosts_size bytes, shared by the local peers, zeroed before the first of
                      them attaches; borrowed until destroy */
};

/* The bytes of shared memory that a domain of n_local local peers needs; 0 when the shape is not
 * legal for a team of `size` ranks. */
size_t hvd_hosts_size(const struct hvd_hosts_shape *shape, int n_local, int size);

/* Attaches this rank. HVD_ERR_NOMEM; HVD_ERR_INVALID for an illegal shape. */
hvd_status_t hvd_hosts_create(const struct hvd_hosts_options *options, struct hvd_hosts **out,
                              struct hvd_err *err);

/* Frees it. No collective may be moving, and the caller has abandoned the same collectives at
 * `far`. */
void hvd_hosts_destroy(struct hvd_hosts *h);

/* Whether it moves an operation. It does not move an alltoall, whose elements each go from one rank
 * to one other: leaders would save no byte between hosts. */
bool hvd_hosts_moves(enum hvd_op op);

/* As the ops of the same names in transport.h. */
hvd_status_t hvd_hosts_start(struct hvd_hosts *h, struct hvd_collective *c, struct hvd_err *err);
hvd_status_t hvd_hosts_test(struct hvd_hosts *h, struct hvd_collective *c, struct hvd_err *err);
void hvd_hosts_abandon(struct hvd_hosts *h, struct hvd_collective *c);
int hvd_hosts_awaits(struct hvd_hosts *h, int *ranks, int room); /* of the first that moves */
uint64_t hvd_hosts_moved(struct hvd_hosts *h);                   /* of all collectives together */

/* Whether a local peer has made progress that lets this rank go on. */
bool hvd_hosts_has_news(const struct hvd_hosts *h);

#endif
