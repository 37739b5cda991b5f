#ifndef HVD_WORKER_TRANSPORT_TEAM_H
#define HVD_WORKER_TRANSPORT_TEAM_H

#include <stdint.h>

#include "base/status.h"

/*
 * The ranks of a process set, and the groups among them that share memory: in general one group per
 * host. Groups are numbered in the order of their first ranks; places within a group are in rank
 * order. A carrier is a rank that speaks to other groups in collectives: of every group, those with
 * the first n_carriers places, so that each has a peer in every group, with ranks in the order of
 * the groups; it carries for those whose place is its own, modulo n_carriers.
 */
struct hvd_team {
    uint32_t set;
    int size;
    int rank;         /* this one's within the set */
    int *ranks;       /* of the job, by rank of the set; owned, as all that follow */
    int *group_of;    /* by rank of the set */
    int *place_of;    /* by rank of the set */
    int *group_sizes; /* by group */
    int *mates;       /* ranks of the set in this rank's group, by place */
    int *carrier_of; /* by rank of the set: the rank of the set that carries for it, in its group */
    int *by_group;   /* the ranks of the set in the order of their groups, then their own */
    int *by_carrier; /* the same in the order of the places of those that carry for them, then of
                        those ranks, then their own: peers have theirs one behind the other */
    void *_served;   /* room to sort them */
    int n_groups;
    int group; /* this rank's */
    int place; /* this rank's */
    int n_mates;
    int n_carriers;
};

/* A team of the given ranks of the job (sorted, my_rank among them; borrowed for the call), not
 * divided yet. HVD_ERR_NOMEM. */
hvd_status_t hvd_team_init(struct hvd_team *team, uint32_t set, const int *ranks, int n_ranks,
                           int my_rank, struct hvd_err *err);

/* Divides it into groups: keys[i] is the same number for ranks of the set that share memory. May be
 * called again. */
void hvd_team_group(struct hvd_team *team, const int *keys);

/* The ranks of the job with this place, one in each group, sorted, into ranks, which has room for
 * n_groups. There is one in each when place < n_carriers. */
void hvd_team_peers(const struct hvd_team *team, int place, int *ranks);

/* Frees what the team owns. */
void hvd_team_fini(struct hvd_team *team);

#endif
