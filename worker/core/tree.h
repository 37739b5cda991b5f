#ifndef HVD_WORKER_CORE_TREE_H
#define HVD_WORKER_CORE_TREE_H

#include <stdbool.h>

#include "base/status.h"

/*
 * Who speaks to whom about the tensors of a process set: a tree over its ranks. What ranks request
 * goes up and is merged on the way (aggregator.h), plans come down.
 *
 *       host 0       0                        ranks of a host hang under its first rank ...
 *                 /  |  \
 *                1   2   \                    ... each hears of other hosts besides,
 *                |   |    \
 *       host 1   6   |     9   host 3         by their first ranks
 *              / | \ |   / | \
 *             7  8 .. ..  10 11
 *
 * Ranks have a position in the tree: a rank first, then one behind the other all that hangs under
 * its children, so every subtree is a stretch of positions that begins with its root. A set of
 * ranks that agree is then a few pairs of numbers (struct hvd_pos_range), however many they are.
 * Position 0 is rank 0 of the set, the coordinator.
 *
 * With a given fan-out the first ranks of hosts form a tree of their own, divided evenly. Without
 * one, the tree is the fastest in the LogGP model for short messages (Karp et al. 1993): the child
 * that is sent to first has the largest subtree and the last one the smallest, so that all are done
 * at once; and as a message within a host takes a fraction of one between hosts, all ranks of a
 * host share the sending to other hosts. With few hosts it is a star of hosts, with up to 8 ranks a
 * star of ranks.
 */

/* Positions first to first + n - 1; n >= 1. */
struct hvd_pos_range {
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
    int n_hosts;
    int *rank_at;     /* by position; owned, as all that follow */
    int *position_of; /* by rank */
    int *parent_of;   /* by position: the parent's; -1: the root */
    int *n_below;     /* by position: how many positions its subtree has */
};

/* One rank's place in it. */
struct hvd_node {
    int parent;                     /* position; -1: the root */
    struct hvd_pos_range range;     /* its subtree; range.first is its own position */
    struct hvd_pos_range *children; /* their subtrees, by position; owned */
    int n_children;
};

/* HVD_ERR_NOMEM. */
hvd_status_t hvd_tree_init(struct hvd_tree *t, const struct hvd_tree_options *options,
                           struct hvd_err *err);

/* Frees what it owns. A zeroed struct is fine. */
void hvd_tree_fini(struct hvd_tree *t);

/* The node at a position. HVD_ERR_NOMEM. */
hvd_status_t hvd_tree_node_init(struct hvd_node *node, const struct hvd_tree *t, int position,
                                struct hvd_err *err);

/* Frees what it owns. A zeroed struct is fine. */
void hvd_tree_node_fini(struct hvd_node *node);

/* The branch that a position of the subtree belongs to: 0 the node itself, 1 + i its i-th child
 * with all that hangs under it; -1 for a position elsewhere. */
int hvd_tree_node_branch(const struct hvd_node *node, int position);

/* The stretch of positions of a branch. */
struct hvd_pos_range hvd_tree_node_branch_range(const struct hvd_node *node, int branch);

#endif
