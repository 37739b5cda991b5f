/*
 * Groups: tensors that ranks submitted together. The names of the tensors determine the group's
 * number, so ranks that group alike use the same one. Pure.
 *
 * Ranks may group differently. Groups that share a tensor form one cluster. It is planned when all
 * its tensors are complete and none of its groups still lacks a tensor.
 */
#include "base/mem.h"
#include "worker/core/negotiator_internal.h"

uint64_t hvd_group_add(uint64_t sum, struct hvd_strview name)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, mixed so that sums of hashes differ */

    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 0x100000001b3u;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    return sum + (hash ^ (hash >> 31));
}

uint32_t hvd_group_number(uint64_t sum, uint32_t n)
{
    const uint64_t mixed = (sum ^ n) * 0x9e3779b97f4a7c15u;
    const uint32_t number = (uint32_t)(mixed >> 32);

    return number ? number : 1;
}

static struct hvd_open_group *find_open(const struct hvd_negotiator *n,
                                        const struct hvd_request *req)
{
    for (struct hvd_open_group *g = n->open_groups; g; g = g->next)
        if (g->group == req->group && g->group_size == req->group_size)
            return g;
    return NULL;
}

static bool is_member(const struct hvd_waiting *w, const struct hvd_request *req)
{
    for (const struct hvd_membership *m = w->membership; m; m = m->next)
        if (m->group == req->group && m->group_size == req->group_size)
            return true;
    return false;
}

static bool add_membership(struct hvd_waiting *w, const struct hvd_request *req)
{
    struct hvd_membership *m = hvd_malloc(1, sizeof(*m));

    if (!m)
        return false;
    *m = (struct hvd_membership){
        .next = w->membership, .group = req->group, .group_size = req->group_size};
    w->membership = m;
    return true;
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

/* Returns the cluster of a tensor, and creates one if it has none; NULL when out of memory. */
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

/* Moves all tensors and open groups of `from` into `into`, and frees `from`. */
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

/* Opens a group at its first tensor; NULL when out of memory. */
static struct hvd_open_group *open_group(struct hvd_negotiator *n, struct hvd_cluster *cluster,
                                         const struct hvd_request *req)
{
    struct hvd_open_group *g = hvd_calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    *g = (struct hvd_open_group){.next = n->open_groups,
                                 .cluster = cluster,
                                 .group = req->group,
                                 .group_size = req->group_size,
                                 .n_left = req->group_size};
    n->open_groups = g;
    cluster->n_open++;
    return g;
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

hvd_status_t hvd_group_enter(struct hvd_negotiator *n, struct hvd_waiting *w,
                             const struct hvd_request *req, struct hvd_err *err)
{
    if (req->group == 0 || is_member(w, req))
        return HVD_OK;
    struct hvd_cluster *cluster = cluster_of(w);
    struct hvd_open_group *g = cluster ? find_open(n, req) : NULL;
    if (cluster && !g)
        g = open_group(n, cluster, req);
    if (!g || !add_membership(w, req))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a group of tensor %s", w->name);
    merge(n, g->cluster, cluster);
    count_member(n, g);
    return HVD_OK;
}

void hvd_group_leave(struct hvd_waiting *w)
{
    struct hvd_cluster *cluster = w->cluster;

    while (w->membership) {
        struct hvd_membership *next = w->membership->next;
        hvd_free(w->membership);
        w->membership = next;
    }
    if (!cluster)
        return;
    w->cluster = NULL;
    if (--cluster->n_members == 0)
        hvd_free(cluster);
}

struct hvd_cluster *hvd_group_cut(struct hvd_cluster *cluster)
{
    struct hvd_waiting *w = cluster ? cluster->first : NULL;

    if (!cluster)
        return NULL;
    cluster->first = NULL;
    cluster->last = NULL;
    cluster->n_members = 0;
    cluster->n_complete = 0;
    while (w) {
        struct hvd_waiting *next = w->next;
        w->cluster = NULL;
        w->next = NULL;
        if (!w->is_dropped) {
            append(cluster, w);
            cluster->n_complete += w->is_complete;
        }
        w = next;
    }
    if (cluster->n_members > 0)
        return cluster;
    hvd_free(cluster);
    return NULL;
}

void hvd_group_fini(struct hvd_negotiator *n)
{
    while (n->open_groups) {
        struct hvd_open_group *next = n->open_groups->next;
        hvd_free(n->open_groups);
        n->open_groups = next;
    }
}
