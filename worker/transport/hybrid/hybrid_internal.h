#ifndef HVD_WORKER_TRANSPORT_HYBRID_HYBRID_INTERNAL_H
#define HVD_WORKER_TRANSPORT_HYBRID_HYBRID_INTERNAL_H

#include "worker/transport/hybrid/hybrid.h"

/* A process set and what moves its collectives. */
struct hvd_hybrid_set {
    struct hvd_hybrid_set *next;
    struct hvd_team team;
    void *segment; /* shared by the local peers; owned */
    size_t segment_bytes;
    struct hvd_transport *near; /* of the local peers; NULL: none is needed, or there is one rank */
    struct hvd_hosts *hosts;    /* NULL: one domain, or no domain of more than one rank */
    bool has_peers;             /* far has a set of this rank's peers */
};

struct hvd_hybrid {
    struct hvd_transport base; /* first */
    struct hvd_transport *far;
    struct hvd_hybrid_options options; /* but for the log */
    struct hvd_hybrid_set world;       /* set 0 */
    struct hvd_hybrid_set *sets;       /* the others; owned */
    bool has_processes;                /* local peers are processes, not threads */
    int n_far;                         /* collectives that move where nobody wakes */
    bool is_far_next;                  /* where receive looks first */
    int lost;                          /* a local peer of set 0, as rank of the job; -1: none */
};

/* far's set of the ranks of a process set that have the same local rank. */
static inline uint32_t hvd_hybrid_peers_set(uint32_t set, int local_rank)
{
    return UINT32_C(1) << 31 | set << 10 | ((uint32_t)local_rank & 1023);
}

/*
 * share.c. What all ranks of a process set of `far` tell: `len` bytes of each, by rank of
 * the set, in all. Waits for them. HVD_ERR_NOMEM, or what far returned.
 */
hvd_status_t hvd_hybrid_allgather(struct hvd_transport *far, const struct hvd_team *team,
                                  const void *mine, size_t len, void *all, struct hvd_err *err);

/*
 * share.c. Divides the ranks of a set into domains and gives every domain its memory:
 * set->team is divided by the keys as far as all ranks of a domain do get it, set->segment is there
 * for every rank when any two share memory, set->near where it is needed. Collective. Why a domain
 * that was tried did not come about goes to `why`; a failure is one of far, or HVD_ERR_NOMEM, and
 * leaves what hvd_hybrid_unshare frees.
 */
hvd_status_t hvd_hybrid_share(struct hvd_hybrid *h, struct hvd_hybrid_set *set, const int *keys,
                              struct hvd_err *why, struct hvd_err *err);

/* share.c. Frees near and the memory; clean as for a transport's destroy. */
void hvd_hybrid_unshare(struct hvd_hybrid_set *set, bool clean);

/* share.c. Where the hosts' part of the memory begins. */
void *hvd_hybrid_hosts_area(const struct hvd_hybrid *h, const struct hvd_hybrid_set *set);

/*
 * domains.c. Which ranks of the job may share memory, as keys for a team, by rank: the
 * others do not try. Collective. HVD_ERR_NOMEM, or what far returned on failure.
 */
hvd_status_t hvd_hybrid_domains_find(struct hvd_hybrid *h, int *keys, struct hvd_err *err);

#endif
