#ifndef HVD_WORKER_CORE_READY_H
#define HVD_WORKER_CORE_READY_H

#include "worker/core/message.h"

/*
 * The coordinator's book of cached tensors. It records which branch has requested which slot, and
 * which slots every branch has requested, unless it has joined. A branch is the coordinator itself,
 * or one of its children in the tree with its subtree. A group is ready when all its slots are.
 */
struct hvd_ready;

/* Creates a book for `size` branches with at most `capacity` slots; the caller destroys it.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_ready_create(int size, uint32_t capacity, struct hvd_ready **out,
                              struct hvd_err *err);

/* Frees the book. NULL is allowed. */
void hvd_ready_destroy(struct hvd_ready *r);

/* Returns the slot of a name; HVD_CACHE_NO_SLOT when there is none. */
uint32_t hvd_ready_find(const struct hvd_ready *r, struct hvd_strview name);

/* A tensor to cache; the book copies it. */
struct hvd_ready_tensor {
    struct hvd_strview name;
    uint32_t group; /* 0: no group; else the slot of the group's first tensor + 1.
                       HVD_CACHE_NO_SLOT: this tensor is the first */
    uint32_t group_size;
    bool may_join; /* joined ranks can contribute zeros */
};

/*
 * Assigns a slot, valid from the plan of that epoch on. *slot becomes HVD_CACHE_NO_SLOT when all
 * slots are in use. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_ready_assign(struct hvd_ready *r, const struct hvd_ready_tensor *tensor,
                              uint64_t epoch, uint32_t *slot);

/* Returns how many more slots can be assigned. */
uint32_t hvd_ready_room(const struct hvd_ready *r);

/* Iterate over the slots of one group, which must be evicted together: start with
 * hvd_ready_group_first. hvd_ready_group_next returns HVD_CACHE_NO_SLOT after the last. */
uint32_t hvd_ready_group_next(const struct hvd_ready *r, uint32_t slot);
uint32_t hvd_ready_group_first(const struct hvd_ready *r, uint32_t slot);

/* Frees a slot from the plan of that epoch on, and discards the requests for it. */
void hvd_ready_evict(struct hvd_ready *r, uint32_t slot, uint64_t epoch);

/* Returns a slot in use that has not been ready for at least `age` plans. Checks only a few
 * slots in each call; HVD_CACHE_NO_SLOT when it found none. */
uint32_t hvd_ready_stale(struct hvd_ready *r, uint64_t epoch, uint64_t age);

/* Returns a slot in use to which joined ranks cannot contribute zeros; HVD_CACHE_NO_SLOT when
 * there is none. */
uint32_t hvd_ready_not_joinable(const struct hvd_ready *r);

/* Records the requests of a branch in a BITS message. HVD_ERR_INVALID when the branch had
 * requested a slot before. Ignores slots that changed after the message's epoch, because the branch
 * repeats those requests by name. */
hvd_status_t hvd_ready_bits(struct hvd_ready *r, int branch, const struct hvd_reader *bits,
                            int64_t now_ns, struct hvd_err *err);

/* Records that some rank of a branch has requested the slot since since_ns, although the whole
 * branch may not have. epoch: the last plan that this rank had. False when the slot has since been
 * completed, planned or changed. */
bool hvd_ready_begin(struct hvd_ready *r, uint32_t slot, uint64_t epoch, int64_t since_ns);

/* A slot that some ranks have requested and others have not. */
struct hvd_ready_stall {
    uint32_t slot;
    const char *name; /* borrowed */
    int64_t since_ns;
    bool *is_reported; /* the caller's; cleared when the slot becomes ready */
};

/* Finds the next such slot at or after `from`; false when there is none. */
bool hvd_ready_next_stall(const struct hvd_ready *r, uint32_t from, struct hvd_ready_stall *stall);

/* Whether the branch has neither requested the slot nor joined. */
bool hvd_ready_is_missing(const struct hvd_ready *r, uint32_t slot, int branch);

/* Returns how many slots some ranks have requested and others have not. */
size_t hvd_ready_waiting(const struct hvd_ready *r);

/* hvd_ready_join records that all ranks of a branch contribute zeros to tensors that they do not
 * request. hvd_ready_unjoin ends this for all branches. */
void hvd_ready_join(struct hvd_ready *r, int branch);
void hvd_ready_unjoin(struct hvd_ready *r);

/* Returns the ready slots as words of bits, borrowed until hvd_ready_take; NULL and 0 when there
 * are none. */
const uint64_t *hvd_ready_words(const struct hvd_ready *r, uint32_t *n_words);

/* Clears the requests for the ready slots, which the plan of that epoch contains. */
void hvd_ready_take(struct hvd_ready *r, uint64_t epoch);

#endif
