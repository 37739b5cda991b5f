/*
 * Positions and subtrees; see tree.h. Pure. A node is found by walking down from the root through
 * the stretches of its ancestors, so nobody needs more of the tree than the order of the ranks.
 */
#include "worker/core/tree.h"

#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"

#define RATIO 15   /* messages of 0.2 us that a rank can send while one travels for 3 us */
#define STAR_MAX 8 /* so few ranks speak to the coordinator directly, whatever their hosts */
#define TIMES_MAX 512

struct placed {
    int host;
    int leader; /* the first rank of the host */
    int rank;
};

static int by_host(const void *a, const void *b)
{
    const struct placed *x = a;
    const struct placed *y = b;

    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_leader(const void *a, const void *b)
{
    const struct placed *x = a;
    const struct placed *y = b;

    if (x->leader != y->leader)
        return x->leader < y->leader ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Hosts in the order of their first ranks, ranks of a host in order. */
static void sort(struct placed *placed, int n)
{
    qsort(placed, (size_t)n, sizeof(*placed), by_host);
    for (int i = 0; i < n; i++)
        placed[i].leader =
            i > 0 && placed[i].host == placed[i - 1].host ? placed[i - 1].leader : placed[i].rank;
    qsort(placed, (size_t)n, sizeof(*placed), by_leader);
}

static void fill(struct hvd_tree *t, const struct placed *placed)
{
    for (int i = 0; i < t->size; i++) {
        t->rank_at[i] = placed[i].rank;
        t->position_of[placed[i].rank] = i;
        if (placed[i].leader == placed[i].rank)
            t->host_first[t->n_hosts++] = i;
    }
    t->host_first[t->n_hosts] = t->size;
}

hvd_status_t hvd_tree_init(struct hvd_tree *t, const struct hvd_tree_options *options,
                           struct hvd_err *err)
{
    const size_t n = (size_t)options->size;
    const bool is_star = options->fanout == 0 && options->size <= STAR_MAX;
    struct placed *placed = hvd_calloc(n, sizeof(*placed));

    *t = (struct hvd_tree){.size = options->size,
                           .fanout = options->fanout,
                           .rank_at = hvd_calloc(n, sizeof(int)),
                           .position_of = hvd_calloc(n, sizeof(int)),
                           .host_first = hvd_calloc(n + 1, sizeof(int))};
    if (!placed || !t->rank_at || !t->position_of || !t->host_first) {
        hvd_free(placed);
        hvd_tree_fini(t);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the tree of a process set");
    }
    for (int rank = 0; rank < options->size; rank++) {
        placed[rank].rank = rank;
        placed[rank].host = options->hosts && !is_star ? options->hosts[rank] : 0;
    }
    sort(placed, options->size);
    fill(t, placed);
    hvd_free(placed);
    return HVD_OK;
}

void hvd_tree_fini(struct hvd_tree *t)
{
    hvd_free(t->rank_at);
    hvd_free(t->position_of);
    hvd_free(t->host_first);
    *t = (struct hvd_tree){0};
}

/* --- How a root divides what hangs under it --------------------------------------------------- */

/* Divides n members (ranks of a host, or hosts) of which the first is the root. */
struct division {
    int n;
    int fanout;
    int room[TIMES_MAX]; /* fanout 0: how many members can know after so many sendings */
    int time;            /* fanout 0: how many it takes here */
};

/* Who knows at a time knew one sending before, or hears of it from somebody who knew RATIO before.
 */
static void begin_division(struct division *d, int n, int fanout)
{
    *d = (struct division){.n = n, .fanout = fanout};
    for (int time = 0; fanout == 0 && time < TIMES_MAX; time++) {
        const int64_t more = time < RATIO ? 0 : d->room[time - RATIO];
        const int64_t room = time == 0 ? 1 : d->room[time - 1] + more;
        d->room[time] = room < INT_MAX ? (int)room : INT_MAX;
    }
}

/* A subtree of n members is divided next. */
static void enter_division(struct division *d, int n)
{
    d->n = n;
    d->time = 0;
    while (d->fanout == 0 && d->room[d->time] < n)
        d->time++;
}

/* Members of the i-th child's subtree when `left` members are not given out yet; 0: none is. */
static int share(const struct division *d, int i, int left)
{
    if (d->fanout > 0) {
        const int n = d->n - 1;
        const int parts = n < d->fanout ? n : d->fanout;
        return i < parts ? n / parts + (i < n % parts) : 0;
    }
    const int time = d->time - RATIO - i;
    const int room = time >= 0 ? d->room[time] : 0;
    return room < left ? room : left;
}

/* The children of the root of `n` members, as stretches of members relative to the root; into out
 * when it is not NULL. Returns how many there are. */
static int divide(struct division *d, int n, struct hvd_span *out)
{
    int n_children = 0;
    int first = 1;

    enter_division(d, n);
    while (first < n) {
        const int part = share(d, n_children, n - first);
        if (out)
            out[n_children] = (struct hvd_span){.first = first, .n = part};
        first += part;
        n_children++;
    }
    return n_children;
}

/* --- A node ----------------------------------------------------------------------------------- */

/* Walks down to a member: *subtree becomes its stretch. Returns its parent, -1: it is the root. */
static int descend(struct division *d, int member, struct hvd_span *subtree)
{
    int parent = -1;

    while (subtree->first != member) {
        int first = subtree->first + 1;
        enter_division(d, subtree->n);
        for (int i = 0;; i++) {
            const int part = share(d, i, subtree->first + subtree->n - first);
            if (member < first + part) {
                parent = subtree->first;
                *subtree = (struct hvd_span){.first = first, .n = part};
                break;
            }
            first += part;
        }
    }
    return parent;
}

/* The host that a position is on. */
static int host_of(const struct hvd_tree *t, int position)
{
    int low = 0;
    int high = t->n_hosts;

    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (t->host_first[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Where a node is among the ranks of its host, and its host among the hosts. */
struct place {
    int host;
    int start;            /* the first position on the host */
    struct hvd_span near; /* the node's subtree on the host, from 0 */
    struct hvd_span far;  /* first ranks alone: the hosts below */
};

static hvd_status_t add_children(struct hvd_node *node, const struct hvd_tree *t,
                                 const struct place *at, struct division *d)
{
    const bool is_first = at->near.first == 0;

    node->n_near = divide(d, at->near.n, NULL);
    node->n_children = node->n_near + (is_first ? divide(d, at->far.n, NULL) : 0);
    if (node->n_children == 0)
        return HVD_OK;
    node->children = hvd_calloc((size_t)node->n_children, sizeof(*node->children));
    if (!node->children)
        return HVD_ERR_NOMEM;
    divide(d, at->near.n, node->children);
    for (int i = 0; i < node->n_near; i++)
        node->children[i].first += node->span.first;
    if (is_first)
        divide(d, at->far.n, node->children + node->n_near);
    for (int i = node->n_near; i < node->n_children; i++) {
        struct hvd_span *child = &node->children[i]; /* hosts become positions */
        const int host = at->host + child->first;
        child->first = t->host_first[host];
        child->n = t->host_first[host + child->n] - child->first;
    }
    return HVD_OK;
}

hvd_status_t hvd_node_init(struct hvd_node *node, const struct hvd_tree *t, int position,
                           struct hvd_err *err)
{
    struct place at = {.host = host_of(t, position), .far = {.first = 0, .n = t->n_hosts}};
    struct division *d = hvd_malloc(1, sizeof(*d));

    *node = (struct hvd_node){.parent = -1};
    if (!d)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a place in a tree");
    begin_division(d, t->n_hosts, t->fanout);
    at.start = t->host_first[at.host];
    at.near.n = t->host_first[at.host + 1] - at.start;
    const int far_parent = descend(d, at.host, &at.far);
    const int near_parent = descend(d, position - at.start, &at.near);
    if (near_parent >= 0)
        node->parent = at.start + near_parent;
    else if (far_parent >= 0)
        node->parent = t->host_first[far_parent];
    node->span = (struct hvd_span){.first = position, .n = at.near.n};
    if (at.near.first == 0)
        node->span.n = t->host_first[at.host + at.far.n] - position;
    hvd_status_t st = add_children(node, t, &at, d);
    hvd_free(d);
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "out of memory for a place in a tree");
}

void hvd_node_fini(struct hvd_node *node)
{
    hvd_free(node->children);
    *node = (struct hvd_node){0};
}

int hvd_node_party(const struct hvd_node *node, int position)
{
    int low = 0;
    int high = node->n_children;

    if (position == node->span.first)
        return 0;
    if (position < node->span.first || position >= node->span.first + node->span.n)
        return -1;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (node->children[middle].first <= position)
            low = middle;
        else
            high = middle;
    }
    return 1 + low;
}

struct hvd_span hvd_node_party_span(const struct hvd_node *node, int party)
{
    if (party > 0)
        return node->children[party - 1];
    return (struct hvd_span){.first = node->span.first, .n = 1};
}
