#ifndef HVD_WORKER_ENGINE_NEGOTIATE_MEMBERSHIP_H
#define HVD_WORKER_ENGINE_NEGOTIATE_MEMBERSHIP_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* Returns the rank of the job at a position of the set's tree. */
static inline int hvd_membership_rank_at(const struct hvd_set *set, int position)
{
    return set->ranks[set->tree.rank_at[position]];
}

/* Whether a position is a child of this rank in the set's tree. */
static inline bool hvd_membership_is_child(const struct hvd_set *set, int position)
{
    const int branch = hvd_tree_node_branch(&set->node, position);

    return branch > 0 && set->node.children[branch - 1].first == position;
}

/* Sends up the tree. A lost parent is no failure of this rank, which reports it; HVD_ERR_GONE
 * when the parent is rank 0. Else fails as hvd_control_send does. */
hvd_status_t hvd_membership_send_up(struct hvd_engine *e, const struct hvd_set *set,
                                    const void *data, size_t len, struct hvd_err *err);

/* Announces once, after the last request, that this rank leaves, if shutdown was called here. */
hvd_status_t hvd_membership_send_leave(struct hvd_engine *e, bool *progressed, struct hvd_err *err);

/* Reports to the parent that this rank has finished in a job that is down, once its whole
 * subtree has. */
hvd_status_t hvd_membership_send_done(struct hvd_engine *e, struct hvd_err *err);

/* Reads a LEAVE of a branch. HVD_ERR_INVALID when it is inconsistent; HVD_ERR_NOMEM. */
hvd_status_t hvd_membership_read_leave(struct hvd_engine *e, int branch, struct hvd_reader *reader,
                                       struct hvd_err *err);

/*
 * Handles a rank that is gone for good, for the reason in err. The coordinator ends the job. Every
 * other rank reports it to the coordinator and waits for its announcement: only ranks of the same
 * host detect the loss, and the neighbours in the tree may all be on other hosts. HVD_ERR_GONE when
 * the rank is the coordinator; HVD_ERR_UNAVAILABLE when it is this rank.
 */
hvd_status_t hvd_membership_lose(struct hvd_engine *e, int rank, struct hvd_err *err);

/* Ends the job in order because of a stall that this rank has found, and sends all ranks the
 * text. If rank 0 is lost, ends it at once. HVD_ERR_NOMEM. */
hvd_status_t hvd_membership_end_for_stall(struct hvd_engine *e, const char *text,
                                          struct hvd_err *err);

/* Ends the job for all ranks because of that rank, with the text. This rank must be the one that
 * receives from it. */
hvd_status_t hvd_membership_end_for_rank(struct hvd_engine *e, int rank, const char *text,
                                         struct hvd_err *err);

/* Does the same as hvd_membership_lose for a rank that does not answer any more, whether a
 * neighbour or not. */
hvd_status_t hvd_membership_give_up(struct hvd_engine *e, int rank, struct hvd_err *err);

#define HVD_RANKS_NAMED 4

/* Appends the first HVD_RANKS_NAMED of n ranks and the number of the others: "rank 1 on host a,
 * rank 3 on host b and rank 4 on host b". */
void hvd_membership_add_ranks(const struct hvd_engine *e, const int *ranks, int n,
                              struct hvd_text *text);

#endif
