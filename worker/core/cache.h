#ifndef HVD_WORKER_CORE_CACHE_H
#define HVD_WORKER_CORE_CACHE_H

#include "worker/core/message.h"
#include "worker/core/names.h"

/*
 * What one rank knows of the tensors that were agreed before: a tensor in a slot is requested by a
 * bit instead of a description. The coordinator gives out slots in the plan, so that a slot means
 * the same tensor on every rank. One thread at a time.
 */
struct hvd_cache {
    struct hvd_names _names;
    struct hvd_cache_slot **_slots; /* by index; owned */
    void **_owners;                 /* by index */
    uint32_t _end;
    uint32_t _capacity;
};

/* A cached tensor, what is looked at most first. What the user keeps in it is NULL and
 * HVD_CACHE_NO_SLOT to begin with, and the cache's to forget. */
struct hvd_cache_slot {
    uint32_t index;
    uint32_t follower; /* the user's: a slot, or HVD_CACHE_NO_SLOT */
    void *slot_entry;  /* the user's */
    int64_t count;     /* elements of this rank's tensor */
    uint32_t group;    /* 0: alone */
    uint32_t group_size;
    uint32_t kind;              /* of hvd_fusion_kind */
    struct hvd_request request; /* this rank's; the name is owned by the cache */
    uint64_t since;             /* the user's */
    int64_t *rows;              /* allgather: by rank; owned by the cache */
    struct hvd_named named;
};

/* An empty cache. HVD_ERR_NOMEM. */
hvd_status_t hvd_cache_create(struct hvd_cache **out, struct hvd_err *err);

/* NULL is fine. */
void hvd_cache_destroy(struct hvd_cache *c);

/* The slot of a name; NULL when it is not cached. Borrowed until it is removed. Of a group's head
 * it may be that of a group of another number of tensors (group_name.h). */
struct hvd_cache_slot *hvd_cache_find(const struct hvd_cache *c, struct hvd_strview name);

/* The slot of an index; NULL when it is free. Borrowed until it is removed. */
static inline struct hvd_cache_slot *hvd_cache_at(const struct hvd_cache *c, uint32_t index)
{
    return index < c->_end ? c->_slots[index] : NULL;
}

/* One more than the highest index in use ever. */
static inline uint32_t hvd_cache_end(const struct hvd_cache *c)
{
    return c->_end;
}

/* What is pending in the slot of an index below hvd_cache_end: the user's. NULL in a slot that is
 * new or free. Two threads may share it: who finds what the other one has put there sees all that
 * was written before. */
static inline void *hvd_cache_owner(const struct hvd_cache *c, uint32_t index)
{
    return __atomic_load_n(&c->_owners[index], __ATOMIC_ACQUIRE);
}

/* Puts it there, or NULL. As above. */
static inline void hvd_cache_own(struct hvd_cache *c, uint32_t index, void *owner)
{
    __atomic_store_n(&c->_owners[index], owner, __ATOMIC_RELEASE);
}

/*
 * Caches what this rank requested in the slot that the step names; what was there, or under that
 * name elsewhere, must be removed before. HVD_ERR_NOMEM; the cache is as it was then.
 */
hvd_status_t hvd_cache_put(struct hvd_cache *c, const struct hvd_request *req,
                           const struct hvd_step *step, struct hvd_err *err);

/* Frees a slot. An index that is free is fine. */
void hvd_cache_remove(struct hvd_cache *c, uint32_t index);

#endif
