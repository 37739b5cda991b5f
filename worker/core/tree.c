/*
 * Positions and subtrees; see tree.h. Pure. Positions follow a depth-first order: the first rank of
 * a host, then the other ranks of the host. The hosts to which a rank sends follow that rank.
 */
#include "worker/core/tree.h"

#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"

/* The cost model, in units of 50 ns. */
#define FAR_HOP 60 /* latency of a message between hosts: 3 us */
#define FAR_BUSY 4 /* after which its sender can send the next one: 0.2 us */
#define NEAR_HOP 6 /* the same within a host: 0.3 us */
#define NEAR_BUSY 1
#define TIMES 1024

#define NEAR_RATIO 15  /* messages within a host until the receiver of the first sends as well */
#define HELPERS_MAX 16 /* maximum number of ranks of a host that send to other hosts */
#define STAR_MAX 8     /* largest set in which all ranks are children of the coordinator */

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

/* Sorts by the first rank of the host, then by rank. */
static void sort(struct placed *placed, int n)
{
    qsort(placed, (size_t)n, sizeof(*placed), by_host);
    for (int i = 0; i < n; i++)
        placed[i].leader =
            i > 0 && placed[i].host == placed[i - 1].host ? placed[i - 1].leader : placed[i].rank;
    qsort(placed, (size_t)n, sizeof(*placed), by_leader);
}

/* --- Capacity of subtrees --------------------------------------------------------------------- */

/* A host's ranks: indices into the list of ranks sorted by host. */
struct host {
    int first;
    int n;
};

struct builder {
    struct hvd_tree *t;
    const struct placed *placed;
    struct host *hosts; /* owned */
    int fanout;
    int n_laid;           /* assigned positions */
    int far_room[TIMES];  /* by time: hosts that can be reached, of average size */
    int near_room[TIMES]; /* by time, in messages of one sender: ranks of a host */
};

/* Returns when a helper, a rank that sends to other hosts, can start. The host's first rank
 * first sends to the other helpers. */
static int start_of(int helper, int n_helpers)
{
    return helper == 0 ? (n_helpers - 1) * NEAR_BUSY : helper * NEAR_BUSY + NEAR_HOP;
}

/* Returns how many of n ranks of a host send to other hosts. */
static int helpers_of(int n)
{
    return n < HELPERS_MAX ? n : HELPERS_MAX;
}

static int add(int64_t a, int64_t b)
{
    return a + b < INT_MAX ? (int)(a + b) : INT_MAX;
}

/* Returns how many hosts can be reached within `time` from one with n_helpers helpers. */
static int far_room(const struct builder *b, int n_helpers, int time)
{
    int room = 1;

    for (int helper = 0; helper < n_helpers; helper++)
        for (int at = start_of(helper, n_helpers); at + FAR_HOP <= time; at += FAR_BUSY)
            room = add(room, b->far_room[time - at - FAR_HOP]);
    return room;
}

/* Fills both tables. far_room stops growing once it covers all hosts. */
static void fill_rooms(struct builder *b)
{
    const int n_helpers = helpers_of(b->t->size / b->t->n_hosts);

    for (int time = 0; time < TIMES; time++) {
        const int before = time > 0 ? b->far_room[time - 1] : 0;
        b->far_room[time] = before < b->t->n_hosts ? far_room(b, n_helpers, time) : before;
    }
    for (int time = 0; time < TIMES; time++) {
        const int before = time > 0 ? b->near_room[time - 1] : 1;
        const int more = time < NEAR_RATIO ? 0 : b->near_room[time - NEAR_RATIO];
        b->near_room[time] = add(before, more);
    }
}

/* --- Layout ----------------------------------------------------------------------------------- */

/* Assigns the next position to the rank at this index of the sorted list. */
static int take_position(struct builder *b, int index, int parent)
{
    const int position = b->n_laid++;

    b->t->rank_at[position] = b->placed[index].rank;
    b->t->position_of[b->placed[index].rank] = position;
    b->t->parent_of[position] = parent;
    return position;
}

static void end_subtree(struct builder *b, int position)
{
    b->t->n_below[position] = b->n_laid - position;
}

/* Returns the size of the i-th of n_parts parts of n that are as even as possible. */
static int even_part(int n, int n_parts, int i)
{
    return n / n_parts + (i < n % n_parts);
}

/* A share of the hosts below one: n of them form the next subtree to which a helper sends. */
struct share {
    int helper;
    int n;
};

/* Consecutive hosts that are being laid out. */
struct stretch {
    struct share *shares; /* in the order in which helpers send to them; owned */
    int n_shares;
    int next; /* the first host without positions */
};

/* Fills shares and returns their number, which never exceeds the number of hosts. */
static int share_out(const struct builder *b, int n_hosts, int n_helpers, struct share *shares)
{
    const int parts = n_hosts - 1 < b->fanout ? n_hosts - 1 : b->fanout;
    int left = n_hosts - 1;
    int time = 0;
    int n = 0;

    for (; b->fanout > 0 && n < parts; n++)
        shares[n] = (struct share){.n = even_part(n_hosts - 1, parts, n)};
    if (b->fanout > 0)
        return n;
    while (time < TIMES - 1 && far_room(b, n_helpers, time) < n_hosts)
        time++;
    for (int at = 0; at + FAR_HOP <= time && left > 0; at++)
        for (int helper = 0; helper < n_helpers && left > 0; helper++) {
            const int since = at - start_of(helper, n_helpers);
            const int room = b->far_room[time - at - FAR_HOP];
            if (since < 0 || since % FAR_BUSY != 0)
                continue;
            shares[n] = (struct share){.helper = helper, .n = room < left ? room : left};
            left -= shares[n++].n;
        }
    return n;
}

static bool lay_hosts(struct builder *b, int host, int n_hosts, int parent);

/* Lays out the hosts to which a helper sends, with their subtrees. */
static bool lay_shares(struct builder *b, struct stretch *s, int helper, int position)
{
    for (int i = 0; i < s->n_shares; i++) {
        if (s->shares[i].helper != helper)
            continue;
        if (!lay_hosts(b, s->next, s->shares[i].n, position))
            return false;
        s->next += s->shares[i].n;
    }
    return true;
}

/* Returns the size of the i-th child's subtree below the root of n ranks of a host. `left` of
 * these ranks are not laid out. Returns 0 when there are no more children. */
static int near_part(const struct builder *b, int n, int left, int i)
{
    int time = 0;

    if (b->fanout > 0)
        return i < b->fanout && i < n - 1
                   ? even_part(n - 1, n - 1 < b->fanout ? n - 1 : b->fanout, i)
                   : 0;
    while (time < TIMES - 1 && b->near_room[time] < n)
        time++;
    time -= NEAR_RATIO + i;
    const int room = time >= 0 ? b->near_room[time] : 0;
    return room < left ? room : left;
}

/* Lays out n ranks of a host, from an index on. The first one is the root of the others. Returns
 * its position. */
static int lay_near(struct builder *b, int index, int n, int parent)
{
    const int position = take_position(b, index, parent);
    int at = 1;

    for (int i = 0; at < n; i++) {
        const int part = near_part(b, n, n - at, i);
        lay_near(b, index + at, part, position);
        at += part;
    }
    end_subtree(b, position);
    return position;
}

/* Lays out the other ranks of a host, each with its subtree on the host and then its subtrees on
 * other hosts. */
static bool lay_others(struct builder *b, struct host own, struct stretch *s, int parent)
{
    bool good = true;

    for (int helper = 1, at = 1; at < own.n && good; helper++) {
        const int part = near_part(b, own.n, own.n - at, helper - 1);
        const int position = lay_near(b, own.first + at, part, parent);
        good = lay_shares(b, s, helper, position);
        end_subtree(b, position);
        at += part;
    }
    return good;
}

/* Lays out consecutive hosts; the first rank of the first host is the root. False when out of
 * memory. */
static bool lay_hosts(struct builder *b, int host, int n_hosts, int parent)
{
    const struct host own = b->hosts[host];
    const int position = take_position(b, own.first, parent);
    struct stretch s = {.shares = hvd_malloc((size_t)n_hosts, sizeof(*s.shares)), .next = host + 1};
    int n_helpers = 1;

    if (!s.shares)
        return false;
    for (int left = own.n - 1; left > 0 && b->fanout == 0; n_helpers++)
        left -= near_part(b, own.n, left, n_helpers - 1);
    s.n_shares = share_out(b, n_hosts, helpers_of(n_helpers), s.shares);
    const bool good = lay_others(b, own, &s, position) && lay_shares(b, &s, 0, position);
    end_subtree(b, position);
    hvd_free(s.shares);
    return good;
}

static bool lay_out(struct builder *b)
{
    for (int i = 0; i < b->t->size; i++)
        b->t->n_hosts += b->placed[i].leader == b->placed[i].rank;
    b->hosts = hvd_calloc((size_t)b->t->n_hosts, sizeof(*b->hosts));
    if (!b->hosts)
        return false;
    int host = -1;
    for (int i = 0; i < b->t->size; i++) {
        if (b->placed[i].leader == b->placed[i].rank)
            b->hosts[++host].first = i;
        b->hosts[host].n++;
    }
    if (b->fanout == 0)
        fill_rooms(b);
    const bool good = lay_hosts(b, 0, b->t->n_hosts, -1);
    hvd_free(b->hosts);
    return good;
}

hvd_status_t hvd_tree_init(struct hvd_tree *t, const struct hvd_tree_options *options,
                           struct hvd_err *err)
{
    const size_t n = (size_t)options->size;
    const bool is_star = options->fanout == 0 && options->size <= STAR_MAX;
    struct placed *placed = hvd_calloc(n, sizeof(*placed));
    struct builder *b = hvd_calloc(1, sizeof(*b));

    *t = (struct hvd_tree){.size = options->size,
                           .rank_at = hvd_calloc(n, sizeof(int)),
                           .position_of = hvd_calloc(n, sizeof(int)),
                           .parent_of = hvd_calloc(n, sizeof(int)),
                           .n_below = hvd_calloc(n, sizeof(int))};
    bool good = placed && b && t->rank_at && t->position_of && t->parent_of && t->n_below;
    for (int rank = 0; rank < options->size && good; rank++) {
        placed[rank].rank = rank;
        placed[rank].host = options->hosts && !is_star ? options->hosts[rank] : 0;
    }
    if (good) {
        sort(placed, options->size);
        b->t = t;
        b->placed = placed;
        b->fanout = options->fanout;
        good = lay_out(b);
    }
    hvd_free(b);
    hvd_free(placed);
    if (good)
        return HVD_OK;
    hvd_tree_fini(t);
    return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the tree of a process set");
}

void hvd_tree_fini(struct hvd_tree *t)
{
    hvd_free(t->rank_at);
    hvd_free(t->position_of);
    hvd_free(t->parent_of);
    hvd_free(t->n_below);
    *t = (struct hvd_tree){0};
}

hvd_status_t hvd_tree_node_init(struct hvd_node *node, const struct hvd_tree *t, int position,
                                struct hvd_err *err)
{
    const int end = position + t->n_below[position];

    *node = (struct hvd_node){.parent = t->parent_of[position],
                              .range = {.first = position, .n = t->n_below[position]}};
    for (int child = position + 1; child < end; child += t->n_below[child])
        node->n_children++;
    if (node->n_children == 0)
        return HVD_OK;
    node->children = hvd_calloc((size_t)node->n_children, sizeof(*node->children));
    if (!node->children)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a place in a tree");
    int n = 0;
    for (int child = position + 1; child < end; child += t->n_below[child])
        node->children[n++] = (struct hvd_pos_range){.first = child, .n = t->n_below[child]};
    return HVD_OK;
}

void hvd_tree_node_fini(struct hvd_node *node)
{
    hvd_free(node->children);
    *node = (struct hvd_node){0};
}

int hvd_tree_node_branch(const struct hvd_node *node, int position)
{
    int low = 0;
    int high = node->n_children;

    if (position == node->range.first)
        return 0;
    if (position < node->range.first || position >= node->range.first + node->range.n)
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

struct hvd_pos_range hvd_tree_node_branch_range(const struct hvd_node *node, int branch)
{
    if (branch > 0)
        return node->children[branch - 1];
    return (struct hvd_pos_range){.first = node->range.first, .n = 1};
}
