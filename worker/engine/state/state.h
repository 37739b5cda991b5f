#ifndef HVD_WORKER_ENGINE_STATE_STATE_H
#define HVD_WORKER_ENGINE_STATE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/text.h"
#include "worker/engine/state/handles.h"
#include "worker/engine/state/process_set.h"

/*
 * The engine. Threads of the program and the progress owner change the part that mu guards; only
 * the progress owner changes the rest.
 */

/* See control.h. */
struct hvd_early;

/* The part of the engine that changes only under mu. */
struct hvd_engine_locked {
    struct hvd_handles handles;
    struct hvd_set_info *infos;     /* of every set, the same on all ranks; owned */
    struct hvd_entry *pool;         /* free transient entries */
    struct hvd_entry_block *blocks; /* of all entries; owned */
    struct hvd_waiter *waiters;
    struct hvd_entry *completed; /* entries with callbacks to call, in the order of their ends */
    struct hvd_entry **completed_end;
    uint32_t last_group;
    int64_t first_queued_ns; /* when the first queued tensor came, which starts the time that it may
                                be held back; 0: it is not held back; the clock is read once for
                                each batch */
    int64_t queued_bytes;
    bool is_new_batch;       /* the first tensor of a batch has just been queued */
    bool has_progress_owner; /* some thread runs step(), and owns the progress owner's section */
    pthread_cond_t *sleeper; /* on which the progress owner sleeps; signal it for new work */
    bool is_asleep;          /* the progress owner sleeps in the transport; wake it for new work */
    pthread_cond_t background_cond;
    bool is_deep;       /* the background thread sleeps until it is signalled ... */
    int64_t deep_ns;    /* ... or so long; below 0: no limit */
    bool must_stop;     /* the background thread must end */
    bool is_ended;      /* no more submissions, because of `cause` */
    int64_t stalled_ns; /* when a stall ended the job in order; 0: none has */
    char *cause;        /* owned; NULL: unknown, for lack of memory */
    char device_failure[HVD_ERR_MSG_MAX]; /* why an event failed */
};

/* The progress owner's part of the engine, which needs no lock. */
struct hvd_engine_own {
    struct horovod_output *orphans; /* outputs of aborted collectives; owned */
    struct hvd_engine_counters
        counters;             /* see hvd_telemetry_add; the background thread counts its wakeups */
    struct hvd_early *early;  /* in the order of arrival; owned */
    struct hvd_set *making;   /* the set whose creation waits for its members; NULL: none */
    int64_t making_ns;        /* since when */
    int n_on_device;          /* work of the device that is asked for in each step */
    bool has_taken;           /* the tensors to request are in `outgoing` of the sets */
    unsigned long n_gathered; /* submissions until pause_ns */
    int64_t pause_ns;         /* when the progress owner found the last new submission */
    int64_t gather_ns;        /* when it found the first one; 0: none that is not requested yet */
    bool is_leave_sent;
    bool is_down;    /* a plan contained DOWN */
    int n_done;      /* children that have then reported the end of their subtrees */
    bool is_done;    /* this rank and its subtree have finished, and the parent has the report */
    bool is_aborted; /* the peers cannot be relied on */
    bool has_reported_failure; /* to telemetry */
    int64_t next_stall_check_ns;
    int64_t next_device_check_ns;
    int64_t now_ns;  /* of this step; 0 if stalls are not checked */
    int64_t left_ns; /* when this rank first learned of a rank that leaves; 0: none */
    bool is_stay_warned;
    bool is_stall_reported;      /* to rank 0, which has not ended the job because of it yet */
    int64_t reported_ns;         /* when this rank reported that stall, or a lost rank, to rank 0 */
    char reported[HVD_TEXT_MAX]; /* the text of that report */
};

struct hvd_engine {
    struct hvd_topology topology;      /* constant */
    struct hvd_engine_options options; /* constant, except for cycle_ns and fusion_bytes, which the
                                          progress owner changes under mu */
    pthread_t owner; /* constant: the thread that created the engine; if thread_bound, only it makes
                        progress */
    pthread_t background;
    atomic_bool has_background;
    bool is_crowded; /* constant: the host has more ranks than processors, so never spin */

    pthread_mutex_t mu; /* not held during calls of log or transport, except listen, wake */
    struct hvd_engine_locked locked;
    /* set under mu, read by any thread */
    atomic_size_t n_queued;
    atomic_size_t n_outstanding; /* submitted and unfinished */
    atomic_size_t n_waiters;
    atomic_size_t n_completed;
    atomic_ulong n_submitted;
    atomic_bool is_leaving;   /* shutdown was called here */
    atomic_bool is_urgent;    /* a thread polls, so queued tensors are not held back */
    atomic_bool is_gathering; /* a queued tensor has a completion: they are due at the first pause
                                 between submissions */
    atomic_bool has_lost_refusal;  /* a refusal could not be announced for lack of memory */
    atomic_bool has_failed_device; /* an event of the device failed: see hvd_engine_await */
    atomic_bool is_failing;        /* agreed tensors are being ended, or have been */
    atomic_bool is_over;           /* every rank has left, or cannot be reached any more */

    struct hvd_set *
        *sets; /* by number; changed by the progress owner under mu; owned; may have gaps */
    uint32_t n_sets;

    struct hvd_transport *transport;        /* the progress owner's, except for listen and wake */
    struct hvd_device_port *_Atomic device; /* NULL until there is one; constant then */
    struct hvd_engine_own own;
};

/* Returns the set of that number if this rank is a member; else NULL. */
static inline struct hvd_set *hvd_set_find(const struct hvd_engine *e, uint32_t id)
{
    return id < e->n_sets ? e->sets[id] : NULL;
}

/* Whether the queued tensors fill a fused operation. Caller holds mu. */
static inline bool hvd_engine_is_full(const struct hvd_engine *e)
{
    return e->options.fusion_bytes > 0 && e->locked.queued_bytes >= e->options.fusion_bytes;
}

/* Adds to a number that changes only under mu. mu. */
static inline void hvd_add(atomic_size_t *number, size_t n)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + n,
                          memory_order_release);
}

/* Returns the telemetry for the entry; NULL for the library's own tensors. */
static inline struct hvd_telemetry *hvd_entry_telemetry(const struct hvd_engine *e,
                                                        const struct hvd_entry *entry)
{
    return entry->is_own ? NULL : e->options.telemetry;
}

/* Publishes the end of a tensor, whose fields are final, and wakes its waiter. mu, as for the
 * registration of a waiter, so that one of the two finds the other. */
static inline void hvd_entry_publish(struct hvd_engine *e, struct hvd_entry *entry)
{
    const bool is_simple = entry->status == HVD_OK && !entry->waiter && !entry->output &&
                           !entry->event && entry->number == 0 && !entry->has_completion;

    atomic_store_explicit(&entry->end, is_simple ? HVD_ENTRY_SIMPLE : HVD_ENTRY_ENDED,
                          memory_order_release);
    if (entry->waiter && entry->waiter->can_sleep)
        pthread_cond_signal(&entry->waiter->cond);
    if (entry->has_completion)
        hvd_entry_list_completed(e, entry);
}

#endif
