#ifndef HVD_WORKER_CORE_READY_H
#define HVD_WORKER_CORE_READY_H

#include "worker/core/message.h"

/*
 * The coordinator's book of cached tensors: which branch has requested which slot, and which slots
 * every branch has requested (or has joined). A branch is the coordinator or a child of its in the
 * tree, with all ranks below. A group is ready when all its slots are.
 */
struct hvd_ready;

/* A book for `size` branches with at most `capacity` slots. HVD_ERR_NOMEM. */
hvd_status_t hvd_ready_create(int size, uint32_t capacity, struct hvd_ready **out,
                              struct hvd_err *err);

/* NULL is fine. */
void hvd_ready_destroy(struct hvd_ready *r);

/* The slot of a name; HVD_CACHE_NO_SLOT when there is none. */
uint32_t hvd_ready_find(const struct hvd_ready *r, struct hvd_strview name);

/* What is cached: copied. */
struct hvd_ready_tensor {
    struct hvd_strview name;
    uint32_t group; /* 0: alone; else the slot of the group's first tensor + 1, or HVD_CACHE_NO_SLOT
                       for this one to be the first */
    uint32_t group_size;
    bool may_join; /* zeros of ranks that joined make sense */
};

/*
 * Gives out a slot from the plan of that epoch on. HVD_CACHE_NO_SLOT in *slot when all are in use.
 * HVD_ERR_NOMEM.
 */
hvd_status_t hvd_ready_assign(struct hvd_ready *r, const struct hvd_ready_tensor *tensor,
                              uint64_t epoch, uint32_t *slot);

/* How many more slots can be given out. */
uint32_t hvd_ready_room(const struct hvd_ready *r);

/* The slot that is to be evicted after this one because they are of one group; HVD_CACHE_NO_SLOT
 * behind the last. Begin with hvd_ready_group_first. */
uint32_t hvd_ready_group_next(const struct hvd_ready *r, uint32_t slot);
uint32_t hvd_ready_group_first(const struct hvd_ready *r, uint32_t slot);

/* Frees a slot from the plan of that epoch on; who has requested it has asked in vain. */
void hvd_ready_evict(struct hvd_ready *r, uint32_t slot, uint64_t epoch);

/* A slot that is in use and has not been ready for at least `age` plans, looking at a few only;
 * HVD_CACHE_NO_SLOT when none was found. */
uint32_t hvd_ready_stale(struct hvd_ready *r, uint64_t epoch, uint64_t age);

/* A slot in use that joined ranks cannot contribute zeros to; HVD_CACHE_NO_SLOT when there is none.
 */
uint32_t hvd_ready_not_joinable(const struct hvd_ready *r);

/* A branch requests the slots in a BITS message. HVD_ERR_INVALID when it has asked before. Slots
 * that it could not know have changed are ignored: it will ask again by name. */
hvd_status_t hvd_ready_bits(struct hvd_ready *r, int branch, const struct hvd_reader *bits,
                            int64_t now_ns, struct hvd_err *err);

/* Some rank of a branch requests the slot since then, the branch as a whole may not; epoch: of what
 * that rank knew. False when that is over already. */
bool hvd_ready_begin(struct hvd_ready *r, uint32_t slot, uint64_t epoch, int64_t since_ns);

/* A slot that some ranks have requested and others have not. */
struct hvd_ready_stall {
    uint32_t slot;
    const char *name; /* borrowed */
    int64_t since_ns;
    bool *is_reported; /* the reporter's; reset when the slot is ready */
};

/* The next one from slot number `from` on, into *stall; false when there is none. */
bool hvd_ready_next_stall(const struct hvd_ready *r, uint32_t from, struct hvd_ready_stall *stall);

/* Whether the branch has neither requested the slot nor joined. */
bool hvd_ready_is_missing(const struct hvd_ready *r, uint32_t slot, int branch);

/* How many slots some ranks have requested and others have not. */
size_t hvd_ready_waiting(const struct hvd_ready *r);

/* All of a branch contribute zeros from now on to what they do not request; all stop doing so. */
void hvd_ready_join(struct hvd_ready *r, int branch);
void hvd_ready_unjoin(struct hvd_ready *r);

/* The ready slots, as words of bits, borrowed until hvd_ready_take; NULL and 0 when there are none.
 */
const uint64_t *hvd_ready_words(const struct hvd_ready *r, uint32_t *n_words);

/* The ready slots are in the plan of that epoch: all start again. */
void hvd_ready_take(struct hvd_ready *r, uint64_t epoch);

#endif
