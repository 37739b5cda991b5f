#ifndef HVD_WORKER_CORE_NEGOTIATOR_H
#define HVD_WORKER_CORE_NEGOTIATOR_H

#include "worker/core/message.h"

/*
 * The coordinator's part of the negotiation, for one process set. It finds out which tensors every
 * rank has requested and whether the requests agree, and decides the order in which the tensors
 * run.
 *
 *     requests of ranks ──> waiting ──all ranks seen──> step in the plan (or an ERROR step)
 *     refusal of a rank ──> the same, and an ERROR step with its reason
 *     bits of branches  ──> ready book ──all branches seen─> words of the plan
 *     a rank leaves     ──> SHUTDOWN step once (ABORT when it failed); all left ──> DOWN step
 *
 * The coordinator is the root of the set's tree. Its branches are itself and each child with its
 * subtree. Aggregators merge the requests of a branch on their way up (aggregator.h), so the
 * coordinator's work grows with the branches and not with the ranks. A request contains its
 * positions; a bit arrives once the whole subtree has requested the tensor.
 *
 * The plan has the tensors in the order in which they became complete. An agreed tensor gets a
 * slot, and ranks request it by its bit from then on. A request by name evicts the slot on every
 * rank. Ranks that had requested the tensor by bit then repeat the request by name.
 *
 * Tensors of a group are planned together, or fail together. The number of a group is computed from
 * the names of its tensors (hvd_group_number), so it is the same on every rank.
 *
 * Joined ranks count as having requested every tensor. After a SHUTDOWN or ABORT step the
 * coordinator ignores requests, and every rank ends its own pending tensors.
 */
struct hvd_negotiator;

struct hvd_negotiator_options {
    const struct hvd_tree *tree; /* of the set; borrowed until the destruction, as the next two */
    const struct hvd_node *node; /* the tree's root */
    const int *ranks;            /* by rank of the set: its number in the job */
    int world_size;              /* ranks of the job, which is the range of valid roots */
    uint32_t set;                /* its number */
    uint32_t cache_capacity;     /* maximum number of cached tensors; 0: none */
    int64_t fusion_bytes;        /* maximum bytes of a fused operation; carried by each plan */
    uint32_t cycle_us;           /* how long ranks may hold back submitted tensors; likewise */
    /* Returns the host of a rank of the job, for reports; NULL: unknown. The pointer may be
     * NULL. */
    const char *(*host)(const void *ctx, int rank);
    const void *host_ctx; /* borrowed until the destruction */
};

/* Creates a negotiator without tensors; the caller destroys it. HVD_ERR_NOMEM. */
hvd_status_t hvd_negotiator_create(const struct hvd_negotiator_options *options,
                                   struct hvd_negotiator **out, struct hvd_err *err);

/* Frees the negotiator. NULL is allowed. */
void hvd_negotiator_destroy(struct hvd_negotiator *n);

/*
 * Counts a request of the ranks at some positions. now_ns is only compared with later values.
 *
 * HVD_ERR_INVALID when the request is illegal or a position has requested the name before;
 * HVD_ERR_NOMEM; HVD_ERR_TOO_LARGE. After any of these the peer or the job is broken. A mismatch
 * between ranks is not a failure: it becomes an ERROR step.
 */
hvd_status_t hvd_negotiator_request(struct hvd_negotiator *n,
                                    const struct hvd_merged_request *merged, int64_t now_ns,
                                    struct hvd_err *err);

/* Counts the bits of a branch, from a BITS message. Fails as hvd_negotiator_request does. */
hvd_status_t hvd_negotiator_bits(struct hvd_negotiator *n, int branch,
                                 const struct hvd_reader *bits, int64_t now_ns,
                                 struct hvd_err *err);

/* Records which ranks of a branch have requested tensors that the whole branch has not. Reads
 * the PARTIAL message to its end. Only stall reports use this. Fails as hvd_negotiator_request
 * does. */
hvd_status_t hvd_negotiator_partial(struct hvd_negotiator *n, int branch,
                                    struct hvd_reader *partial, int64_t now_ns,
                                    struct hvd_err *err);

/*
 * Records that ranks will make no more requests, because of `text`. failed: they cannot continue,
 * so the job cannot either. A repeated call for a rank has no effect. Fails as
 * hvd_negotiator_request does.
 */
hvd_status_t hvd_negotiator_leave(struct hvd_negotiator *n, struct hvd_pos_range who, bool failed,
                                  const char *text, struct hvd_err *err);

/* Whether a rank has failed. Then all ranks get the plan at once, and no other follows. */
bool hvd_negotiator_is_aborted(const struct hvd_negotiator *n);

/*
 * Sets *plan to the plan made since the last hvd_negotiator_plan_sent, or to NULL when it would be
 * empty. It is borrowed until the next hvd_negotiator_plan_sent, and no request may be counted
 * before that. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE.
 */
hvd_status_t hvd_negotiator_plan(struct hvd_negotiator *n, const struct hvd_buf **plan,
                                 struct hvd_err *err);

/* Replaces the two options from the next plan on. */
void hvd_negotiator_tune(struct hvd_negotiator *n, int64_t fusion_bytes, uint32_t cycle_us);

/* Discards the plan that was sent, and starts the next one. */
void hvd_negotiator_plan_sent(struct hvd_negotiator *n);

/* Ends the set on the coordinator's behalf, because of `text`: adds one SHUTDOWN step. No rank
 * has left by this. Fails as hvd_negotiator_request does. */
hvd_status_t hvd_negotiator_close(struct hvd_negotiator *n, const char *text, struct hvd_err *err);

/* Returns how many tensors some rank waits for. */
size_t hvd_negotiator_waiting(const struct hvd_negotiator *n);

/*
 * Appends one text to the report, with the tensors that have waited for limit_ns and the ranks that
 * they lack. Reports each tensor once. Appends nothing when there is none. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE.
 */
hvd_status_t hvd_negotiator_stalled(struct hvd_negotiator *n, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_buf *report);

/*
 * Returns the name of the tensor that has waited longest, if it has waited since before_ns at
 * least. If it is complete, this is the tensor of its group that it waits for. Borrowed until the
 * next call; NULL when there is none.
 *
 * missing receives the first *n_missing of the ranks that the tensor lacks, as numbered in the job.
 * *n_missing becomes the number of all such ranks.
 */
const char *hvd_negotiator_overdue(const struct hvd_negotiator *n, int64_t before_ns, int *missing,
                                   int *n_missing);

/* Whether a rank at one of these positions has not requested that tensor, as far as this rank
 * has found out. */
bool hvd_negotiator_awaits(const struct hvd_negotiator *n, int64_t before_ns, const int *positions,
                           int n_positions);

/*
 * Returns the text with which a rank refused a group without tensors, when that explains why the
 * named tensor waits. Its binding cannot know how many tensors other ranks have in the group, so it
 * refuses a group of one tensor.
 *
 * Borrowed until the next call. NULL when there is no such refusal, or the name is not of the form
 * "NAME_2of3".
 */
const char *hvd_negotiator_empty_group(const struct hvd_negotiator *n, const char *name);

/* Returns the name of the tensor that has waited longest, borrowed until the next call, and the
 * start of the wait; NULL when there is none. */
const char *hvd_negotiator_oldest(const struct hvd_negotiator *n, int64_t *since_ns);

/* Records that the ranks at these positions, at most HVD_SILENT_MAX, do not answer. From now on
 * reports name them instead of the ranks below them in the tree. */
void hvd_negotiator_silent(struct hvd_negotiator *n, const int *positions, int n_positions);

/* Whether the rank at a position has left. */
bool hvd_negotiator_has_left(const struct hvd_negotiator *n, int position);

/* Compute the number of a group, which is never 0: pass the sum that hvd_group_add makes of the
 * names of all n tensors, in any order. The sum starts at 0. */
uint32_t hvd_group_number(uint64_t sum, uint32_t n);
uint64_t hvd_group_add(uint64_t sum, struct hvd_strview name);

#endif
