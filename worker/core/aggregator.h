#ifndef HVD_WORKER_CORE_AGGREGATOR_H
#define HVD_WORKER_CORE_AGGREGATOR_H

#include "worker/core/message.h"

/*
 * An inner node of a set's tree. Its branches are the node itself and each child with its subtree.
 * It merges their requests, so that its parent receives one request for a tensor.
 *
 *     requests of positions ──> waiting ──all of the subtree──> one request, by ranges ─┐
 *     bits of branches      ──> words   ──all branches, ANDed─> BITS ───────────────────┼─> parent
 *     JOIN                  ──────────────────────at once─────────────────────────────>─┤
 *     leaves                ──> the first one at once, the last one for all ────────────┘
 *
 *     plan of the parent ──> children first, as it is; then hvd_aggregator_plan
 *
 * The aggregator decides nothing. When requests of one name differ, it sends each variant with the
 * positions that made it, so that the coordinator can report the mismatch. Ranks that have joined
 * count as having requested every tensor, but are not among the positions.
 *
 * Some ranks may request a tensor by name although it has a slot. The aggregator then sends the
 * request up at once, and the coordinator evicts the slot. The other ranks have requested by bit.
 * They repeat the request by name when the plan evicts the slot.
 *
 * The aggregator follows the plans to learn which slots exist, since which plan, and whether joined
 * ranks can contribute zeros to them. Its children never have a later plan than it has.
 */
struct hvd_aggregator;

struct hvd_aggregator_options {
    const struct hvd_node *node; /* has children; borrowed until hvd_aggregator_destroy */
    uint32_t set;                /* the number of the process set */
    int world_size;              /* ranks of the job, which is the range of valid roots */
};

/* Creates an aggregator without tensors; the caller destroys it. HVD_ERR_NOMEM. */
hvd_status_t hvd_aggregator_create(const struct hvd_aggregator_options *options,
                                   struct hvd_aggregator **out, struct hvd_err *err);

/* Frees the aggregator. NULL is allowed. */
void hvd_aggregator_destroy(struct hvd_aggregator *r);

/*
 * Takes a request by name from a branch, whose positions are within hvd_tree_node_branch_range.
 * now_ns is only compared with later values.
 *
 * HVD_ERR_INVALID when the request is illegal or a position has requested the name before;
 * HVD_ERR_NOMEM; HVD_ERR_TOO_LARGE. After any of these the peer or the job is broken.
 */
hvd_status_t hvd_aggregator_request(struct hvd_aggregator *r,
                                    const struct hvd_merged_request *merged, int64_t now_ns,
                                    struct hvd_err *err);

/* Takes requests by bit from a branch, in a BITS message. Fails as hvd_aggregator_request does. */
hvd_status_t hvd_aggregator_bits(struct hvd_aggregator *r, int branch,
                                 const struct hvd_reader *bits, int64_t now_ns,
                                 struct hvd_err *err);

/* Records that ranks of the subtree leave. Passes `text` on with the first of them. Fails as
 * hvd_aggregator_request does. */
hvd_status_t hvd_aggregator_leave(struct hvd_aggregator *r, struct hvd_pos_range who, bool failed,
                                  const char *text, struct hvd_err *err);

/* Whether the rank at this position of the subtree has left. */
bool hvd_aggregator_has_left(const struct hvd_aggregator *r, int position);

/* Applies a plan, and reads it to its end. HVD_ERR_NOMEM, HVD_ERR_INVALID. */
hvd_status_t hvd_aggregator_plan(struct hvd_aggregator *r, struct hvd_reader plan,
                                 struct hvd_err *err);

/*
 * Reports tensors that have waited for limit_ns to the parent, with the ranks that have requested
 * them. A tensor is reported again only after more ranks have requested it. Fails as
 * hvd_aggregator_request does.
 */
hvd_status_t hvd_aggregator_stalled(struct hvd_aggregator *r, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_err *err);

/* Sets *message to the next message for the parent, or to NULL when there is none. Messages are
 * to be sent in this order. Each is borrowed until the next call. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_aggregator_next(struct hvd_aggregator *r, const struct hvd_buf **message,
                                 struct hvd_err *err);

/* Whether the caller should send the pending messages before it reads more requests. */
bool hvd_aggregator_is_full(const struct hvd_aggregator *r);

/* Returns how many tensors only a part of the subtree has requested by name. */
size_t hvd_aggregator_waiting(const struct hvd_aggregator *r);

#endif
