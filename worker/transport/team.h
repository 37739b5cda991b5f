#ifndef HVD_WORKER_TRANSPORT_TEAM_H
#define HVD_WORKER_TRANSPORT_TEAM_H

#include <stdint.h>

#include "base/status.h"

/*
 * The ranks of a process set, and the domains among them that share memory: in general one domain
 * per host. Domains are numbered in the order of their first ranks; local ranks within a domain are
 * in rank order. A leader is a rank that speaks to other domains in collectives: of every domain,
 * those with the first n_leaders local ranks, so that each has a peer in every domain, with ranks
 * in the order of the domains; it serves those whose local rank is its own, modulo n_leaders.
 */
struct hvd_team {
    uint32_t set;
    int size;
    int rank;           /* this one's within the set */
    int *ranks;         /* of the job, by rank of the set; owned, as all that follow */
    int *domain_of;     /* by rank of the set */
    int *local_rank_of; /* by rank of the set */
    int *domain_sizes;  /* by domain */
    int *local_peers;   /* ranks of the set in this rank's domain, by local rank */
    int *leader_of;     /* by rank of the set: the rank of the set that serves it, in its domain */
    int *by_domain;     /* the ranks of the set in the order of their domains, then their own */
    int *by_leader; /* the same in the order of the local ranks of those that serve them, then of
                        those ranks, then their own: peers have theirs one behind the other */
    void *_served;  /* room to sort them */
    int n_domains;
    int domain;     /* this rank's */
    int local_rank; /* this rank's */
    int n_local;
    int n_leaders;
};

/* A team of the given ranks of the job (sorted, my_rank among them; borrowed for the call), not
 * divided yet. HVD_ERR_NOMEM. */
hvd_status_t hvd_team_init(struct hvd_team *team, uint32_t set, const int *ranks, int n_ranks,
                           int my_rank, struct hvd_err *err);

/* Divides it into domains: keys[i] is the same number for ranks of the set that share memory. May
 * be called again. */
void hvd_team_divide(struct hvd_team *team, const int *keys);

/* The ranks of the job with this local rank, one in each domain, sorted, into ranks, which has room
 * for n_domains. There is one in each when local_rank < n_leaders. */
void hvd_team_peers(const struct hvd_team *team, int local_rank, int *ranks);

/* Frees what the team owns. */
void hvd_team_fini(struct hvd_team *team);

#endif
