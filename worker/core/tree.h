#ifndef HVD_WORKER_CORE_TREE_H
#define HVD_WORKER_CORE_TREE_H

#include <stdbool.h>

#include "base/status.h"

/*
 * Who speaks to whom about the tensors of a process set: a tree over its ranks. What ranks ask for
 * goes up and is merged on the way (relay.h), plans come down.
 *
 *     host 0          0                  ranks of a host hang under its first rank,
 *                  /  |  \               first ranks of hosts form a tree of their own
 *     host 0      1   2   6 ....... 12
 *                       / | \      / | \
 *     hosts 2, 4       7  8  24  13 14  18
 *
 * Ranks have a position in the tree: hosts one behind the other, and every subtree is a stretch of
 * positions that begins with its root. So a set of ranks that agree is a few pairs of numbers
 * (struct hvd_span) however many they are. Position 0 is rank 0 of the set, the coordinator.
 *
 * With a given fan-out every subtree is divided evenly. Without one, the tree is the fastest for
 * messages of which a rank can send `ratio` while one travels (Karp et al. 1993): the child that is
 * sent to first has the largest subtree, the last one the smallest, so that all are done at once.
 * As long as there are fewer ranks than that, it is a star.
 */

/* Positions first to first + n - 1; n >= 1. */
struct hvd_span {
    int first;
    int n;
};

struct hvd_tree_options {
    int size;         /* ranks of the set; >= 1 */
    const int *hosts; /* by rank: any number, the same for ranks of a host; borrowed for the call;
                         NULL: all ranks are on one host */
    int fanout;       /* children at most on other hosts, and as many on the own; 0: see above */
};

/* The same on every rank of the set. */
struct hvd_tree {
    int size;
    int fanout;
    int n_hosts;
    int *rank_at;     /* by position; owned, as all that follow */
    int *position_of; /* by rank */
    int *host_first;  /* by host: its first position; one more at the end */
};

/* One rank's place in it. */
struct hvd_node {
    int parent;                /* position; -1: the root */
    struct hvd_span span;      /* its subtree; span.first is its own position */
    struct hvd_span *children; /* their subtrees, by position; owned */
    int n_children;
    int n_near; /* of these, on the own host: the first ones. Plans go to the others first */
};

/* HVD_ERR_NOMEM. */
hvd_status_t hvd_tree_init(struct hvd_tree *t, const struct hvd_tree_options *options,
                           struct hvd_err *err);

/* Frees what it owns. A zeroed struct is fine. */
void hvd_tree_fini(struct hvd_tree *t);

/* The node at a position. HVD_ERR_NOMEM. */
hvd_status_t hvd_node_init(struct hvd_node *node, const struct hvd_tree *t, int position,
                           struct hvd_err *err);

/* Frees what it owns. A zeroed struct is fine. */
void hvd_node_fini(struct hvd_node *node);

/* The party that a position of the subtree belongs to: 0 the node itself, 1 + i its i-th child with
 * all that hangs under it; -1 for a position elsewhere. */
int hvd_node_party(const struct hvd_node *node, int position);

/* The stretch of positions of a party. */
struct hvd_span hvd_node_party_span(const struct hvd_node *node, int party);

#endif
