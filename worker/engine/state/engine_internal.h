#ifndef HVD_WORKER_ENGINE_STATE_ENGINE_INTERNAL_H
#define HVD_WORKER_ENGINE_STATE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/text.h"
#include "worker/core/aggregator.h"
#include "worker/core/cache.h"
#include "worker/core/fusion.h"
#include "worker/core/heartbeat.h"
#include "worker/core/negotiator.h"
#include "worker/core/op_layout.h"
#include "worker/core/table.h"
#include "worker/engine/engine.h"

/* A thread in hvd_engine_wait or hvd_engine_shutdown, on its stack. */
struct hvd_waiter {
    const struct hvd_entry *entry; /* NULL: waits for the end of the job */
    bool can_sleep;                /* cond, next and deadline_ns are there; mu */
    struct hvd_waiter *next;
    pthread_cond_t cond;
    int64_t deadline_ns; /* hvd_engine_now_ns() from which on it waits no more; 0: none */
};

/* How far a tensor is. */
enum hvd_entry_end {
    HVD_ENTRY_PENDING,
    HVD_ENTRY_SIMPLE, /* ended well, nobody has registered to wait, and nothing is to be taken */
    HVD_ENTRY_ENDED,  /* ended; what is to be known about it is under mu */
};

/* In a claim: the entry goes to the pool when its wait has ended. */
#define HVD_TRANSIENT INT64_MIN

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
    bool changes_sets;           /* its result is an agreement about process sets */
    bool is_listed;      /* in a list of what is to be requested; the progress owner's once it is */
    hvd_status_t status; /* final once it has ended */

    struct hvd_set *set;
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

#define HVD_HANDLE_CHUNKS 26

/* Handles to entries; a handle holds a generation, so that an old one is not taken for a new one.
 * The records lie in chunks that stay where they are, each twice as large as the one before. */
struct hvd_handles {
    struct hvd_handle_record *_Atomic chunks[HVD_HANDLE_CHUNKS]; /* owned */
    uint32_t n_records;
    uint32_t first_free; /* index + 1; 0: none */
};

/* Memory of entries. */
struct hvd_entry_block {
    struct hvd_entry_block *next;
    struct hvd_entry *entries; /* in this block, aligned */
    uint32_t n;
};

/* That a fused operation under way reads or writes memory of that address. */
struct hvd_use {
    struct hvd_use *next; /* in a bucket of the set */
    const void *at;
    const struct hvd_fused_op *fused_op;
    bool writes;
};

/* A tensor of a fused operation. */
struct hvd_member {
    struct hvd_entry *entry; /* NULL: this rank has joined and contributes zeros */
    uint32_t slot;           /* in a cached execution plan */
    bool is_shared;          /* has memory of a member before it, and moves in a copy */
    int64_t count;
};

/* Tensors that move as one collective. */
struct hvd_fused_op {
    struct hvd_fused_op *next; /* in todo */
    struct hvd_exec_plan *exec_plan;
    struct hvd_request request; /* of its first tensor, for what they have in common; no name */
    struct hvd_work work;
    struct hvd_collective move;
    struct hvd_member *members; /* in the execution plan's block */
    struct hvd_piece *pieces;   /* the same; NULL for one tensor alone */
    struct hvd_use *uses;       /* the same, with room for two of each member */
    uint32_t n_members;
    uint32_t n_uses;             /* while it is under way */
    int64_t *by_rank;            /* allgather: agreed rows; reducescatter: elements; owned */
    int64_t *splits;             /* alltoall: the entry's; owned */
    void *zeros;                 /* for ranks that joined; owned */
    void *copies;                /* of members that share memory; owned */
    struct hvd_staging *staging; /* on the device, or on its way; owned; NULL: of the host */
    int64_t since_ns;            /* agreed; 0: stalls are not looked for */
    bool is_prepared;            /* `work` and `move` hold the next time too, but for the memory */
    bool is_second;              /* its first collective has landed */
    bool has_more; /* behind what moves comes another one: alltoall with its splits, Adasum */
};

/* An agreed set of tensors, divided into fused operations. One that came as bits is kept, and used
 * again when the same bits come. */
struct hvd_exec_plan {
    struct hvd_exec_plan *next; /* in set->exec_plans */
    uint64_t *key;              /* the bits; in the execution plan's block; NULL: not cached */
    uint32_t n_key;
    size_t room; /* bytes of the block */
    int64_t fusion;
    bool is_whole;   /* cached: this rank has all its tensors */
    uint32_t n_open; /* fused operations that are not done */
    uint32_t n_fused_ops;
    struct hvd_fused_op *fused_ops;
};

/* The library's own tensor: what ranks say about process sets. */
#define HVD_CHANGE_NAME "process_set.change"

#define HVD_MOVING_MAX 8
#define HVD_USES_BITS 9

/* What is requested at once. */
struct hvd_outgoing {
    struct hvd_entry *first; /* by name, and those on a device */
    uint32_t n_words;        /* of the set's `bits`, for all others */
};

/* A process set, as its members and nobody else has it. */
struct hvd_set {
    uint32_t id;
    struct hvd_self self; /* in the set */
    struct hvd_tree tree; /* over its ranks; constant, as the next one */
    struct hvd_node node; /* this rank in it */
    int *ranks;           /* of the job, by rank of the set; owned */
    int64_t *ones;        /* by rank: each 1; owned */

    /* guarded by mu */
    struct hvd_cache *cache;
    struct hvd_table *table;     /* requested by name, not in a plan yet */
    struct hvd_entry_list queue; /* to be requested by name, or on a device; not sent yet */
    uint64_t *queued_bits;       /* to be requested by bits, likewise; owned */
    uint32_t n_queued_words;     /* of them have been set */
    uint32_t n_words;            /* there is room for, here and in `bits` */
    uint32_t last;               /* the slot that was submitted last; HVD_CACHE_NO_SLOT */
    bool is_ended;               /* nothing may be submitted */
    uint64_t n_unnamed[HVD_REDUCESCATTER + 1]; /* tensors without a name, by operation */
    bool is_join_pending;
    uint32_t n_refusals; /* in the table, not answered yet */

    /* the progress owner's */
    struct hvd_negotiator *negotiator; /* of the set's first rank; owned */
    struct hvd_aggregator *aggregator; /* of the tree's other inner nodes; owned */
    struct hvd_heartbeat *heartbeat;   /* owned; NULL: alone, or stalls are not looked for */
    int64_t pending;                   /* the handle that waited to be agreed when it looked last */
    int64_t pending_ns;                /* since when */
    struct hvd_buf message;
    uint64_t epoch;               /* of the plan that was followed last */
    uint64_t changed;             /* of the last plan that changed what a slot stands for */
    struct hvd_outgoing outgoing; /* taken from the queues, not requested yet */
    uint64_t *bits;               /* of that, and being sent, else 0; owned */
    struct hvd_fusable *items;    /* scratch of the plan at hand; owned */
    struct hvd_agreed *agreed;
    struct hvd_batch *batches;
    uint32_t n_agreed;
    uint32_t agreed_room;
    struct hvd_exec_plan *exec_plans; /* cached, or under way */
    uint32_t n_exec_plans;
    struct hvd_exec_plan *spare; /* memory for the next one; owned */
    unsigned n_traced;           /* the timeline that has been told of the slots */
    struct hvd_fused_op *todo;   /* in the agreed order, not started */
    struct hvd_fused_op *todo_last;
    struct hvd_fused_op *moving[HVD_MOVING_MAX];
    int n_moving;
    struct hvd_use *uses[1 << HVD_USES_BITS]; /* of what moves, by address */
    uint64_t n_landed; /* fused operations, or phases of them, that have moved to their end */
    bool is_held;      /* what moves has more to come: nothing may overtake it */
    struct hvd_adasum *adasum;        /* its memory; owned; NULL: never used */
    struct hvd_entry_list unready;    /* their inputs are not there yet; not requested */
    struct hvd_set_device *on_device; /* owned; NULL: nothing of the set was on it yet */
};

/* How a set ends that was removed: its coordinator's word, which may come before this rank has
 * followed the agreement itself. */
#define HVD_SET_REMOVED "Process set has been removed"

/* What every rank knows of a set. */
struct hvd_set_info {
    int *ranks; /* sorted; owned */
    int n_ranks;
    bool is_removed;
};

/* A message about a set that this rank has not made yet. */
struct hvd_early {
    struct hvd_early *next;
    int from;
    uint32_t set;
    size_t len;
    char data[];
};

/* A tensor of the plan at hand. */
struct hvd_agreed {
    struct hvd_entry *entry; /* NULL: this rank has joined */
    uint32_t slot;
    uint32_t group;                    /* as everybody knows it */
    int64_t *rows;                     /* allgather; owned unless slot says where it is */
    const struct hvd_request *request; /* that of the entry or the slot; or `own` */
    struct hvd_request *own;           /* of other ranks; owned */
};

struct hvd_engine {
    struct hvd_topology topology;      /* constant */
    struct hvd_engine_options options; /* constant, but for cycle_ns and fusion_bytes, which the
                                          progress owner changes under mu */
    pthread_t owner;                   /* constant: who made it; drives alone if thread_bound */
    pthread_t background;
    bool has_background; /* guarded by the caller of shutdown */
    bool is_crowded;     /* constant: more ranks on this host than processors, so never spin */

    pthread_mutex_t mu; /* never held while calling a log or the transport, but for listen, wake */
    /* guarded by mu */
    struct hvd_handles handles;
    struct hvd_set_info *infos;     /* of every set, as all ranks know it; owned */
    struct hvd_entry *pool;         /* transient entries to be used again */
    struct hvd_entry_block *blocks; /* of all entries; owned */
    struct hvd_waiter *waiters;
    uint32_t last_group;
    int64_t first_queued_ns; /* when the first of the queues came in, which may be held back from
                                then on; 0: it is not; the clock is read once a batch */
    int64_t queued_bytes;
    bool is_new_batch;       /* the first of a batch was queued just now */
    bool has_progress_owner; /* some thread runs step(): it owns the progress owner's section */
    pthread_cond_t *sleeper; /* the progress owner sleeps on it; signal to hand it work */
    bool is_asleep; /* the progress owner sleeps in the transport; wake it to hand it work */
    pthread_cond_t background_cond;
    bool is_deep;       /* the background sleeps until it is signalled */
    bool must_stop;     /* the background thread */
    bool is_ended;      /* nothing may be submitted: `cause` says why */
    int64_t stalled_ns; /* when a stall ended the job, in order; 0: none has */
    char *cause;        /* owned; NULL when there was no memory for it */
    /* set under mu, read anywhere */
    atomic_size_t n_queued;
    atomic_size_t n_outstanding; /* submitted and not done */
    atomic_size_t n_waiters;
    atomic_ulong n_submitted;
    atomic_bool is_leaving;       /* shutdown was called here */
    atomic_bool is_urgent;        /* somebody polls: what is queued is not held back */
    atomic_bool has_lost_refusal; /* there was no memory to announce one */
    atomic_bool is_over; /* every rank has left, or nothing can be heard of them any more */

    struct hvd_set *
        *sets; /* by number; changed by the progress owner under mu; owned; may have gaps */
    uint32_t n_sets;

    /* the progress owner's */
    struct hvd_transport *transport;
    struct horovod_output *orphans; /* of aborted collectives; owned */
    struct hvd_engine_counters
        counters;            /* see hvd_telemetry_add; the background counts its wake-ups */
    struct hvd_early *early; /* in the order they came; owned */
    struct hvd_set *making;  /* a set whose members are waited for; NULL: none */
    int64_t making_ns;       /* since when */
    int n_on_device;         /* events of the device that are waited for */
    bool has_taken;          /* what is to be requested: in `outgoing` of the sets */
    bool is_leave_sent;
    bool is_down; /* the plan said so */
    int n_done;   /* children that have told, after that, that they are done with all under them */
    bool is_done; /* this rank with all under it, and the parent is told */
    bool is_aborted;           /* the peers cannot be counted on */
    bool has_reported_failure; /* to telemetry */
    int64_t next_stall_check_ns;
    int64_t now_ns;  /* of this step; 0 where stalls are not looked for */
    int64_t left_ns; /* when a rank left that this one knows of; 0: none has */
    bool is_stay_warned;
    bool is_stall_reported;      /* to rank 0, which has not ended the job for it yet */
    int64_t reported_ns;         /* when rank 0 was told of that, or that a rank is lost ... */
    char reported[HVD_TEXT_MAX]; /* ... and what */
};

/* --- handles.c: caller holds mu where nothing else is said ------------------------------------ */

/* Gives the entry a handle (entry->handle) and a claim, transient. HVD_ERR_NOMEM. */
hvd_status_t hvd_handles_add(struct hvd_handles *h, struct hvd_entry *entry);

/* Gives an idle slot entry its next handle. */
void hvd_handles_renew(struct hvd_entry *entry);

/* The entry of a handle; NULL when it is not one of ours or its wait has ended. Any thread, without
 * mu: the entry may have ended before the caller looks at it. */
struct hvd_entry *hvd_handles_find(const struct hvd_handles *h, int64_t handle);

/* Ends the wait of a slot entry that has ended simply; whether it was that, and nobody else did so
 * before. Any thread, without mu. */
bool hvd_handles_end_simply(const struct hvd_handles *h, int64_t handle);

/* Ends the wait of an entry that has ended; false when somebody else has done so. *is_transient:
 * whether the entry has to go to the pool. */
bool hvd_handles_end(struct hvd_entry *entry, int64_t handle, bool *is_transient);

/* Forgets the entry; its handle is unknown from then on. */
void hvd_handles_remove(struct hvd_handles *h, struct hvd_entry *entry);

/* Frees the table, not the entries. */
void hvd_handles_fini(struct hvd_handles *h);

/* --- entry.c: caller holds mu where it says so ------------------------------------------------ */

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

/* Going through a fused operation, at member i: what is needed soon is on its way into the cache by
 * then, for the entries lie in the order of their first submission. */
static inline void hvd_fetch_member(const struct hvd_fused_op *f, uint32_t i)
{
    if (i + 8 < f->n_members)
        __builtin_prefetch(f->members[i + 8].entry, 1);
}

/* Adds to a number that only holders of mu change. mu. */
static inline void hvd_add(atomic_size_t *number, size_t n)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + n,
                          memory_order_release);
}

/* Who watches the entry: nobody the library's own. */
static inline struct hvd_telemetry *hvd_entry_telemetry(const struct hvd_engine *e,
                                                        const struct hvd_entry *entry)
{
    return entry->changes_sets ? NULL : e->options.telemetry;
}

/* Whether the fused operation's tensors were cached when they were agreed. */
static inline bool hvd_fused_op_is_cached(const struct hvd_fused_op *f)
{
    return f->members[0].slot != HVD_CACHE_NO_SLOT;
}

/* Publishes how a tensor ended and wakes who waits for it. mu. */
void hvd_entry_finish(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                      const char *message);

/* The same for all tensors of a fused operation. mu. */
void hvd_entries_finish(struct hvd_engine *e, const struct hvd_fused_op *f, hvd_status_t status,
                        const char *message);

/* The same for one, taking mu. */
void hvd_entry_finish_unlocked(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                               const char *message);

/* Appends to a list. */
void hvd_entry_list_add(struct hvd_entry_list *list, struct hvd_entry *entry);

/* Removes the first one; NULL when the list is empty. */
struct hvd_entry *hvd_entry_list_take(struct hvd_entry_list *list);

/* An entry with room for a name of that length and nothing else set; NULL when out of memory. mu.
 */
struct hvd_entry *hvd_entry_take(struct hvd_engine *e, size_t name_room);

/* Puts an entry that has no handle back. mu. */
void hvd_entry_put(struct hvd_engine *e, struct hvd_entry *entry);

/* --- refusal.c -------------------------------------------------------------------------------- */

/* NULL is fine. */
void hvd_refusal_destroy(struct hvd_refusal *refusal);

/* The refusal that has to be answered before the name is requested: that of the name, or of the
 * head of its group. NULL when there is none. mu. */
struct hvd_entry *hvd_refusal_find(const struct hvd_set *set, struct hvd_strview name);

/* Lines an entry up behind a refusal that hvd_refusal_find has given. False when one of that name
 * waits there already. mu. */
bool hvd_refusal_follow(struct hvd_entry *refused, struct hvd_entry *entry);

/* Takes an entry back that has lined up behind a refusal. mu. */
void hvd_refusal_unfollow(struct hvd_entry *entry);

/* What the others are told: rank, tensor and reason, into text. Caller is the progress owner. */
struct hvd_strview hvd_refusal_text(const struct hvd_engine *e, const struct hvd_entry *entry,
                                    char *text, size_t size);

/* All ranks have requested the name, or refused it, and it has failed for all: the next refusal of
 * the name goes out, or what was submitted behind. The entry is off the table since mu was taken:
 * in between the program could use its name. HVD_ERR_NOMEM. Holds mu. */
hvd_status_t hvd_refusal_answered(struct hvd_engine *e, struct hvd_set *set,
                                  struct hvd_entry *entry, struct hvd_err *err);

/* The set has ended: nobody asks any more. What was submitted behind ends with the text. mu. */
void hvd_refusal_drop(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                      const char *text);

/* --- join.c: mu where nothing else is said ---------------------------------------------------- */

/* This rank joins, which is about to be queued: it does so in all its sets. HVD_ERR_NOMEM: in none.
 */
hvd_status_t hvd_join_begin(struct hvd_engine *e, struct hvd_entry *join);

/* The set was made just now: joins it if this rank has joined. HVD_ERR_NOMEM. Takes mu. */
hvd_status_t hvd_join_enter(struct hvd_engine *e, struct hvd_set *set);

/* A join, or a part of one, has ended well or with its set: finishes the join with its last part.
 */
void hvd_join_ended(struct hvd_engine *e, struct hvd_entry *entry);

/* The join ends with the job: its parts end for themselves. */
void hvd_join_forget(const struct hvd_engine *e, const struct hvd_entry *join);

/* --- set.c ------------------------------------------------------------------------------------ */

/* A process set of the given ranks of the job, this one among them. HVD_ERR_NOMEM. */
hvd_status_t hvd_set_create(const struct hvd_engine *e, uint32_t id, const int *ranks, int n_ranks,
                            struct hvd_set **out, struct hvd_err *err);

/* Makes room for the bits of all slots that there are. HVD_ERR_NOMEM. Caller is the progress owner
 * and holds mu. */
hvd_status_t hvd_set_make_room(struct hvd_set *set);

/* Forgets a set that was removed and has nothing to do any more; whether it was one. What peers
 * still say about it is not heard. Caller is the progress owner. */
bool hvd_set_retire(struct hvd_engine *e, struct hvd_set *set);

/* Frees the set and what it still has to do, not its entries. NULL is fine. */
void hvd_set_destroy(struct hvd_set *set);

/* The set of that number, of which this rank is a member; NULL when there is none. */
struct hvd_set *hvd_set_find(const struct hvd_engine *e, uint32_t id);

/* The rank in the set of a rank of the job; -1 when it is not a member. */
int hvd_set_rank_of(const struct hvd_set *set, int world_rank);

/* --- agree_set.c: caller is the progress owner, without mu ------------------------------------ */

/* Makes the next process set; may wait for its other members. HVD_ERR_NOMEM, HVD_ERR_SYSTEM: the
 * ranks have diverged then. */
hvd_status_t hvd_agree_set_register(struct hvd_engine *e, const int *ranks, int n_ranks,
                                    uint32_t *id, struct hvd_err *err);

/* All ranks have said what they want of the process sets: does it. entry->status becomes how it
 * ends. Failure: as above. */
hvd_status_t hvd_agree_set_changed(struct hvd_engine *e, struct hvd_entry *entry,
                                   struct hvd_err *err);

/* --- make_set.c: caller is the progress owner, without mu ------------------------------------- */

/* Has the transport make what the set needs, in which all members take part; answers other ranks
 * meanwhile. HVD_ERR_GONE: the job ends, for the reason in err; otherwise as add_set. */
hvd_status_t hvd_make_set(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* --- exec_plan.c: caller is the progress owner, without mu ------------------------------------ */

/* Makes room for one more agreed tensor of the plan at hand and returns it, zeroed and counted.
 * NULL when out of memory. */
struct hvd_agreed *hvd_exec_plan_agree(struct hvd_set *set);

/* Forgets the agreed tensors of the plan at hand. */
void hvd_exec_plan_forget(struct hvd_set *set);

/* Puts the agreed tensors on their way, in order. HVD_ERR_NOMEM, HVD_ERR_INVALID: their entries end
 * with the job. */
hvd_status_t hvd_exec_plan_begin(struct hvd_engine *e, struct hvd_set *set, int64_t fusion,
                                 struct hvd_err *err);

/* The same for the cached tensors of a plan. */
hvd_status_t hvd_exec_plan_begin_bits(struct hvd_engine *e, struct hvd_set *set,
                                      const struct hvd_reader *plan, struct hvd_err *err);

/* A slot has changed its meaning: cached execution plans are not used any more. */
void hvd_exec_plan_invalidate(struct hvd_set *set);

/* One fused operation of the execution plan is done or given up; frees the execution plan when it
 * is the last and not cached. */
void hvd_exec_plan_release(struct hvd_set *set, struct hvd_exec_plan *exec_plan);

/* Frees the execution plan and all that its fused operations own. NULL is fine. */
void hvd_exec_plan_destroy(struct hvd_exec_plan *exec_plan);

/* --- sharing.c: caller is the progress owner, without mu -------------------------------------- */

/* Notes the memory of a fused operation that is to start; of the host: and copies what its members
 * share. HVD_INPROGRESS, and nothing is noted, while another fused operation of the set has some of
 * it; HVD_ERR_NOMEM. */
hvd_status_t hvd_sharing_claim(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err);

/* The results of the copies go to their tensors. */
void hvd_sharing_write_back(struct hvd_fused_op *f);

/* The fused operation is done with its memory, noted or not. */
void hvd_sharing_release(struct hvd_set *set, struct hvd_fused_op *f);

/* --- fused_op.c: caller is the progress owner, without mu ------------------------------------- */

/* Puts a fused operation, whose members have their entries, on its way: finishes it when there is
 * nothing to move, else appends it to todo. */
hvd_status_t hvd_fused_op_begin(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* The name that a fused operation is told by: of its first tensor. Borrowed. */
const char *hvd_fused_op_name(const struct hvd_fused_op *f);

/* Starts what may start and tests what moves. Failure: the transport is broken. */
hvd_status_t hvd_fused_op_progress(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                   struct hvd_err *err);

/* --- tune.c: caller is the progress owner, without mu ----------------------------------------- */

/* A fused operation has landed, its entries are not finished yet: counts it, and sets what comes of
 * it. There is an autotune. */
void hvd_tune_landed(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f);

/* --- trace_hooks.c: for the timeline and the recorder; caller is the progress owner ----------- */

/* Cached tensors were requested here. */
void hvd_trace_hooks_requested(struct hvd_engine *e, struct hvd_set *set, const uint64_t *words,
                               uint32_t n_words);

/* The coordinator has heard that a rank of the job requests cached tensors. */
void hvd_trace_hooks_ready_bits(struct hvd_engine *e, struct hvd_set *set, int rank,
                                const struct hvd_reader *bits);

/* Cached tensors are in a plan, and laid out. */
void hvd_trace_hooks_agreed(struct hvd_engine *e, struct hvd_set *set,
                            const struct hvd_exec_plan *exec_plan);

/* A fused operation starts. */
void hvd_trace_hooks_started(struct hvd_engine *e, struct hvd_set *set,
                             const struct hvd_fused_op *f);

/* A fused operation of cached tensors has ended well. */
void hvd_trace_hooks_ended(struct hvd_engine *e, const struct hvd_fused_op *f);

/* A cached tensor has ended. */
void hvd_trace_hooks_slot_ended(struct hvd_engine *e, const struct hvd_entry *entry,
                                hvd_status_t status);

/* A tensor is in a slot from now on. */
void hvd_trace_hooks_slot(struct hvd_engine *e, struct hvd_set *set,
                          const struct hvd_cache_slot *slot);

/* --- plan_apply.c: caller is the progress owner, without mu ----------------------------------- */

/* Follows a plan of the coordinator, of which nothing has been read yet. */
hvd_status_t hvd_plan_apply(struct hvd_engine *e, struct hvd_set *set, struct hvd_reader reader,
                            struct hvd_err *err);

/* --- job_end.c: caller is the progress owner, without mu -------------------------------------- */

/* The program is told that the job has ended, with the text: horovodrun is to know as well. */
void hvd_job_end_note(const char *text);

/* Nothing may be submitted to the set any more; what is not agreed yet ends with the text. */
void hvd_job_end_set(struct hvd_engine *e, struct hvd_set *set, const char *text);

/* The job ends in order, because a rank has called for that, or a tensor has stalled: the same for
 * all sets, as their coordinators say so. */
hvd_status_t hvd_job_end_pending(struct hvd_engine *e, const char *cause, struct hvd_err *err);

/* Gives up what is agreed as well: some rank will not do its part. */
void hvd_job_end_abort(struct hvd_engine *e, const char *cause);

/* Why the job has ended, as the first word of it was; empty where that is not known. */
void hvd_job_end_first_cause(struct hvd_engine *e, char text[HVD_TEXT_MAX + 1]);

/* Gives up a job that a stall has ended, and that others may still leave in order: here and for
 * all. */
void hvd_job_end_abandon_stalled(struct hvd_engine *e);

/* Tells who has to know that nothing goes on because of text, which is about the rank `whose`: rank
 * 0 tells all others, the others tell rank 0. Not through the tree, a part of which may be what is
 * lost; but where rank 0 is lost, its subtrees. */
void hvd_job_end_announce(struct hvd_engine *e, int whose, const char *text);

/* Tells the coordinator, directly, that the job is to end because of that rank. HVD_ERR_UNAVAILABLE
 * when it is lost. */
hvd_status_t hvd_job_end_report(struct hvd_engine *e, int whose, enum hvd_leave_why why,
                                const char *text);

/* This rank cannot go on: tells the others, through the coordinator, and ends everything here.
 * HVD_ERR_GONE: because the coordinator is lost, as err says. */
void hvd_job_end_fail(struct hvd_engine *e, const struct hvd_err *err);

/* Frees what was abandoned, once nothing writes to it any more. */
void hvd_job_end_free_lost(struct hvd_engine *e);

/* --- progress.c: caller is the progress owner and does not hold mu ---------------------------- */

/* Does what can be done now; whether anything happened. */
bool hvd_progress_step(struct hvd_engine *e);

/* --- request_send.c: caller is the progress owner, without mu --------------------------------- */

/* Takes what was submitted, for hvd_request_send_queued to request; nothing while inputs are waited
 * for on a device, behind which it may have to line up. Caller holds mu, and has a step follow. */
void hvd_request_send_take(struct hvd_engine *e);

/* Requests what was taken, else for what was submitted since the last time, unless it is held back.
 */
hvd_status_t hvd_request_send_queued(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                     struct hvd_err *err);

/* Whether as much is queued as moves at once. Caller holds mu. */
bool hvd_request_send_is_full(const struct hvd_engine *e);

/* Whether what is queued has waited long enough for more to come. */
bool hvd_request_send_is_due(struct hvd_engine *e);

/* --- membership.c: caller is the progress owner, without mu ----------------------------------- */

/* The rank of the job that a position of the set's tree is. */
static inline int hvd_membership_rank_at(const struct hvd_set *set, int position)
{
    return set->ranks[set->tree.rank_at[position]];
}

/* Whether a position is a child of this rank in the set's tree. */
static inline bool hvd_membership_is_child(const struct hvd_set *set, int position)
{
    const int branch = hvd_tree_node_branch(&set->node, position);

    return branch > 0 && set->node.children[branch - 1].first == position;
}

/* Sends up the tree. A parent that is lost is no failure of this rank, and told on; HVD_ERR_GONE
 * when it is rank 0. Else as hvd_control_send. */
hvd_status_t hvd_membership_send_up(struct hvd_engine *e, const struct hvd_set *set,
                                    const void *data, size_t len, struct hvd_err *err);

/* After shutdown was called here: says so, once, behind the last request. */
hvd_status_t hvd_membership_send_leave(struct hvd_engine *e, bool *progressed, struct hvd_err *err);

/* All is done here, in a job that is down: says so to the parent once all under this rank have. */
hvd_status_t hvd_membership_send_done(struct hvd_engine *e, struct hvd_err *err);

/* Reads a LEAVE of a branch: HVD_ERR_INVALID when it makes no sense, HVD_ERR_NOMEM. */
hvd_status_t hvd_membership_read_leave(struct hvd_engine *e, int branch, struct hvd_reader *reader,
                                       struct hvd_err *err);

/*
 * A rank is gone for good; err says why. The coordinator ends the job; its neighbours in the tree
 * make sure that the coordinator knows, others hear of it. HVD_ERR_GONE when it is the coordinator,
 * HVD_ERR_UNAVAILABLE when it is this rank itself.
 */
hvd_status_t hvd_membership_lose(struct hvd_engine *e, int rank, struct hvd_err *err);

/* The job is to end in order, because of a stall that this rank has found: all are told the text.
 * Failures as hvd_control_send. */
hvd_status_t hvd_membership_end_for_stall(struct hvd_engine *e, const char *text,
                                          struct hvd_err *err);

/* Ends the job because of that rank, for all, with the text: as who passes on what it says. */
hvd_status_t hvd_membership_end_for_rank(struct hvd_engine *e, int rank, const char *text,
                                         struct hvd_err *err);

/* The same as hvd_membership_lose for a rank that does not answer any more, whatever it is to this
 * one.
 */
hvd_status_t hvd_membership_give_up(struct hvd_engine *e, int rank, struct hvd_err *err);

#define HVD_RANKS_NAMED 4

/* Appends the first HVD_RANKS_NAMED of n ranks, where the others are counted: "rank 1 on host a,
 * rank 3 on host b and rank 4 on host b". */
void hvd_membership_add_ranks(const struct hvd_engine *e, const int *ranks, int n,
                              struct hvd_text *text);

/* --- control.c: caller is the progress owner, without mu -------------------------------------- */

/* Sends a control message. */
hvd_status_t hvd_control_send(struct hvd_engine *e, int rank, const void *data, size_t len,
                              struct hvd_err *err);

/* Requests the cached tensors in set->bits on a rank that receives for others, itself among them.
 * What set->bits holds then is to be forgotten. */
hvd_status_t hvd_control_own_bits(struct hvd_engine *e, struct hvd_set *set, uint32_t n_words,
                                  int64_t now_ns, struct hvd_err *err);

/* The same with one request, on a rank that receives for others. */
hvd_status_t hvd_control_own_request(struct hvd_engine *e, struct hvd_set *set,
                                     const struct hvd_merged_request *merged, int64_t now_ns,
                                     struct hvd_err *err);

/* For telemetry: a rank of the job has requested a tensor. */
void hvd_control_trace_ready(const struct hvd_engine *e, int rank,
                             const struct hvd_request *request);

/* Sends what was made in this step: the coordinator its plan, which it follows as well, an inner
 * node of the tree what goes up. */
hvd_status_t hvd_control_publish_plan(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                      struct hvd_err *err);

/* Reads what peers have sent. */
hvd_status_t hvd_control_recv(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                              struct hvd_err *err);

/* Reads what came too early and is not any more. */
hvd_status_t hvd_control_recv_early(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                    struct hvd_err *err);

/* While a set is made: whether a rank has failed that the coordinator, which this rank is then, has
 * to end the job for. HVD_ERR_GONE: it has, err says why; HVD_ERR_INVALID. */
hvd_status_t hvd_control_recv_end(struct hvd_engine *e, struct hvd_err *err);

/* Whether this rank passes on what others say: then it looks for messages also when it is idle.
 * Caller holds mu. */
bool hvd_control_serves_others(const struct hvd_engine *e);

/* --- stalls.c: caller is the progress owner, without mu --------------------------------------- */

/* Whether it is time to look; then the next time is later. */
bool hvd_stalls_is_due(struct hvd_engine *e, int64_t now_ns);

/* --- beats.c: caller is the progress owner, without mu ---------------------------------------- */

/* The set's heartbeat, if there is to be one. HVD_ERR_NOMEM. */
hvd_status_t hvd_beats_create(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* A rank of the set, by its position, has sent something. */
void hvd_beats_received(struct hvd_set *set, int position, int64_t now_ns);

/* A branch of all ranks has told that it is done: it answers no more. */
void hvd_beats_left(struct hvd_engine *e, int branch);

/* Reads a PING, which is answered, or a PONG. HVD_ERR_INVALID; else as hvd_control_send. */
hvd_status_t hvd_beats_read(struct hvd_engine *e, struct hvd_set *set, int position,
                            struct hvd_reader *reader, struct hvd_err *err);

/* Whether somebody waits so long that neighbours are watched: the progress owner looks more often.
 */
bool hvd_beats_are_active(const struct hvd_engine *e);

/*
 * Whether a rank of the set, of which this one is the coordinator, cannot be expected to leave the
 * job that is about to end for a tensor that has waited since before_ns: nothing has come from it
 * for the warning time, or, where the tensor waits for it, for half of that. Others may be busy.
 */
bool hvd_beats_are_missed(const struct hvd_engine *e, const struct hvd_set *set, int64_t before_ns);

/* Probes those who are waited for, warns of those who do not answer, gives them up. Failure: the
 * job ends. */
hvd_status_t hvd_beats_check(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err);

/* --- stalls.c, again -------------------------------------------------------------------------- */

/* Warns of the tensors of a set that wait too long here, its coordinator, or ends the job; an inner
 * node of the tree tells what it knows of them. */
hvd_status_t hvd_stalls_check(struct hvd_engine *e, struct hvd_set *set, int64_t now_ns,
                              struct hvd_err *err);

/* --- progress_owner.c ------------------------------------------------------------------------- */

/* Nanoseconds of a clock that never jumps. */
int64_t hvd_engine_now_ns(void);

/* The same, up to a tick of the kernel behind (some milliseconds), in a fifth of the time. */
int64_t hvd_engine_coarse_now_ns(void);

/* A condition whose timed waits use that clock. HVD_ERR_SYSTEM. */
hvd_status_t hvd_engine_cond_init(pthread_cond_t *cond);

/* Drives for the waiter's entry, which is registered, for as long as that goes on without sleeping;
 * false: somebody else drives, or has to. A waiter that can sleep is not needed for it. is_brief:
 * for what takes some microseconds alone. hvd_progress_owner_release has to follow, or
 * hvd_progress_owner_wait. Caller holds mu, and holds it afterwards. */
bool hvd_progress_owner_first(struct hvd_engine *e, const struct hvd_waiter *waiter, bool is_brief);

/* Nobody drives, or will at once: calls somebody if there is anything left to drive. Caller holds
 * mu. */
void hvd_progress_owner_release(struct hvd_engine *e);

/* Waits until the waiter's entry is done, or the job is over for a waiter without entry; drives
 * when nobody else does. Caller holds mu, and holds it afterwards. */
void hvd_progress_owner_wait(struct hvd_engine *e, struct hvd_waiter *waiter);

/* One step when nobody drives and this thread may. Caller holds mu, and holds it afterwards. */
bool hvd_progress_owner_once(struct hvd_engine *e);

/* Whether this thread may drive. */
bool hvd_progress_owner_allowed(const struct hvd_engine *e);

/* HVD_ERR_STATE into err, for a tensor that this thread may not wait for, as it may not drive. */
void hvd_progress_owner_refuse(struct hvd_strview name, struct hvd_err *err);

/* Tells whoever drives, or should, that there is work. Caller holds mu. */
void hvd_progress_owner_kick(struct hvd_engine *e);

/* The background thread's function; arg is the engine. */
void *hvd_progress_owner_background(void *arg);

#endif
