/*
 * Divides a process set into domains that share memory. The functions compute with ranks alone, so
 * every rank gets the same result from the same numbers.
 */
#include "worker/transport/team.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define N_ARRAYS 8

/* A rank and its leader, for sorting. */
struct served {
    int local_rank; /* of the leader */
    int leader;
    int rank;
};

hvd_status_t hvd_team_init(struct hvd_team *team, uint32_t set, const int *ranks, int n_ranks,
                           int my_rank, struct hvd_err *err)
{
    const size_t n = (size_t)n_ranks;
    int *block = hvd_calloc(N_ARRAYS * n, sizeof(int));
    struct served *served = hvd_calloc(n, sizeof(*served));

    if (!block || !served) {
        hvd_free(block);
        hvd_free(served);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the ranks of process set %u",
                        set);
    }
    *team = (struct hvd_team){.set = set,
                              .size = n_ranks,
                              .ranks = block,
                              .domain_of = block + n,
                              .local_rank_of = block + 2 * n,
                              .domain_sizes = block + 3 * n,
                              .local_peers = block + 4 * n,
                              .leader_of = block + 5 * n,
                              .by_domain = block + 6 * n,
                              .by_leader = block + 7 * n,
                              ._served = served};
    for (int i = 0; i < n_ranks; i++) {
        team->ranks[i] = ranks[i];
        if (ranks[i] == my_rank)
            team->rank = i;
    }
    return HVD_OK;
}

/* The domain of the first rank with the same key; a new one where no earlier rank has that key. */
static int find_domain(struct hvd_team *team, const int *keys, int rank)
{
    for (int before = rank - 1; before >= 0; before--)
        if (keys[before] == keys[rank])
            return team->domain_of[before];
    team->domain_sizes[team->n_domains] = 0;
    return team->n_domains++;
}

/* Fills by_domain; by_leader serves as scratch for the domains' beginnings. */
static void order_by_domain(struct hvd_team *team)
{
    int *begins = team->by_leader;
    int begin = 0;

    for (int domain = 0; domain < team->n_domains; domain++) {
        begins[domain] = begin;
        begin += team->domain_sizes[domain];
    }
    for (int rank = 0; rank < team->size; rank++)
        team->by_domain[begins[team->domain_of[rank]] + team->local_rank_of[rank]] = rank;
}

/*
 * Counts the leaders of a domain, at most the size of the smallest domain. Every leader and its
 * peers must add up the domains in the same order, that of their ranks. So the leaders end where
 * the order of the ranks is not that of the domains.
 */
static void count_leaders(struct hvd_team *team)
{
    const int *domain = team->by_domain;
    const int *last = NULL;

    team->n_leaders = team->domain_sizes[0];
    for (int i = 0; i < team->n_domains; i++) {
        if (team->domain_sizes[i] < team->n_leaders)
            team->n_leaders = team->domain_sizes[i];
        for (int local_rank = 0; last && local_rank < team->n_leaders; local_rank++)
            if (last[local_rank] > domain[local_rank])
                team->n_leaders = local_rank;
        last = domain;
        domain += team->domain_sizes[i];
    }
}

/* Fills leader_of, from by_domain. */
static void find_leaders(struct hvd_team *team)
{
    const int *domain = team->by_domain;

    for (int i = 0; i < team->n_domains; i++) {
        for (int local_rank = 0; local_rank < team->domain_sizes[i]; local_rank++)
            team->leader_of[domain[local_rank]] = domain[local_rank % team->n_leaders];
        domain += team->domain_sizes[i];
    }
}

static int compare(const void *a, const void *b)
{
    const struct served *x = a;
    const struct served *y = b;

    if (x->local_rank != y->local_rank)
        return x->local_rank < y->local_rank ? -1 : 1;
    if (x->leader != y->leader)
        return x->leader < y->leader ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Fills by_leader, from leader_of. */
static void order_by_leader(struct hvd_team *team)
{
    struct served *served = team->_served;

    for (int rank = 0; rank < team->size; rank++)
        served[rank] = (struct served){.local_rank = team->local_rank_of[team->leader_of[rank]],
                                       .leader = team->leader_of[rank],
                                       .rank = rank};
    qsort(served, (size_t)team->size, sizeof(struct served), compare);
    for (int i = 0; i < team->size; i++)
        team->by_leader[i] = served[i].rank;
}

void hvd_team_divide(struct hvd_team *team, const int *keys)
{
    team->n_domains = 0;
    for (int rank = 0; rank < team->size; rank++) {
        const int domain = find_domain(team, keys, rank);
        team->domain_of[rank] = domain;
        team->local_rank_of[rank] = team->domain_sizes[domain]++;
    }
    team->domain = team->domain_of[team->rank];
    team->local_rank = team->local_rank_of[team->rank];
    team->n_local = team->domain_sizes[team->domain];
    for (int rank = 0; rank < team->size; rank++)
        if (team->domain_of[rank] == team->domain)
            team->local_peers[team->local_rank_of[rank]] = rank;
    order_by_domain(team);
    count_leaders(team);
    find_leaders(team);
    order_by_leader(team);
}

void hvd_team_peers(const struct hvd_team *team, int local_rank, int *ranks)
{
    int n = 0;

    for (int rank = 0; rank < team->size; rank++)
        if (team->local_rank_of[rank] == local_rank)
            ranks[n++] = team->ranks[rank];
}

void hvd_team_fini(struct hvd_team *team)
{
    hvd_free(team->ranks);
    hvd_free(team->_served);
    *team = (struct hvd_team){0};
}
