#ifndef HVD_WORKER_CORE_AGGREGATOR_H
#define HVD_WORKER_CORE_AGGREGATOR_H

#include "worker/core/message.h"

/*
 * An inner node of a set's tree: merges what its branches (itself, and every child with all that
 * hangs under it) request, so that its parent hears of a tensor once.
 *
 *     requests of positions ──> waiting ──all of the subtree──> one request, by ranges ─┐
 *     bits of branches      ──> words   ──all branches, ANDed─> BITS ───────────────────┼─> parent
 *     JOIN                  ──────────────────────at once─────────────────────────────>─┤
 *     leaves                ──> the first one at once, the last one for all ────────────┘
 *
 *     plan of the parent ──> children first, as it is; then hvd_aggregator_plan
 *
 * Nothing is decided here. Requests of one name that differ go up as one request each, with the
 * positions that make it, so that the coordinator sees what is wrong. Ranks that have joined count
 * as having asked, but are not among the positions. A tensor that has a slot and is requested by
 * name all the same must go up at once, for the coordinator to take the slot away: the others have
 * asked by bit, and will ask by name when they hear of that.
 *
 * The aggregator follows the plans for what it must know of slots: which ones there are, since
 * when, and whether zeros of joined ranks make sense in them. Its children know no later plan than
 * it does.
 */
struct hvd_aggregator;

struct hvd_aggregator_options {
    const struct hvd_node *node; /* has children; borrowed for good */
    uint32_t set;                /* the number of the process set */
    int world_size;              /* ranks of the job: roots are numbered in it */
};

/* An aggregator that knows of no tensor. HVD_ERR_NOMEM. */
hvd_status_t hvd_aggregator_create(const struct hvd_aggregator_options *options,
                                   struct hvd_aggregator **out, struct hvd_err *err);

/* NULL is fine. */
void hvd_aggregator_destroy(struct hvd_aggregator *r);

/*
 * A branch asks by name; the positions are within hvd_tree_node_branch_range. now_ns is only
 * compared with later ones. HVD_ERR_INVALID when the request is illegal or one of them has
 * requested the name already, HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE: the peer or the job is broken then.
 */
hvd_status_t hvd_aggregator_request(struct hvd_aggregator *r,
                                    const struct hvd_merged_request *merged, int64_t now_ns,
                                    struct hvd_err *err);

/* A branch asks by bits, in a BITS message. Failures as above. */
hvd_status_t hvd_aggregator_bits(struct hvd_aggregator *r, int branch,
                                 const struct hvd_reader *bits, int64_t now_ns,
                                 struct hvd_err *err);

/* Ranks below leave; text is passed on with the first of them. Failures as above. */
hvd_status_t hvd_aggregator_leave(struct hvd_aggregator *r, struct hvd_pos_range who, bool failed,
                                  const char *text, struct hvd_err *err);

/* Whether the rank at a position below, or this one, has left. */
bool hvd_aggregator_has_left(const struct hvd_aggregator *r, int position);

/* Follows a plan, which is read. HVD_ERR_NOMEM, HVD_ERR_INVALID. */
hvd_status_t hvd_aggregator_plan(struct hvd_aggregator *r, struct hvd_reader plan,
                                 struct hvd_err *err);

/*
 * Passes on what is known of tensors that have waited for limit_ns: who has requested them. What
 * was passed on once is not again, unless more ranks have asked since. Failures as above.
 */
hvd_status_t hvd_aggregator_stalled(struct hvd_aggregator *r, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_err *err);

/* The next message for the parent, to be sent in this order, into *message, borrowed until the
 * next call; NULL when there is none. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_aggregator_next(struct hvd_aggregator *r, const struct hvd_buf **message,
                                 struct hvd_err *err);

/* Whether so much is to be sent that it should be sent before more is taken in. */
bool hvd_aggregator_is_full(const struct hvd_aggregator *r);

/* Tensors that some ranks of the subtree have requested by name and others have not. */
size_t hvd_aggregator_waiting(const struct hvd_aggregator *r);

#endif
