/*
 * Groups: tensors that one rank submitted together. Ranks may group differently, so the groups that
 * share a tensor make one cluster, which is planned when all its tensors are complete and none of
 * its groups is still coming in. Pure.
 */
#include "base/mem.h"
#include "worker/core/negotiate_internal.h"

static struct hvd_open_group *find_open(const struct hvd_negotiator *n, int rank, uint32_t group)
{
    for (struct hvd_open_group *g = n->open_groups; g; g = g->next)
        if (g->rank == rank && g->group == group)
            return g;
    return NULL;
}

static void append(struct hvd_cluster *cluster, struct hvd_waiting *w)
{
    w->cluster = cluster;
    w->next = NULL;
    if (cluster->last)
        cluster->last->next = w;
    else
        cluster->first = w;
    cluster->last = w;
    cluster->n_members++;
}

/* The cluster of a tensor, made for it alone when it has none; NULL when out of memory. */
static struct hvd_cluster *cluster_of(struct hvd_waiting *w)
{
    if (w->cluster)
        return w->cluster;
    struct hvd_cluster *cluster = hvd_calloc(1, sizeof(*cluster));
    if (!cluster)
        return NULL;
    append(cluster, w);
    cluster->n_complete = w->is_complete;
    return cluster;
}

/* Moves everything of `from` into `into`. */
static void merge(struct hvd_negotiator *n, struct hvd_cluster *into, struct hvd_cluster *from)
{
    if (into == from)
        return;
    for (struct hvd_open_group *g = n->open_groups; g; g = g->next)
        if (g->cluster == from)
            g->cluster = into;
    for (struct hvd_waiting *w = from->first; w;) {
        struct hvd_waiting *next = w->next;
        append(into, w);
        w = next;
    }
    into->n_complete += from->n_complete;
    into->n_open += from->n_open;
    hvd_free(from);
}

/* The first tensor of a group of a rank. */
static hvd_status_t open_group(struct hvd_negotiator *n, struct hvd_cluster *cluster, int rank,
                               const struct hvd_request *req)
{
    struct hvd_open_group *g = hvd_calloc(1, sizeof(*g));

    if (!g)
        return HVD_ERR_NOMEM;
    *g = (struct hvd_open_group){.next = n->open_groups,
                                 .cluster = cluster,
                                 .rank = rank,
                                 .group = req->group,
                                 .n_left = req->group_size};
    n->open_groups = g;
    cluster->n_open++;
    return HVD_OK;
}

static void count_member(struct hvd_negotiator *n, struct hvd_open_group *g)
{
    if (--g->n_left > 0)
        return;
    g->cluster->n_open--;
    struct hvd_open_group **at = &n->open_groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    hvd_free(g);
}

hvd_status_t hvd_group_enter(struct hvd_negotiator *n, struct hvd_waiting *w, int rank,
                             const struct hvd_request *req, struct hvd_err *err)
{
    struct hvd_cluster *cluster;

    if (req->group == 0)
        return HVD_OK;
    cluster = cluster_of(w);
    if (!cluster ||
        (!find_open(n, rank, req->group) && open_group(n, cluster, rank, req) != HVD_OK))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a group of rank %d", rank);
    struct hvd_open_group *g = find_open(n, rank, req->group);
    merge(n, g->cluster, cluster);
    count_member(n, g);
    return HVD_OK;
}

void hvd_group_leave(struct hvd_waiting *w)
{
    struct hvd_cluster *cluster = w->cluster;

    if (!cluster)
        return;
    w->cluster = NULL;
    if (--cluster->n_members == 0)
        hvd_free(cluster);
}

void hvd_group_fini(struct hvd_negotiator *n)
{
    while (n->open_groups) {
        struct hvd_open_group *next = n->open_groups->next;
        hvd_free(n->open_groups);
        n->open_groups = next;
    }
}
