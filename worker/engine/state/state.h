#ifndef HVD_WORKER_ENGINE_STATE_STATE_H
#define HVD_WORKER_ENGINE_STATE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/text.h"
#include "worker/engine/state/handles.h"
#include "worker/engine/state/process_set.h"

/*
 * The engine. Who changes what: the program's threads and the progress owner what mu guards, the
 * progress owner alone the rest.
 */

/* See control.h. */
struct hvd_early;

/* Of the engine, changed under mu alone. */
struct hvd_engine_locked {
    struct hvd_handles handles;
    struct hvd_set_info *infos;     /* of every set, as all ranks know it; owned */
    struct hvd_entry *pool;         /* transient entries to be used again */
    struct hvd_entry_block *blocks; /* of all entries; owned */
    struct hvd_waiter *waiters;
    struct hvd_entry *completed; /* their calls are to be made, in the order they ended */
    struct hvd_entry **completed_end;
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
};

/* Of the engine, the progress owner's: it needs no lock. */
struct hvd_engine_own {
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

struct hvd_engine {
    struct hvd_topology topology;      /* constant */
    struct hvd_engine_options options; /* constant, but for cycle_ns and fusion_bytes, which the
                                          progress owner changes under mu */
    pthread_t owner;                   /* constant: who made it; drives alone if thread_bound */
    pthread_t background;
    bool has_background; /* guarded by the caller of shutdown */
    bool is_crowded;     /* constant: more ranks on this host than processors, so never spin */

    pthread_mutex_t mu; /* never held while calling a log or the transport, but for listen, wake */
    struct hvd_engine_locked locked;
    /* set under mu, read anywhere */
    atomic_size_t n_queued;
    atomic_size_t n_outstanding; /* submitted and not done */
    atomic_size_t n_waiters;
    atomic_size_t n_completed;
    atomic_ulong n_submitted;
    atomic_bool is_leaving;       /* shutdown was called here */
    atomic_bool is_urgent;        /* somebody polls: what is queued is not held back */
    atomic_bool has_lost_refusal; /* there was no memory to announce one */
    atomic_bool is_over; /* every rank has left, or nothing can be heard of them any more */

    struct hvd_set *
        *sets; /* by number; changed by the progress owner under mu; owned; may have gaps */
    uint32_t n_sets;

    struct hvd_transport *transport; /* the progress owner's, but for listen, wake */
    struct hvd_engine_own own;
};

/* The set of that number, of which this rank is a member; NULL when there is none. */
static inline struct hvd_set *hvd_set_find(const struct hvd_engine *e, uint32_t id)
{
    return id < e->n_sets ? e->sets[id] : NULL;
}

/* Whether as much is queued as moves at once. Caller holds mu. */
static inline bool hvd_engine_is_full(const struct hvd_engine *e)
{
    return e->options.fusion_bytes > 0 && e->locked.queued_bytes >= e->options.fusion_bytes;
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
    return entry->is_own ? NULL : e->options.telemetry;
}

/* The tensor has ended, all that is to be known of it is there: wakes who waits for it. mu,
 * as who registers does, so that either sees the other. */
static inline void hvd_entry_publish(struct hvd_engine *e, struct hvd_entry *entry)
{
    const bool is_simple = entry->status == HVD_OK && !entry->waiter && !entry->output &&
                           entry->number == 0 && !entry->has_completion;

    atomic_store_explicit(&entry->end, is_simple ? HVD_ENTRY_SIMPLE : HVD_ENTRY_ENDED,
                          memory_order_release);
    if (entry->waiter && entry->waiter->can_sleep)
        pthread_cond_signal(&entry->waiter->cond);
    if (entry->has_completion)
        hvd_entry_list_completed(e, entry);
}

#endif
