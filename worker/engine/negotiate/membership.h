#ifndef HVD_WORKER_ENGINE_NEGOTIATE_MEMBERSHIP_H
#define HVD_WORKER_ENGINE_NEGOTIATE_MEMBERSHIP_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* The rank of the job that a position of the set's tree is. */
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

/* Sends up the tree. A parent that is lost is no failure of this rank, and told on; HVD_ERR_GONE
 * when it is rank 0. Else as hvd_control_send. */
hvd_status_t hvd_membership_send_up(struct hvd_engine *e, const struct hvd_set *set,
                                    const void *data, size_t len, struct hvd_err *err);

/* After shutdown was called here: says so, once, behind the last request. */
hvd_status_t hvd_membership_send_leave(struct hvd_engine *e, bool *progressed, struct hvd_err *err);

/* All is done here, in a job that is down: says so to the parent once all under this rank have. */
hvd_status_t hvd_membership_send_done(struct hvd_engine *e, struct hvd_err *err);

/* Reads a LEAVE of a branch: HVD_ERR_INVALID when it makes no sense, HVD_ERR_NOMEM. */
hvd_status_t hvd_membership_read_leave(struct hvd_engine *e, int branch, struct hvd_reader *reader,
                                       struct hvd_err *err);

/*
 * A rank is gone for good; err says why. The coordinator ends the job; its neighbours in the tree
 * make sure that the coordinator knows, others hear of it. HVD_ERR_GONE when it is the coordinator,
 * HVD_ERR_UNAVAILABLE when it is this rank itself.
 */
hvd_status_t hvd_membership_lose(struct hvd_engine *e, int rank, struct hvd_err *err);

/* The job is to end in order, because of a stall that this rank has found: all are told the text.
 * Failures as hvd_control_send. */
hvd_status_t hvd_membership_end_for_stall(struct hvd_engine *e, const char *text,
                                          struct hvd_err *err);

/* Ends the job because of that rank, for all, with the text: as who passes on what it says. */
hvd_status_t hvd_membership_end_for_rank(struct hvd_engine *e, int rank, const char *text,
                                         struct hvd_err *err);

/* The same as hvd_membership_lose for a rank that does not answer any more, whatever it is to this
 * one.
 */
hvd_status_t hvd_membership_give_up(struct hvd_engine *e, int rank, struct hvd_err *err);

#define HVD_RANKS_NAMED 4

/* Appends the first HVD_RANKS_NAMED of n ranks, where the others are counted: "rank 1 on host a,
 * rank 3 on host b and rank 4 on host b". */
void hvd_membership_add_ranks(const struct hvd_engine *e, const int *ranks, int n,
                              struct hvd_text *text);

#endif
