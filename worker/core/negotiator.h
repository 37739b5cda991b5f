#ifndef HVD_WORKER_CORE_NEGOTIATOR_H
#define HVD_WORKER_CORE_NEGOTIATOR_H

#include "worker/core/message.h"

/*
 * The coordinator's side of the agreement, for one process set: which tensors every rank has
 * requested, in which order they will run, and whether the ranks mean the same thing.
 *
 *     requests of ranks ──> waiting ──all ranks seen──> step in the plan (or an ERROR step)
 *     a rank refused    ──> the same, and an ERROR step with its reason
 *     bits of branches  ──> ready book ──all branches seen─> words of the plan
 *     a rank leaves     ──> SHUTDOWN step once (ABORT when it failed); all left ──> DOWN step
 *
 * The coordinator is the root of the set's tree. Its branches are itself and its children, each
 * with all that hangs under it: what these say was merged on its way up (aggregator.h), so that
 * their number and not that of the ranks decides what there is to do. A request says which
 * positions make it; a bit comes when the whole subtree has asked.
 *
 * The order of the plan is the order in which tensors became complete. A tensor that was agreed
 * gets a slot, and is requested by its bit from then on; requesting it by name frees the slot on
 * every rank, and who had asked by bit asks by name too. Tensors of a group are planned together,
 * or fail together: a group is known by a number made from its names (hvd_group_number), so it is
 * the same one on every rank. Ranks that have joined count as having asked. After a SHUTDOWN or
 * ABORT step requests are ignored: every rank ends its pending tensors by itself.
 */
struct hvd_negotiator;

struct hvd_negotiator_options {
    const struct hvd_tree *tree; /* of the set; borrowed for good */
    const struct hvd_node *node; /* its root; likewise */
    const int *ranks;            /* by rank of the set: its number in the job; likewise */
    int world_size;              /* of the job: roots are numbered in it */
    uint32_t set;                /* its number */
    uint32_t cache_capacity;     /* tensors cached at most; 0: none */
    int64_t fusion_bytes;        /* told to every rank with each plan */
    uint32_t cycle_us;           /* likewise: how long what is submitted may be held back */
    /* The host of a rank of the job, for reports; NULL: not known. The function may be NULL. */
    const char *(*host)(const void *ctx, int rank);
    const void *host_ctx; /* borrowed for good */
};

/* A negotiator without tensors. HVD_ERR_NOMEM. */
hvd_status_t hvd_negotiator_create(const struct hvd_negotiator_options *options,
                                   struct hvd_negotiator **out, struct hvd_err *err);

/* NULL is fine. */
void hvd_negotiator_destroy(struct hvd_negotiator *n);

/*
 * Counts a request of the ranks at some positions; now_ns is only compared with later ones.
 * HVD_ERR_INVALID when the request is illegal or one of them has requested the name already,
 * HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE: the peer or the job is broken then, a mismatch between ranks is
 * no failure.
 */
hvd_status_t hvd_negotiator_request(struct hvd_negotiator *n,
                                    const struct hvd_merged_request *merged, int64_t now_ns,
                                    struct hvd_err *err);

/* Counts the bits of a branch, from a BITS message. Failures as above. */
hvd_status_t hvd_negotiator_bits(struct hvd_negotiator *n, int branch,
                                 const struct hvd_reader *bits, int64_t now_ns,
                                 struct hvd_err *err);

/* Remembers which ranks of a branch have requested what the branch as a whole has not, from a
 * PARTIAL message, which is read. For reports of stalls alone. Failures as above. */
hvd_status_t hvd_negotiator_partial(struct hvd_negotiator *n, int branch,
                                    struct hvd_reader *partial, int64_t now_ns,
                                    struct hvd_err *err);

/*
 * Ranks will request nothing any more, because of text; failed: they cannot go on, so nothing can.
 * Again for the same rank has no effect. Failures as above.
 */
hvd_status_t hvd_negotiator_leave(struct hvd_negotiator *n, struct hvd_pos_range who, bool failed,
                                  const char *text, struct hvd_err *err);

/* Whether a rank has failed: then everybody is told at once and nothing follows. */
bool hvd_negotiator_is_aborted(const struct hvd_negotiator *n);

/*
 * The plan made since the last hvd_negotiator_plan_sent, in *plan, borrowed until then; NULL when
 * there is none. Nothing may be counted in between. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE.
 */
hvd_status_t hvd_negotiator_plan(struct hvd_negotiator *n, const struct hvd_buf **plan,
                                 struct hvd_err *err);

/* What every rank is told from the next plan on; see the options. */
void hvd_negotiator_tune(struct hvd_negotiator *n, int64_t fusion_bytes, uint32_t cycle_us);

/* Starts the next plan; the content of the last one is gone. */
void hvd_negotiator_plan_sent(struct hvd_negotiator *n);

/* The coordinator of a set ends it, because of text: a SHUTDOWN step, once. Nobody has left by
 * that. Failures as above. */
hvd_status_t hvd_negotiator_close(struct hvd_negotiator *n, const char *text, struct hvd_err *err);

/* How many tensors some rank waits for. */
size_t hvd_negotiator_waiting(const struct hvd_negotiator *n);

/*
 * Appends to report, as one text, the tensors that have waited for limit_ns and the ranks they wait
 * for; each tensor is reported once. Nothing is appended when there is none. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE.
 */
hvd_status_t hvd_negotiator_stalled(struct hvd_negotiator *n, int64_t now_ns, int64_t limit_ns,
                                    struct hvd_buf *report);

/*
 * The tensor that has waited longest, if since before_ns at least, or the one of its group that it
 * waits for: its name, borrowed until the next call; NULL when there is none. missing: the first
 * *n_missing of the ranks it waits for, as they are numbered in the job; *n_missing becomes how
 * many these are in all.
 */
const char *hvd_negotiator_overdue(const struct hvd_negotiator *n, int64_t before_ns, int *missing,
                                   int *n_missing);

/* Whether a rank at one of these positions has not requested that tensor, as far as is known. */
bool hvd_negotiator_awaits(const struct hvd_negotiator *n, int64_t before_ns, const int *positions,
                           int n_positions);

/*
 * Why a rank has not the group of a tensor that is waited for. A rank whose binding is given a
 * group without tensors does not know how many the others have: it refuses the group of one tensor.
 * The text of that refusal, borrowed until the next call; NULL when there is none, or the tensor is
 * not called "NAME_2of3".
 */
const char *hvd_negotiator_empty_group(const struct hvd_negotiator *n, const char *name);

/* The tensor that has waited longest: its name, borrowed until the next call, and since when; NULL
 * when there is none. */
const char *hvd_negotiator_oldest(const struct hvd_negotiator *n, int64_t *since_ns);

/* Ranks at these positions, at most HVD_SILENT_MAX, do not answer: from now on they are named, and
 * not those that are behind them in the tree. */
void hvd_negotiator_silent(struct hvd_negotiator *n, const int *positions, int n_positions);

/* Whether the rank at a position has left. */
bool hvd_negotiator_has_left(const struct hvd_negotiator *n, int position);

/* The number of a group: from what hvd_group_add makes of the name of each of its n tensors, in any
 * order, beginning with 0. Never 0. */
uint32_t hvd_group_number(uint64_t sum, uint32_t n);
uint64_t hvd_group_add(uint64_t sum, struct hvd_strview name);

#endif
