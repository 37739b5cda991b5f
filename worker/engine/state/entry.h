#ifndef HVD_WORKER_ENGINE_STATE_ENTRY_H
#define HVD_WORKER_ENGINE_STATE_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>

#include "worker/core/cache.h"
#include "worker/engine/engine.h"

/*
 * Tensors from submission to the end of their wait. Caller holds mu where it says so.
 */

/* A thread in hvd_engine_wait or hvd_engine_shutdown, on its stack. */
struct hvd_waiter {
    const struct hvd_entry *entry; /* NULL: waits for the end of the job */
    bool can_sleep;                /* cond, next and deadline_ns are there; mu */
    struct hvd_waiter *next;
    pthread_cond_t cond;
    int64_t deadline_ns; /* hvd_engine_now_ns() from which on it waits no more; 0: none */
};

struct hvd_entry;

/* How far a tensor is. */
enum hvd_entry_end {
    HVD_ENTRY_PENDING,
    HVD_ENTRY_SIMPLE, /* ended well, nobody has registered to wait, and nothing is to be taken */
    HVD_ENTRY_ENDED,  /* ended; what is to be known about it is under mu */
};

/* In a claim: the entry goes to the pool when its wait has ended. */
#define HVD_TRANSIENT INT64_MIN

/* What a tensor of the library's own brings about once all ranks have it. */
struct hvd_agreement {
    /* Acts on entry->output; entry->status becomes how the tensor ends. Caller is the progress
     * owner, without mu. Failure: this rank has diverged, and the tensor is not finished. */
    hvd_status_t (*follow)(struct hvd_engine *e, struct hvd_entry *entry, struct hvd_err *err);
    /* What a status of it means to the program. */
    const char *(*text)(hvd_status_t status);
};

/*
 * A tensor from submission to the end of its wait, then used again. Once its tensor is cached an
 * entry is the slot's entry: the next submission finds it as it is. Other entries are transient
 * and come from a pool. Memory of entries is given back with the engine only, so any thread may
 * look at the claim of any entry, at any time.
 *
 * claim: the handle (| HVD_TRANSIENT) from submission on; 0: idle. Who exchanges the claim of a
 * done tensor for 0 ends its wait, and nobody else does: see handles.c.
 */
struct hvd_entry {
    /* what a cached tensor needs each time: a line of the cache */
    _Alignas(64) _Atomic int64_t claim;
    int64_t handle; /* the last one */
    const void *input;
    void *data;                  /* the caller's output */
    struct hvd_cache_slot *slot; /* guarded by mu; requested by this bit; NULL: by name */
    struct hvd_waiter *waiter;   /* guarded by mu; NULL: nobody has registered */
    struct hvd_entry *next;      /* in the list that holds it: queue, pool */
    _Atomic uint8_t end;         /* enum hvd_entry_end; set under mu, last */
    bool is_own;                 /* the library's own: has an agreement */
    bool has_completion;         /* its call is made once it has ended */
    bool is_listed;      /* in a list of what is to be requested; the progress owner's once it is */
    hvd_status_t status; /* final once it has ended */

    struct hvd_set *set;
    const struct hvd_agreement *agreement; /* of one that is_own */
    struct hvd_completion completion;
    struct hvd_entry *next_completed;
    void *ready;                   /* see hvd_submission */
    struct hvd_request request;    /* the name is at `name` */
    int64_t *splits;               /* alltoall: rows to each rank, and as many elements; owned */
    int64_t count;                 /* elements of the input */
    int64_t number;                /* join: the last rank; a process set: its number */
    uint32_t group_number;         /* of its group, for all ranks; see hvd_group_number */
    uint32_t numbered_size;        /* that group has so many tensors; 0: no number yet */
    struct horovod_output *output; /* allgather, alltoall; owned until taken */
    char *message;                 /* the reason of a failure; owned, may be NULL */
    char *name;                    /* owned */
    size_t name_room;
    uint32_t index;              /* of its slot, for telemetry; HVD_CACHE_NO_SLOT: none */
    struct hvd_refusal *refusal; /* owned; NULL: it was taken, as nearly all are */
    bool is_behind;              /* a refusal of the same name that is not answered yet */
    bool is_part;                /* this rank's part of `join` in another set; see join.c */
    uint32_t n_parts;            /* of a join that have not ended, itself among them */
    struct hvd_entry *join;      /* of a part; NULL: that has ended */
};

_Static_assert(offsetof(struct hvd_entry, set) <= 64, "what is used each time is in one line");

/* First in, first out. */
struct hvd_entry_list {
    struct hvd_entry *first;
    struct hvd_entry *last;
};

/* Why this rank did not take a tensor that the program submitted, which the others may wait for:
 * see refusal.c. */
struct hvd_refusal {
    uint32_t n_again;         /* refused so often behind this one, before this one was answered */
    struct hvd_entry *behind; /* submitted well since then: waits for the answer; NULL: none */
    struct hvd_entry_list members; /* of a head: those of the group that `behind` is the head of */
    char *reason;                  /* owned */
    char *last_reason;             /* of those behind; owned; NULL: the same */
    uint32_t last_n;               /* likewise of a head: the number of its group */
};

/* Memory of entries. */
struct hvd_entry_block {
    struct hvd_entry_block *next;
    struct hvd_entry *entries; /* in this block, aligned */
    uint32_t n;
};

/* An entry with a handle for the submission: the slot's entry (may be NULL) when that is
 * idle, else a transient one. NULL when out of memory. mu. */
struct hvd_entry *hvd_entry_create(struct hvd_engine *e, const struct hvd_submission *s,
                                   struct hvd_cache_slot *slot);

/* Lets go of an entry whose wait has ended, or that was never submitted. mu. */
void hvd_entry_recycle(struct hvd_engine *e, struct hvd_entry *entry, bool is_transient);

/* Makes the entry of a tensor that of the slot that it is cached in. mu. */
void hvd_entry_settle(struct hvd_entry *entry, struct hvd_cache_slot *slot);

/* The slot is about to be freed: its entry, if any, is transient from now on. mu. */
void hvd_entry_unsettle(struct hvd_engine *e, struct hvd_cache_slot *slot);

/* Frees all entries. */
void hvd_entries_destroy(struct hvd_engine *e);

/* Whether the tensor has ended. Any thread; what it has written can be seen from then on. */
static inline bool hvd_entry_is_done(const struct hvd_entry *entry)
{
    return atomic_load_explicit(&entry->end, memory_order_acquire) != HVD_ENTRY_PENDING;
}

/* Publishes how a tensor ended and wakes who waits for it. mu. */
void hvd_entry_finish(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                      const char *message);

/* The same for one, taking mu. */
void hvd_entry_finish_unlocked(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                               const char *message);

/* The entry has ended: its call is made by the progress owner, who looks for it at the end of each
 * step. mu. */
void hvd_entry_list_completed(struct hvd_engine *e, struct hvd_entry *entry);

/* The same in order, taken off; NULL: there is none. mu. */
struct hvd_entry *hvd_entry_take_completed(struct hvd_engine *e);

/* Appends to a list. */
void hvd_entry_list_add(struct hvd_entry_list *list, struct hvd_entry *entry);

/* Removes the first one; NULL when the list is empty. */
struct hvd_entry *hvd_entry_list_take(struct hvd_entry_list *list);

/* An entry with room for a name of that length and nothing else set; NULL when out of memory. mu.
 */
struct hvd_entry *hvd_entry_take(struct hvd_engine *e, size_t name_room);

/* Puts an entry that has no handle back. mu. */
void hvd_entry_put(struct hvd_engine *e, struct hvd_entry *entry);

/* NULL is fine. */
void hvd_entry_refusal_destroy(struct hvd_refusal *refusal);

#endif
