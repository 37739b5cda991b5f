#ifndef HVD_WORKER_ENGINE_STATE_PROCESS_SET_H
#define HVD_WORKER_ENGINE_STATE_PROCESS_SET_H

#include "worker/core/aggregator.h"
#include "worker/core/fusion.h"
#include "worker/core/heartbeat.h"
#include "worker/core/negotiator.h"
#include "worker/core/table.h"
#include "worker/engine/state/entry.h"

struct hvd_fused_op;
struct hvd_exec_plan;
struct hvd_use;
struct hvd_agreed;

/* The library's own tensor: what ranks say about process sets. */
#define HVD_CHANGE_NAME "process_set.change"

#define HVD_MOVING_MAX 8
#define HVD_USES_BITS 9

/* What is requested at once. */
struct hvd_outgoing {
    struct hvd_entry *first; /* by name, and those on a device */
    uint32_t n_words;        /* of the set's `bits`, for all others */
};

/* Of a process set, changed under mu alone; the progress owner reads what it alone changes
 * without. */
struct hvd_set_locked {
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
};

/* Of a process set, the progress owner's: it needs no lock. */
struct hvd_set_own {
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

/* A process set, as its members and nobody else has it. */
struct hvd_set {
    uint32_t id;
    struct hvd_self self; /* in the set */
    struct hvd_tree tree; /* over its ranks; constant, as the next one */
    struct hvd_node node; /* this rank in it */
    int *ranks;           /* of the job, by rank of the set; owned */
    int64_t *ones;        /* by rank: each 1; owned */

    struct hvd_set_locked locked;
    struct hvd_set_own own;
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

/* The rank in the set of a rank of the job; -1 when it is not a member. */
static inline int hvd_set_rank_of(const struct hvd_set *set, int world_rank)
{
    int low = 0;
    int high = set->self.size;

    while (low < high) { /* ranks are sorted */
        int middle = low + (high - low) / 2;
        if (set->ranks[middle] == world_rank)
            return middle;
        if (set->ranks[middle] < world_rank)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

#endif
