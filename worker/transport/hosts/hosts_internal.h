#ifndef HVD_WORKER_TRANSPORT_HOSTS_HOSTS_INTERNAL_H
#define HVD_WORKER_TRANSPORT_HOSTS_HOSTS_INTERNAL_H

#include <stdatomic.h>

#include "worker/transport/hosts/hosts.h"
#include "worker/transport/payload.h"
#include "worker/transport/shm/shm_internal.h"

/*
 * The segment: the flags of each local peer, then n_buffers buffers with a stage of each local
 * peer.
 *
 * Collectives are cut into chunks, numbered from 0 through the life of the segment; all ranks cut
 * the same way. A chunk uses buffer number % n_buffers and passes four steps at every rank. Each
 * step takes the chunks in the order of their numbers; different chunks may be in different steps:
 *
 *     stage     write into the buffer, once all local peers have fetched its previous chunk; flag
 *     exchange  leaders: send the data that local peers staged to the other domains; asynchronous
 *     arrive    leaders: the data of the other domains is in their stages; flag
 *     fetch     copy from the stages of the leaders to the output; flag
 *
 * A flag counts chunks. Every flag has one writer. No step waits for a later step of an earlier
 * chunk, except for fetch, which frees buffers: so no rank waits for itself.
 */
struct hvd_hosts_flags {
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t staged;
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t arrived;
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t fetched;
};

/* --- hosts.c ---------------------------------------------------------------------------------- */

#define HVD_HOSTS_ALL (-1) /* every local peer, or every leader */

struct hvd_hosts_chunk;

/* The functions of an operation, one for each step. */
struct hvd_hosts_steps {
    void (*stage)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
    /* Prepares chunk->far of a leader; whether there is data to exchange. */
    bool (*exchange)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
    /* Called when the exchange is complete. May be NULL. */
    void (*arrive)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
    void (*fetch)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
};

/* A collective under way. Finished ones are reused. */
struct hvd_hosts_move {
    struct hvd_hosts_move *prev;
    struct hvd_hosts_move *next; /* in start order; or in the spare list */
    struct hvd_collective *c;
    const struct hvd_hosts_steps *steps;
    struct hvd_payload in;  /* for reductions */
    struct hvd_payload out; /* for an allreduce */
    size_t width;
    const char *input;
    int64_t staged; /* elements staged, or of each part */
    int64_t stride; /* elements per chunk, or of each part per chunk */
    int64_t total;  /* elements, or of the longest part */
    bool streams;   /* outputs are written past the caches */
    bool leads;     /* this rank is a leader */
    bool is_done;
    int awaits_stage;   /* the leader waits for the stage of this local rank, or HVD_HOSTS_ALL */
    int awaits_arrival; /* fetch waits for the result of this local rank, or HVD_HOSTS_ALL */
    bool fetches_stage; /* fetch waits for awaits_stage: the data comes from this domain */
};

/* A part of a collective under way. */
struct hvd_hosts_chunk {
    struct hvd_hosts_move *mv;
    uint64_t number;
    int64_t at;    /* its first element, or that of each part */
    int64_t count; /* elements, or the most of each part */
    bool is_exchanged;
    struct hvd_collective far;
    int64_t *counts; /* by peer, for far; owned by struct hvd_hosts */
};

struct hvd_hosts {
    const struct hvd_team *team;
    struct hvd_hosts_shape shape;
    struct hvd_transport *far;
    uint32_t peers_set;
    struct hvd_transport *doorbell;
    int *doorbell_ranks; /* by local rank; owned */
    struct hvd_hosts_flags *flags;
    char *stages;
    int64_t *befores; /* by rank of the team: see hvd_hosts_befores; owned */

    struct hvd_hosts_chunk *chunks; /* n_buffers; owned */
    int64_t *counts;                /* of all chunks; owned */
    uint64_t n_staged;
    uint64_t n_exchanged;
    uint64_t n_arrived;
    uint64_t n_fetched;
    struct hvd_hosts_move *first; /* in start order; none of them is finished */
    struct hvd_hosts_move *next;  /* the first of those that is not staged to its end */
    struct hvd_hosts_move *spare;
    bool is_broken;         /* a collective was abandoned, or failed */
    struct hvd_err failure; /* the reason */
    char *scratch;          /* HVD_SHM_SCRATCH bytes; owned */
    const char **sources;   /* by local rank; owned */
};

/* The stage of a local peer for a chunk. */
static inline char *hvd_hosts_stage(const struct hvd_hosts *h, int local_rank, uint64_t number)
{
    const size_t buffer = (size_t)(number % (uint64_t)h->shape.n_buffers);

    return h->stages +
           (buffer * (size_t)h->team->n_local + (size_t)local_rank) * h->shape.stage_bytes;
}

/* Prepare the move of a collective: mv->c and mv->width are set. In reduce.c and copy.c. */
void hvd_hosts_prepare_allreduce(struct hvd_hosts *h, struct hvd_hosts_move *mv);
void hvd_hosts_prepare_reducescatter(struct hvd_hosts *h, struct hvd_hosts_move *mv);
void hvd_hosts_prepare_broadcast(struct hvd_hosts *h, struct hvd_hosts_move *mv);
void hvd_hosts_prepare_allgather(struct hvd_hosts *h, struct hvd_hosts_move *mv);

/* For each rank of the team, the number of elements in the parts before its own. Valid until the
 * next call. */
const int64_t *hvd_hosts_befores(struct hvd_hosts *h, const struct hvd_hosts_move *mv);

/* The number of elements of a rank's part that belong to a chunk; the part has `count`. */
static inline int64_t hvd_hosts_window(const struct hvd_hosts_chunk *chunk, int64_t count)
{
    const int64_t left = count - chunk->at;

    return left < 0 ? 0 : left < chunk->count ? left : chunk->count;
}

#endif
