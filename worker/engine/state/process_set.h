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

/* The library's own tensor, by which ranks agree on changes of process sets. */
#define HVD_CHANGE_NAME "process_set.change"

#define HVD_MOVING_MAX 8
#define HVD_USES_BITS 9

/* The tensors that are requested together. */
struct hvd_outgoing {
    struct hvd_entry *first; /* requested by name */
    uint32_t n_words;        /* words of the set's `bits`, for all other tensors */
};

/* The part of a process set that changes only under mu. The progress owner reads without mu
 * those fields that it alone changes. */
struct hvd_set_locked {
    struct hvd_cache *cache;
    struct hvd_table *table;     /* tensors that were requested by name and no plan contains yet */
    struct hvd_entry_list queue; /* unsent tensors to be requested by name */
    uint64_t *queued_bits;       /* unsent tensors to be requested by bits; owned */
    uint32_t n_queued_words;     /* how many of its words have been set */
    uint32_t n_words;            /* capacity in words, here and of `bits` */
    uint32_t last;               /* the slot that was submitted last; HVD_CACHE_NO_SLOT: none */
    bool is_ended;               /* no more submissions */
    uint64_t n_unnamed[HVD_REDUCESCATTER + 1]; /* unnamed tensors so far, by operation */
    bool is_join_pending;
    uint32_t n_refusals; /* unanswered ones in the table */
};

/* The progress owner's part of a process set, which needs no lock. */
struct hvd_set_own {
    struct hvd_negotiator *negotiator; /* of the set's first rank; owned */
    struct hvd_aggregator *aggregator; /* of the tree's other inner nodes; owned */
    struct hvd_heartbeat *heartbeat;   /* owned; NULL: one rank only, or no checks for stalls */
    int64_t pending;                   /* the handle that waited to be agreed at the last check */
    int64_t pending_ns;                /* since when it has waited */
    struct hvd_buf message;
    uint64_t epoch;               /* of the plan that was applied last */
    uint64_t changed;             /* epoch of the last plan that assigned or evicted a slot */
    struct hvd_outgoing outgoing; /* taken from the queues and not requested yet */
    uint64_t *bits;               /* the bits of `outgoing` while they are sent, else 0; owned */
    struct hvd_fusable *items;    /* scratch for the current plan; owned, as the next two */
    struct hvd_agreed *agreed;
    struct hvd_batch *batches;
    uint32_t n_agreed;
    uint32_t agreed_room;
    struct hvd_exec_plan *exec_plans; /* cached or active ones */
    uint32_t n_exec_plans;
    struct hvd_exec_plan *spare; /* memory for the next execution plan; owned */
    unsigned n_traced;           /* number of the timeline that contains the slots */
    struct hvd_fused_op *todo;   /* in the agreed order, not started */
    struct hvd_fused_op *todo_last;
    struct hvd_fused_op *moving[HVD_MOVING_MAX];
    int n_moving;
    struct hvd_use *uses[1 << HVD_USES_BITS]; /* memory of moving operations, by address */
    uint64_t n_landed; /* fused operations, or phases of them, whose movement has completed */
    bool is_held;      /* another collective follows the moving one; none may overtake it */
    struct hvd_adasum *adasum;        /* Adasum's memory; owned; NULL: never used */
    struct hvd_set_device *on_device; /* owned; NULL: no tensor of the set was on the device yet */
};

/* A process set on one of its members; other ranks only have its hvd_set_info. */
struct hvd_set {
    uint32_t id;
    struct hvd_self self; /* this rank in the set */
    struct hvd_tree tree; /* over the set's ranks; constant, as the next one */
    struct hvd_node node; /* this rank's node in the tree */
    int *ranks;           /* of the job, by rank of the set; owned */
    int64_t *ones;        /* by rank: each 1; owned */

    struct hvd_set_locked locked;
    struct hvd_set_own own;
};

/* The text with which a removed set ends. Its coordinator's plan may contain it before this rank
 * has acted on the agreement itself. */
#define HVD_SET_REMOVED "Process set has been removed"

/* A set as every rank of the job has it. */
struct hvd_set_info {
    int *ranks; /* sorted; owned */
    int n_ranks;
    bool is_removed;
};

/* Returns the rank in the set of a rank of the job; -1 when it is not a member. */
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
