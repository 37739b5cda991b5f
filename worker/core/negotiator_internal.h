#ifndef HVD_WORKER_CORE_NEGOTIATOR_INTERNAL_H
#define HVD_WORKER_CORE_NEGOTIATOR_INTERNAL_H

#include "worker/core/names.h"
#include "worker/core/negotiator.h"
#include "worker/core/positions.h"
#include "worker/core/ready.h"

struct hvd_cluster;

/* Precedes all mismatches: a rank refused the tensor. */
#define HVD_REFUSED (-1)

/* A tensor that some ranks have requested by name. */
struct hvd_waiting {
    struct hvd_named named;   /* first, so that pointers to the two convert */
    struct hvd_request first; /* its name is at `name` */
    int first_position;
    int n_seen;
    int n_refused;    /* how many of the seen ranks refused it */
    int failed_check; /* 0, or the lowest number of hvd_mismatch so far, or HVD_REFUSED */
    char *text;       /* the message of that check; owned */
    int64_t *rows;    /* allgather: first dimension by rank; owned */
    int64_t since_ns;
    bool is_reported;
    bool is_complete;
    bool is_dropped;             /* fails together with groups whose sizes differ between ranks */
    struct hvd_tally *tallies;   /* only at the head of such groups; owned */
    struct hvd_cluster *cluster; /* NULL: no group */
    struct hvd_membership *membership; /* groups that it was counted in; owned */
    struct hvd_waiting *next;          /* the next tensor of the cluster */
    uint64_t *seen;                    /* positions; in this block, after the name */
    char name[];
};

/* Ranks that have n_tensors tensors in a group. The head of a group gets tallies once ranks have
 * requested it with different numbers. */
struct hvd_tally {
    struct hvd_tally *next;
    uint32_t n_tensors;
    uint64_t asked[]; /* positions */
};

/* Tensors that complete together: those of one group, and those of every other group that shares
 * a tensor with it. */
struct hvd_cluster {
    struct hvd_waiting *first;
    struct hvd_waiting *last;
    uint32_t n_members;
    uint32_t n_complete;
    uint32_t n_open; /* groups that still lack a tensor */
};

/* A group that still lacks a tensor. */
struct hvd_open_group {
    struct hvd_open_group *next;
    struct hvd_cluster *cluster;
    uint32_t group;
    uint32_t group_size;
    uint32_t n_left;
};

/* A tensor's membership in a group. */
struct hvd_membership {
    struct hvd_membership *next;
    uint32_t group;
    uint32_t group_size;
};

/* Ranks that have requested a cached tensor by bit, though their branches as a whole have not. */
struct hvd_partial_note {
    struct hvd_partial_note *next;
    uint32_t slot;
    uint64_t seen[]; /* positions */
};

struct hvd_negotiator {
    struct hvd_negotiator_options options;
    struct hvd_names waiting;
    struct hvd_open_group *open_groups; /* owned */
    struct hvd_ready *ready;
    struct hvd_buf plan;
    uint64_t epoch;                 /* of the last plan that was sent */
    uint64_t *left;                 /* positions */
    uint64_t *joined;               /* likewise */
    int *n_joined_of;               /* by branch; owned */
    struct hvd_partial_note *notes; /* owned */
    int size;
    int n_joined;
    uint32_t n_uncached_groups; /* planned so far */
    int silent[HVD_SILENT_MAX]; /* positions */
    int n_silent;
    bool is_ending;
    bool is_aborted;
};

/* --- group.c ---------------------------------------------------------------------------------- */

/*
 * Adds a tensor to the group that a rank's request names, if it names one. On HVD_ERR_NOMEM the
 * tensor is in no more groups than before.
 */
hvd_status_t hvd_group_enter(struct hvd_negotiator *n, struct hvd_waiting *w,
                             const struct hvd_request *req, struct hvd_err *err);

/* Removes the tensor from its cluster, which it frees with the last member. */
void hvd_group_leave(struct hvd_waiting *w);

/* Removes the dropped tensors from a cluster, which may be NULL. Returns the cluster, or frees
 * it and returns NULL when it is empty. */
struct hvd_cluster *hvd_group_cut(struct hvd_cluster *cluster);

/* Frees the open groups. */
void hvd_group_fini(struct hvd_negotiator *n);

/* --- tally.c ---------------------------------------------------------------------------------- */

/* Counts how many tensors the ranks of a request have in their group, if it requests a head. To
 * be called before these ranks are marked as seen. HVD_ERR_NOMEM. */
hvd_status_t hvd_tally_count(const struct hvd_negotiator *n, struct hvd_waiting *w,
                             const struct hvd_merged_request *merged);

/* Frees the tallies. */
void hvd_tally_forget(struct hvd_waiting *w);

/* Writes how many tensors ranks have in the group, where the numbers differ, and why a rank
 * refused it. */
void hvd_tally_explain(const struct hvd_negotiator *n, const struct hvd_waiting *w, char *text,
                       size_t size);

/* Marks the head and all requested tensors of its groups as dropped, and removes them from the
 * head's cluster. Returns the rest of the cluster; NULL when it is empty. */
struct hvd_cluster *hvd_tally_drop(struct hvd_negotiator *n, struct hvd_waiting *w);

/* --- negotiator_stall.c ----------------------------------------------------------------------- */

/* Forgets the partial requests for a slot; HVD_CACHE_NO_SLOT: for all slots. */
void hvd_negotiator_partial_forget(struct hvd_negotiator *n, uint32_t slot);

/* --- negotiator.c ----------------------------------------------------------------------------- */

/* Returns the number in the job of the rank at a position. */
int hvd_negotiator_world_rank(const struct hvd_negotiator *n, int position);

#endif
