#ifndef HVD_WORKER_CORE_TREE_H
#define HVD_WORKER_CORE_TREE_H

#include <stdbool.h>

#include "base/status.h"

/*
 * The tree over the ranks of a process set along which control messages travel. Requests go up and
 * are merged on the way (aggregator.h); plans come down.
 *
 *       host 0       0                        ranks of a host are below its first rank ...
 *                 /  |  \
 *                1   2   \                    ... and each of them sends to other hosts,
 *                |   |    \
 *       host 1   6   |     9   host 3         through their first ranks
 *              / | \ |   / | \
 *             7  8 .. ..  10 11
 *
 * Each rank has a position in the tree: a rank comes first, followed by its children's subtrees one
 * by one. So every subtree is a range of positions that begins with its root. Any number of ranks
 * that agree is then a few pairs of numbers (struct hvd_pos_range). Position 0 is rank 0 of the
 * set, the coordinator.
 *
 * With a given fan-out, the first ranks of hosts form a tree of their own, divided evenly. Without
 * one, the tree is the fastest in the LogGP model for short messages (Karp et al. 1993). The child
 * that is sent to first has the largest subtree and the last one the smallest, so that all finish
 * together. A message within a host takes a fraction of one between hosts, so all ranks of a host
 * share the sending to other hosts. A few hosts form a star of hosts, and up to 8 ranks form a star
 * of ranks.
 */

/* Positions first to first + n - 1; n >= 1. */
struct hvd_pos_range {
    int first;
    int n;
};

struct hvd_tree_options {
    int size;         /* ranks of the set; >= 1 */
    const int *hosts; /* by rank: a number that is the same for all ranks of a host; borrowed for
                         the call; NULL: all ranks are on one host */
    int fanout;       /* maximum number of children on other hosts, and also on the own host; 0: the
                         fastest tree */
};

/* The tree of a set, which is the same on each of its ranks. */
struct hvd_tree {
    int size;
    int n_hosts;
    int *rank_at;     /* by position; owned, as all arrays below */
    int *position_of; /* by rank */
    int *parent_of;   /* by position: the parent's; -1: the root */
    int *n_below;     /* by position: the number of positions of its subtree */
};

/* One rank's place in the tree. */
struct hvd_node {
    int parent;                     /* its position; -1: this is the root */
    struct hvd_pos_range range;     /* its subtree; range.first is the node's own position */
    struct hvd_pos_range *children; /* their subtrees, in the order of their positions; owned */
    int n_children;
};

/* Lays out the tree; hvd_tree_fini frees it. HVD_ERR_NOMEM. */
hvd_status_t hvd_tree_init(struct hvd_tree *t, const struct hvd_tree_options *options,
                           struct hvd_err *err);

/* Frees the arrays of the tree. A zeroed struct is allowed. */
void hvd_tree_fini(struct hvd_tree *t);

/* Fills the node at a position; hvd_tree_node_fini frees it. HVD_ERR_NOMEM. */
hvd_status_t hvd_tree_node_init(struct hvd_node *node, const struct hvd_tree *t, int position,
                                struct hvd_err *err);

/* Frees the arrays of the node. A zeroed struct is allowed. */
void hvd_tree_node_fini(struct hvd_node *node);

/* Returns the branch of a position: 0 is the node itself, 1 + i its i-th child with its subtree.
 * Returns -1 for a position outside the node's subtree. */
int hvd_tree_node_branch(const struct hvd_node *node, int position);

/* Returns the range of positions of a branch. */
struct hvd_pos_range hvd_tree_node_branch_range(const struct hvd_node *node, int branch);

#endif
