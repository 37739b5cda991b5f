/*
 * Who shares memory with whom in a process set. Arithmetic on ranks and nothing else: every rank
 * computes the same from the same numbers.
 */
#include "worker/transport/team.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define N_ARRAYS 8

/* A rank and who carries for it. */
struct served {
    int place; /* of the carrier */
    int carrier;
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
                              .group_of = block + n,
                              .place_of = block + 2 * n,
                              .group_sizes = block + 3 * n,
                              .mates = block + 4 * n,
                              .carrier_of = block + 5 * n,
                              .by_group = block + 6 * n,
                              .by_carrier = block + 7 * n,
                              ._served = served};
    for (int i = 0; i < n_ranks; i++) {
        team->ranks[i] = ranks[i];
        if (ranks[i] == my_rank)
            team->rank = i;
    }
    return HVD_OK;
}

/* The group of the first rank with the same key; a new one when there is none before. */
static int find_group(struct hvd_team *team, const int *keys, int rank)
{
    for (int before = rank - 1; before >= 0; before--)
        if (keys[before] == keys[rank])
            return team->group_of[before];
    team->group_sizes[team->n_groups] = 0;
    return team->n_groups++;
}

/* by_group; uses by_carrier for where the groups end. */
static void order_by_group(struct hvd_team *team)
{
    int *begins = team->by_carrier;
    int begin = 0;

    for (int group = 0; group < team->n_groups; group++) {
        begins[group] = begin;
        begin += team->group_sizes[group];
    }
    for (int rank = 0; rank < team->size; rank++)
        team->by_group[begins[team->group_of[rank]] + team->place_of[rank]] = rank;
}

/*
 * The smallest group limits it. So that every carrier and its peers add up the groups in the same
 * order, which is that of their ranks, carriers end where that is not the order of the groups.
 */
static void count_carriers(struct hvd_team *team)
{
    const int *group = team->by_group;
    const int *last = NULL;

    team->n_carriers = team->group_sizes[0];
    for (int i = 0; i < team->n_groups; i++) {
        if (team->group_sizes[i] < team->n_carriers)
            team->n_carriers = team->group_sizes[i];
        for (int place = 0; last && place < team->n_carriers; place++)
            if (last[place] > group[place])
                team->n_carriers = place;
        last = group;
        group += team->group_sizes[i];
    }
}

/* carrier_of, from by_group. */
static void find_carriers(struct hvd_team *team)
{
    const int *group = team->by_group;

    for (int i = 0; i < team->n_groups; i++) {
        for (int place = 0; place < team->group_sizes[i]; place++)
            team->carrier_of[group[place]] = group[place % team->n_carriers];
        group += team->group_sizes[i];
    }
}

static int compare(const void *a, const void *b)
{
    const struct served *x = a;
    const struct served *y = b;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    if (x->carrier != y->carrier)
        return x->carrier < y->carrier ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* by_carrier, from carrier_of. */
static void order_by_carrier(struct hvd_team *team)
{
    struct served *served = team->_served;

    for (int rank = 0; rank < team->size; rank++)
        served[rank] = (struct served){.place = team->place_of[team->carrier_of[rank]],
                                       .carrier = team->carrier_of[rank],
                                       .rank = rank};
    qsort(served, (size_t)team->size, sizeof(struct served), compare);
    for (int i = 0; i < team->size; i++)
        team->by_carrier[i] = served[i].rank;
}

void hvd_team_group(struct hvd_team *team, const int *keys)
{
    team->n_groups = 0;
    for (int rank = 0; rank < team->size; rank++) {
        const int group = find_group(team, keys, rank);
        team->group_of[rank] = group;
        team->place_of[rank] = team->group_sizes[group]++;
    }
    team->group = team->group_of[team->rank];
    team->place = team->place_of[team->rank];
    team->n_mates = team->group_sizes[team->group];
    for (int rank = 0; rank < team->size; rank++)
        if (team->group_of[rank] == team->group)
            team->mates[team->place_of[rank]] = rank;
    order_by_group(team);
    count_carriers(team);
    find_carriers(team);
    order_by_carrier(team);
}

void hvd_team_peers(const struct hvd_team *team, int place, int *ranks)
{
    int n = 0;

    for (int rank = 0; rank < team->size; rank++)
        if (team->place_of[rank] == place)
            ranks[n++] = team->ranks[rank];
}

void hvd_team_fini(struct hvd_team *team)
{
    hvd_free(team->ranks);
    hvd_free(team->_served);
    *team = (struct hvd_team){0};
}
