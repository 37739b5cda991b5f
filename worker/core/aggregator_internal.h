#ifndef HVD_WORKER_CORE_AGGREGATOR_INTERNAL_H
#define HVD_WORKER_CORE_AGGREGATOR_INTERNAL_H

#include "worker/core/aggregator.h"
#include "worker/core/names.h"
#include "worker/core/positions.h"

/* A cached tensor. */
struct hvd_aggregator_slot {
    struct hvd_named named; /* first */
    uint32_t index;
    char name[];
};

/* 64 slots, and what their bits say. */
struct hvd_aggregator_page {
    uint64_t live;
    uint64_t joinable;  /* zeros of joined ranks make sense */
    uint64_t sent;      /* the whole subtree has asked; not in a plan yet */
    uint64_t due;       /* the same, not sent yet */
    uint64_t since[64]; /* bits of ranks that have not seen this plan mean something else */
    int64_t begun_ns[64];
    int n_reported[64];                    /* branches that the parent was told of, in a PARTIAL */
    struct hvd_aggregator_slot *slots[64]; /* owned; NULL: not in use */
    uint64_t seen[];                       /* by branch: what it has requested */
};

struct hvd_aggregator {
    struct hvd_aggregator_options options;
    int size; /* positions of the subtree */
    int n_branches;
    uint64_t epoch;
    bool is_ending;

    /* by bits */
    struct hvd_aggregator_page **pages; /* owned; NULL: no slot of it was ever given */
    uint32_t n_pages;
    uint32_t n_due;   /* pages that may have bits due: those before this one */
    uint64_t changed; /* the last plan that gave a slot a meaning, or took it */
    struct hvd_names cached;

    /* by name */
    struct hvd_names waiting;
    struct hvd_pos_range *ranges; /* scratch; owned */
    uint32_t ranges_room;

    /* positions from the first of the subtree on; owned */
    uint64_t *joined;
    uint64_t *left;
    int *n_joined_of; /* by branch */
    int n_joined;
    bool has_left;

    /* for the parent */
    struct hvd_buf bits;
    struct hvd_buf requests;
    struct hvd_buf partial;
    struct hvd_buf first_leave;
    struct hvd_buf last_leave;
    size_t n_given; /* of these, in this order, hvd_aggregator_next has come past */
};

/* --- aggregator_bits.c ------------------------------------------------------------------------ */

/* Some branch has joined as a whole: what it is the last one missing from is complete. */
void hvd_aggregator_bits_complete(struct hvd_aggregator *r);

/* A step of the plan gives a slot a meaning, or takes it. HVD_ERR_NOMEM. */
hvd_status_t hvd_aggregator_cache(struct hvd_aggregator *r, const struct hvd_step *step);
void hvd_aggregator_uncache(struct hvd_aggregator *r, uint32_t slot);

/* The slots in the plan start again. */
void hvd_aggregator_take(struct hvd_aggregator *r, const struct hvd_reader *plan);

/* The bits that are due, into r->bits, or nothing. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_aggregator_write_bits(struct hvd_aggregator *r);

/* Writes into r->partial which branches have requested slots that have waited since before_ns. */
hvd_status_t hvd_aggregator_write_partial(struct hvd_aggregator *r, int64_t now_ns,
                                          int64_t before_ns);

/* Frees the slots. */
void hvd_aggregator_bits_fini(struct hvd_aggregator *r);

/* --- aggregator.c ----------------------------------------------------------------------------- */

/* Room for one more range in r->ranges; false when out of memory. */
bool hvd_aggregator_room(struct hvd_aggregator *r, uint32_t n);

/* Milliseconds since then, as they stand in a message. */
uint32_t hvd_aggregator_age(int64_t now_ns, int64_t since_ns);

#endif
