#ifndef HVD_WORKER_CORE_CACHE_H
#define HVD_WORKER_CORE_CACHE_H

#include "worker/core/message.h"
#include "worker/core/names.h"

/*
 * The tensors that were agreed before. A rank requests a tensor in a slot by a bit instead of a
 * description. The coordinator assigns slots in the plan, so a slot means the same tensor on every
 * rank. One thread at a time.
 */
struct hvd_cache {
    struct hvd_names _names;
    struct hvd_cache_slot **_slots; /* by index; owned */
    void **_owners;                 /* by index */
    uint32_t _end;
    uint32_t _capacity;
};

/* A cached tensor; the fields that are read most come first. The user's fields start as NULL and
 * HVD_CACHE_NO_SLOT, and disappear with the slot. */
struct hvd_cache_slot {
    uint32_t index;
    uint32_t follower; /* the user's: a slot, or HVD_CACHE_NO_SLOT */
    void *slot_entry;  /* the user's */
    int64_t count;     /* elements of this rank's tensor */
    uint32_t group;    /* 0: not in a group */
    uint32_t group_size;
    uint32_t kind;              /* of hvd_fusion_kind */
    struct hvd_request request; /* this rank's; the name is owned by the cache */
    uint64_t since;             /* the user's */
    int64_t *rows;              /* allgather: by rank; owned by the cache */
    struct hvd_named named;
};

/* Creates an empty cache; the caller destroys it. HVD_ERR_NOMEM. */
hvd_status_t hvd_cache_create(struct hvd_cache **out, struct hvd_err *err);

/* Frees the cache. NULL is allowed. */
void hvd_cache_destroy(struct hvd_cache *c);

/* Returns the slot of a name; NULL when it is not cached. Borrowed until the slot is removed.
 * For a group's head, the slot may belong to a group of another size (group_name.h). */
struct hvd_cache_slot *hvd_cache_find(const struct hvd_cache *c, struct hvd_strview name);

/* Returns the slot of an index; NULL when it is free. Borrowed until the slot is removed. */
static inline struct hvd_cache_slot *hvd_cache_at(const struct hvd_cache *c, uint32_t index)
{
    return index < c->_end ? c->_slots[index] : NULL;
}

/* Returns one more than the highest index that was ever in use. */
static inline uint32_t hvd_cache_end(const struct hvd_cache *c)
{
    return c->_end;
}

/* Returns the user's pointer to what is pending in the slot, whose index is below hvd_cache_end.
 * NULL in a new or free slot. Two threads may share it: a thread that reads a pointer sees all that
 * the other wrote before it stored it. */
static inline void *hvd_cache_owner(const struct hvd_cache *c, uint32_t index)
{
    return __atomic_load_n(&c->_owners[index], __ATOMIC_ACQUIRE);
}

/* Stores the user's pointer, or NULL; see hvd_cache_owner. */
static inline void hvd_cache_own(struct hvd_cache *c, uint32_t index, void *owner)
{
    __atomic_store_n(&c->_owners[index], owner, __ATOMIC_RELEASE);
}

/*
 * Caches this rank's request in the slot that the step names. The caller must first remove the old
 * tensor of that slot, and the slot in which that name was cached. HVD_ERR_NOMEM leaves the cache
 * unchanged.
 */
hvd_status_t hvd_cache_put(struct hvd_cache *c, const struct hvd_request *req,
                           const struct hvd_step *step, struct hvd_err *err);

/* Frees a slot. The index of a free slot is allowed. */
void hvd_cache_remove(struct hvd_cache *c, uint32_t index);

#endif
