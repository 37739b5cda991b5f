#ifndef HVD_WORKER_CORE_AGGREGATOR_INTERNAL_H
#define HVD_WORKER_CORE_AGGREGATOR_INTERNAL_H

#include "worker/core/aggregator.h"
#include "worker/core/names.h"
#include "worker/core/positions.h"

/* A cached tensor. */
struct hvd_aggregator_slot {
    struct hvd_named named; /* first, so that pointers to the two convert */
    uint32_t index;
    char name[];
};

/* 64 slots; each word has one bit for each slot. */
struct hvd_aggregator_page {
    uint64_t live;
    uint64_t joinable;  /* joined ranks can contribute zeros */
    uint64_t sent;      /* the whole subtree has requested it, and no plan contains it yet */
    uint64_t due;       /* of `sent`, those that no message to the parent contains yet */
    uint64_t since[64]; /* the plan that changed the slot; in bits of older epochs it had another
                           meaning */
    int64_t begun_ns[64];
    int n_reported[64];                    /* branches in the last PARTIAL for the slot */
    struct hvd_aggregator_slot *slots[64]; /* owned; NULL: free */
    uint64_t seen[];                       /* by branch: the slots that it has requested */
};

struct hvd_aggregator {
    struct hvd_aggregator_options options;
    int size; /* positions of the subtree */
    int n_branches;
    uint64_t epoch;
    bool is_ending;

    /* requests by bit */
    struct hvd_aggregator_page **pages; /* owned; NULL: none of its slots was ever assigned */
    uint32_t n_pages;
    uint32_t n_due;   /* only pages below this one can have bits due */
    uint64_t changed; /* the last plan that assigned or evicted a slot */
    struct hvd_names cached;

    /* requests by name */
    struct hvd_names waiting;
    struct hvd_pos_range *ranges; /* scratch; owned */
    uint32_t ranges_room;

    /* by position from the subtree's first; owned */
    uint64_t *joined;
    uint64_t *left;
    int *n_joined_of; /* by branch */
    int n_joined;
    bool has_left;

    /* messages for the parent */
    struct hvd_buf bits;
    struct hvd_buf requests;
    struct hvd_buf partial;
    struct hvd_buf first_leave;
    struct hvd_buf last_leave;
    size_t n_given; /* how many of these, in this order, hvd_aggregator_next has passed */
};

/* --- aggregator_bits.c ------------------------------------------------------------------------ */

/* Completes the slots that lacked only a branch of which all ranks have joined now. */
void hvd_aggregator_bits_complete(struct hvd_aggregator *r);

/* Applies a plan's step that assigns a slot, or evicts it. HVD_ERR_NOMEM. */
hvd_status_t hvd_aggregator_cache(struct hvd_aggregator *r, const struct hvd_step *step);
void hvd_aggregator_uncache(struct hvd_aggregator *r, uint32_t slot);

/* Makes the slots in the plan available for new requests. */
void hvd_aggregator_take(struct hvd_aggregator *r, const struct hvd_reader *plan);

/* Writes the bits that are due into r->bits, or nothing if there are none. HVD_ERR_NOMEM,
 * HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_aggregator_write_bits(struct hvd_aggregator *r);

/* Writes into r->partial the branches that have requested slots which have waited since
 * before_ns. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE. */
hvd_status_t hvd_aggregator_write_partial(struct hvd_aggregator *r, int64_t now_ns,
                                          int64_t before_ns);

/* Frees the slots. */
void hvd_aggregator_bits_fini(struct hvd_aggregator *r);

/* --- aggregator.c ----------------------------------------------------------------------------- */

/* Makes room for n ranges in r->ranges; false when out of memory. */
bool hvd_aggregator_room(struct hvd_aggregator *r, uint32_t n);

/* Returns the milliseconds since since_ns, limited to the range of a message's field. */
uint32_t hvd_aggregator_age(int64_t now_ns, int64_t since_ns);

#endif
