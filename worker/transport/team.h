#ifndef HVD_WORKER_TRANSPORT_TEAM_H
#define HVD_WORKER_TRANSPORT_TEAM_H

#include <stdint.h>

#include "base/status.h"

/*
 * The ranks of a process set, and the domains among them that share memory: in general one domain
 * per host. Domains are numbered in the order of their first ranks; local ranks within a domain are
 * in rank order. A leader exchanges with other domains in collectives. The leaders of every domain
 * are the first n_leaders local ranks. So each leader has a peer in every domain, with ranks in the
 * order of the domains. It serves the ranks of its domain whose local rank is its own, modulo
 * n_leaders.
 */
struct hvd_team {
    uint32_t set;
    int size;
    int rank;           /* this rank's number in the set */
    int *ranks;         /* of the job, by rank of the set; owned, as all arrays below */
    int *domain_of;     /* by rank of the set */
    int *local_rank_of; /* by rank of the set */
    int *domain_sizes;  /* by domain */
    int *local_peers;   /* ranks of the set in this rank's domain, by local rank */
    int *leader_of;     /* by rank of the set: its leader, a rank of the set in the same domain */
    int *by_domain;     /* the ranks of the set by domain, then by rank */
    int *by_leader; /* the ranks of the set by their leader's local rank, then by leader, then by
                       rank: the ranks that leaders of one local rank serve are adjacent */
    void *_served;  /* memory to sort them */
    int n_domains;
    int domain;     /* this rank's */
    int local_rank; /* this rank's */
    int n_local;
    int n_leaders;
};

/* Makes an undivided team of the given ranks of the job (sorted, my_rank among them; borrowed for
 * the call). HVD_ERR_NOMEM. */
hvd_status_t hvd_team_init(struct hvd_team *team, uint32_t set, const int *ranks, int n_ranks,
                           int my_rank, struct hvd_err *err);

/* Divides the team into domains: keys[i] is the same number for ranks of the set that share memory.
 * May be called again. */
void hvd_team_divide(struct hvd_team *team, const int *keys);

/* Writes the ranks of the job with this local rank, one per domain, sorted, to ranks, which has
 * room for n_domains. Every domain has one when local_rank < n_leaders. */
void hvd_team_peers(const struct hvd_team *team, int local_rank, int *ranks);

/* Frees what the team owns. */
void hvd_team_fini(struct hvd_team *team);

#endif
