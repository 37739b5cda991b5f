#ifndef HVD_WORKER_CORE_NEGOTIATOR_INTERNAL_H
#define HVD_WORKER_CORE_NEGOTIATOR_INTERNAL_H

#include "worker/core/names.h"
#include "worker/core/negotiator.h"
#include "worker/core/positions.h"
#include "worker/core/ready.h"

struct hvd_cluster;

/* Before all mismatches: a rank did not take the tensor. */
#define HVD_REFUSED (-1)

/* A tensor that some ranks have requested by name. */
struct hvd_waiting {
    struct hvd_named named;   /* first */
    struct hvd_request first; /* the name is at `name` */
    int first_position;
    int n_seen;
    int n_refused;    /* of those seen: ranks that did not take it */
    int failed_check; /* 0, or the lowest number of hvd_mismatch so far, or HVD_REFUSED */
    char *text;       /* its sentence; owned */
    int64_t *rows;    /* allgather: first dimension by rank; owned */
    int64_t since_ns;
    bool is_reported;
    bool is_complete;
    bool is_dropped;                   /* fails with a group that ranks have not alike */
    struct hvd_tally *tallies;         /* of such a group's head: see there; owned */
    struct hvd_cluster *cluster;       /* NULL: alone */
    struct hvd_membership *membership; /* groups that it was counted in; owned */
    struct hvd_waiting *next;          /* in the cluster */
    uint64_t *seen;                    /* positions; behind the name, in the same block */
    char name[];
};

/* Ranks that have so many tensors in a group. The head of a group has tallies once ranks have
 * requested it with different numbers. */
struct hvd_tally {
    struct hvd_tally *next;
    uint32_t n_tensors;
    uint64_t asked[]; /* positions */
};

/* Tensors that complete together: those of one group, and of every group of another rank that has
 * one of them. */
struct hvd_cluster {
    struct hvd_waiting *first;
    struct hvd_waiting *last;
    uint32_t n_members;
    uint32_t n_complete;
    uint32_t n_open; /* groups of which not all tensors have come */
};

/* A group of which not all tensors have come. */
struct hvd_open_group {
    struct hvd_open_group *next;
    struct hvd_cluster *cluster;
    uint32_t group;
    uint32_t group_size;
    uint32_t n_left;
};

/* A tensor is in a group. */
struct hvd_membership {
    struct hvd_membership *next;
    uint32_t group;
    uint32_t group_size;
};

/* Ranks that have requested a cached tensor by bit, of branches that have not as a whole. */
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
    uint64_t epoch;                 /* of the plan that was sent last */
    uint64_t *left;                 /* positions */
    uint64_t *joined;               /* the same */
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
 * Enters a tensor into the group that the request of a rank names (nothing when it names none).
 * HVD_ERR_NOMEM, HVD_ERR_INVALID; the tensor is in no group more than before then.
 */
hvd_status_t hvd_group_enter(struct hvd_negotiator *n, struct hvd_waiting *w,
                             const struct hvd_request *req, struct hvd_err *err);

/* Frees the tensor's cluster when the tensor was its last member. */
void hvd_group_leave(struct hvd_waiting *w);

/* Takes what is dropped out of a cluster (NULL is fine). Returns the cluster; NULL when nothing is
 * left: it is freed then. */
struct hvd_cluster *hvd_group_cut(struct hvd_cluster *cluster);

/* Forgets the groups that ranks have begun. */
void hvd_group_fini(struct hvd_negotiator *n);

/* --- tally.c ---------------------------------------------------------------------------------- */

/* Counts how many tensors the ranks of a request have in their group, if it requests a head; before
 * they are marked as seen. HVD_ERR_NOMEM. */
hvd_status_t hvd_tally_count(const struct hvd_negotiator *n, struct hvd_waiting *w,
                             const struct hvd_merged_request *merged);

/* Frees the tallies. */
void hvd_tally_forget(struct hvd_waiting *w);

/* Writes which ranks have how many tensors in the group, where that differs, and why one refused
 * it.
 */
void hvd_tally_explain(const struct hvd_negotiator *n, const struct hvd_waiting *w, char *text,
                       size_t size);

/* Marks the head and all that ranks have requested of its groups as dropped, and takes it out of
 * its cluster. Returns what is left of that; NULL when nothing is. */
struct hvd_cluster *hvd_tally_drop(struct hvd_negotiator *n, struct hvd_waiting *w);

/* --- negotiator_stall.c ----------------------------------------------------------------------- */

/* Forgets who has requested a slot; HVD_CACHE_NO_SLOT: for any. */
void hvd_negotiator_partial_forget(struct hvd_negotiator *n, uint32_t slot);

/* --- negotiator.c ----------------------------------------------------------------------------- */

/* The number in the job of the rank at a position. */
int hvd_negotiator_world_rank(const struct hvd_negotiator *n, int position);

#endif
