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
 * the same way. A chunk uses buffer number % n_buffers and goes through four steps at every rank,
 * each step in the order of the numbers, the steps of different chunks side by side:
 *
 *     stage     write into the buffer, once all local peers have fetched what was in it; flag
 *     exchange  leaders: what the local peers have staged goes to the other domains; asynchronous
 *     arrive    leaders: what came from the other domains lies in their stages; flag
 *     fetch     from the stages of the leaders into the output; flag
 *
 * A flag counts chunks. Every flag has one writer, and no step waits for a later one of an earlier
 * chunk other than fetch, which frees buffers: so no rank waits for itself.
 */
struct hvd_hosts_flags {
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t staged;
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t arrived;
    _Alignas(HVD_SHM_LINE) _Atomic uint64_t fetched;
};

/* --- hosts.c ---------------------------------------------------------------------------------- */

#define HVD_HOSTS_ALL (-1) /* every local peer, or every leader */

struct hvd_hosts_chunk;

/* How an operation goes through the steps. */
struct hvd_hosts_steps {
    void (*stage)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
    /* Prepares chunk->far of a leader; whether there is anything to be exchanged. */
    bool (*exchange)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
    /* What was exchanged is there. May be NULL. */
    void (*arrive)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
    void (*fetch)(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk);
};

/* A collective that was started; kept for the next one when it is finished. */
struct hvd_hosts_move {
    struct hvd_hosts_move *prev;
    struct hvd_hosts_move *next; /* in start order; or among the spare */
    struct hvd_collective *c;
    const struct hvd_hosts_steps *steps;
    struct hvd_payload in;  /* reductions */
    struct hvd_payload out; /* allreduce */
    size_t width;
    const char *input;
    int64_t staged; /* elements staged, or of each part */
    int64_t stride; /* elements in a chunk, or of each part in a chunk */
    int64_t total;  /* elements, or of the longest part */
    bool streams;   /* outputs are written past the caches */
    bool leads;     /* this rank does */
    bool is_done;
    int awaits_stage;   /* what the leader waits for: the stage of this local rank, or HVD_HOSTS_ALL
                         */
    int awaits_arrival; /* what is fetched: the result of this local rank, or HVD_HOSTS_ALL */
    bool fetches_stage; /* fetch waits as the leader does: the data comes from this domain */
};

/* A part of a collective under way. */
struct hvd_hosts_chunk {
    struct hvd_hosts_move *mv;
    uint64_t number;
    int64_t at;    /* its first element, or of each part */
    int64_t count; /* elements, or at most so many of each part */
    bool is_exchanged;
    struct hvd_collective far;
    int64_t *counts; /* by peer, for far; the hosts' */
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
    struct hvd_hosts_move *first; /* not finished */
    struct hvd_hosts_move *next;  /* of those, the first that is not staged to its end */
    struct hvd_hosts_move *spare;
    bool is_broken;         /* a collective was given up, or failed */
    struct hvd_err failure; /* why */
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

/* Fill in how a collective is moved: mv->c and mv->width are set. reduce.c, copy.c. */
void hvd_hosts_prepare_allreduce(struct hvd_hosts *h, struct hvd_hosts_move *mv);
void hvd_hosts_prepare_reducescatter(struct hvd_hosts *h, struct hvd_hosts_move *mv);
void hvd_hosts_prepare_broadcast(struct hvd_hosts *h, struct hvd_hosts_move *mv);
void hvd_hosts_prepare_allgather(struct hvd_hosts *h, struct hvd_hosts_move *mv);

/* For each rank of the team, how many elements the parts before its own have. Until the next call.
 */
const int64_t *hvd_hosts_befores(struct hvd_hosts *h, const struct hvd_hosts_move *mv);

/* Elements of a rank's part that belong to a chunk, when the part has `count` of them. */
static inline int64_t hvd_hosts_window(const struct hvd_hosts_chunk *chunk, int64_t count)
{
    const int64_t left = count - chunk->at;

    return left < 0 ? 0 : left < chunk->count ? left : chunk->count;
}

#endif
