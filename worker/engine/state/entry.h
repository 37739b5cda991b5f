#ifndef HVD_WORKER_ENGINE_STATE_ENTRY_H
#define HVD_WORKER_ENGINE_STATE_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>

#include "worker/core/cache.h"
#include "worker/engine/engine.h"

/*
 * Tensors from submission to the end of their wait. "mu" in a comment means that the caller holds
 * mu.
 */

/* A thread in hvd_engine_wait or hvd_engine_shutdown, on its stack. */
struct hvd_waiter {
    const struct hvd_entry *entry; /* NULL: it waits for the end of the job */
    bool can_sleep;                /* cond, next and deadline_ns are initialised; under mu */
    struct hvd_waiter *next;
    pthread_cond_t cond;
    int64_t deadline_ns; /* time of hvd_clock_now_ns() at which the wait ends; 0: none */
};

struct hvd_entry;

/* The state of a tensor. */
enum hvd_entry_end {
    HVD_ENTRY_PENDING,
    HVD_ENTRY_SIMPLE, /* succeeded, without a registered waiter and without a result to take */
    HVD_ENTRY_ENDED,  /* ended; mu guards the details */
};

/* Flag in a claim: the entry returns to the pool after its wait. */
#define HVD_TRANSIENT INT64_MIN

/* The effect of one of the library's own tensors once all ranks have it. */
struct hvd_agreement {
    /* Acts on entry->output; entry->status becomes the tensor's status. Only the progress owner
     * calls this, without mu. After a failure this rank has diverged, and the tensor is
     * unfinished. */
    hvd_status_t (*follow)(struct hvd_engine *e, struct hvd_entry *entry, struct hvd_err *err);
    /* Returns the text of such a status for the program. */
    const char *(*text)(hvd_status_t status);
};

/*
 * A tensor from submission to the end of its wait; reused afterwards. The entry of a cached tensor
 * becomes the slot's entry, which the next submission uses as it is. Other entries are transient
 * and come from a pool. The memory of entries is freed only with the engine. So any thread may read
 * the claim of any entry at any time.
 *
 * claim: the handle (| HVD_TRANSIENT) from submission on; 0: idle. The thread that exchanges the
 * claim of a finished tensor for 0 ends its wait. No other thread can: see handles.c.
 */
struct hvd_entry {
    /* all that a cached tensor needs each time, in one line of the CPU's cache */
    _Alignas(64) _Atomic int64_t claim;
    int64_t handle; /* the last one */
    const void *input;
    void *data;                  /* the caller's output */
    struct hvd_cache_slot *slot; /* guarded by mu; its bit requests the tensor; NULL: by name */
    struct hvd_waiter *waiter;   /* guarded by mu; NULL: none is registered */
    struct hvd_entry *next;      /* in the list that contains it: queue or pool */
    _Atomic uint8_t end;         /* enum hvd_entry_end; set under mu, after all other fields */
    bool is_own;                 /* one of the library's own tensors; has an agreement */
    bool has_completion;         /* its callback must be called after its end */
    bool is_listed;      /* in a list of tensors to request; the progress owner's from then on */
    hvd_status_t status; /* final after its end */

    struct hvd_set *set;
    const struct hvd_agreement *agreement; /* valid if is_own */
    struct hvd_completion completion;
    struct hvd_entry *next_completed;
    struct hvd_device_event *ready; /* a user of the input's event; NULL: none, or the device has
                                       it */
    struct hvd_device_event *event; /* a user of the result's event; NULL: the result is there */
    struct hvd_request request;     /* the name is at `name` */
    int64_t *splits;                /* alltoall: rows to each rank, and as many elements; owned */
    int64_t count;                  /* elements of the input */
    int64_t number;                 /* join: the last rank; a process set: its number */
    uint32_t group_number;          /* of its group, the same on all ranks; see hvd_group_number */
    uint32_t numbered_size;         /* the number of tensors in that group; 0: no number yet */
    struct horovod_output *output;  /* allgather, alltoall; owned until taken */
    char *message;                  /* why it failed; owned, may be NULL */
    char *name;                     /* owned */
    size_t name_room;
    uint32_t index;              /* of its slot, for telemetry; HVD_CACHE_NO_SLOT: none */
    struct hvd_refusal *refusal; /* owned; NULL: not refused, the usual case */
    bool is_behind;              /* waits for the answer to a refusal of its name */
    bool is_part;                /* this rank's part of `join` in another set; see join.c */
    uint32_t n_parts;            /* unfinished parts of a join, including the join itself */
    struct hvd_entry *join;      /* of a part; NULL: the join has ended */
};

_Static_assert(offsetof(struct hvd_entry, set) <= 64, "what is used each time is in one line");

/* First in, first out. */
struct hvd_entry_list {
    struct hvd_entry *first;
    struct hvd_entry *last;
};

/* Why this rank refused a tensor that the program submitted and for which other ranks may wait:
 * see refusal.c. */
struct hvd_refusal {
    uint32_t n_again;              /* later refusals of the name, before this one was answered */
    struct hvd_entry *behind;      /* a later submission, which waits for the answer; NULL: none */
    struct hvd_entry_list members; /* of a head: the other tensors of the group of `behind` */
    char *reason;                  /* owned */
    char *last_reason;             /* of the latest refusal; owned; NULL: the same */
    uint32_t last_n;               /* likewise, of a head: the number of tensors in its group */
};

/* A block of entries. */
struct hvd_entry_block {
    struct hvd_entry_block *next;
    struct hvd_entry *entries; /* in this block, aligned */
    uint32_t n;
};

/* Returns an entry with a handle for the submission: the slot's entry if it is idle, else a
 * transient one. slot may be NULL. NULL when out of memory. mu. */
struct hvd_entry *hvd_entry_create(struct hvd_engine *e, const struct hvd_submission *s,
                                   struct hvd_cache_slot *slot);

/* Releases an entry whose wait has ended, or that was never submitted. mu. */
void hvd_entry_recycle(struct hvd_engine *e, struct hvd_entry *entry, bool is_transient);

/* Makes a tensor's entry the entry of the slot in which the tensor is cached. mu. */
void hvd_entry_settle(struct hvd_entry *entry, struct hvd_cache_slot *slot);

/* Makes the slot's entry, if any, transient, before the slot is freed. mu. */
void hvd_entry_unsettle(struct hvd_engine *e, struct hvd_cache_slot *slot);

/* Frees all entries. */
void hvd_entries_destroy(struct hvd_engine *e);

/* Whether the tensor has ended. Any thread; all that the tensor's end wrote is then visible. */
static inline bool hvd_entry_is_done(const struct hvd_entry *entry)
{
    return atomic_load_explicit(&entry->end, memory_order_acquire) != HVD_ENTRY_PENDING;
}

/* Whether it has ended simply, as for hvd_entry_is_done. */
static inline bool hvd_entry_is_simple(const struct hvd_entry *entry)
{
    return atomic_load_explicit(&entry->end, memory_order_acquire) == HVD_ENTRY_SIMPLE;
}

/* Publishes the status of a tensor and wakes its waiter. mu. */
void hvd_entry_finish(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                      const char *message);

/* Does the same, and takes mu itself. */
void hvd_entry_finish_unlocked(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                               const char *message);

/* Appends an entry that has ended to those whose callbacks the progress owner calls at the end
 * of each step. mu. */
void hvd_entry_list_completed(struct hvd_engine *e, struct hvd_entry *entry);

/* Removes the first such entry and returns it; NULL when there is none. mu. */
struct hvd_entry *hvd_entry_take_completed(struct hvd_engine *e);

/* Appends to a list. */
void hvd_entry_list_add(struct hvd_entry_list *list, struct hvd_entry *entry);

/* Removes the first one; NULL when the list is empty. */
struct hvd_entry *hvd_entry_list_take(struct hvd_entry_list *list);

/* Returns an entry with room for a name of that length, and all other fields unset; NULL when
 * out of memory. mu. */
struct hvd_entry *hvd_entry_take(struct hvd_engine *e, size_t name_room);

/* Returns an entry without a handle to the pool. mu. */
void hvd_entry_put(struct hvd_engine *e, struct hvd_entry *entry);

/* Frees a refusal. NULL is allowed. */
void hvd_entry_refusal_destroy(struct hvd_refusal *refusal);

#endif
