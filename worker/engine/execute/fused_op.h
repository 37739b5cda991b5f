#ifndef HVD_WORKER_ENGINE_EXECUTE_FUSED_OP_H
#define HVD_WORKER_ENGINE_EXECUTE_FUSED_OP_H

#include "worker/core/op_layout.h"
#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* A tensor of a fused operation. */
struct hvd_member {
    struct hvd_entry *entry; /* NULL: this rank has joined and contributes zeros */
    uint32_t slot;           /* its cache slot, in a cached execution plan */
    bool is_shared;          /* shares memory with an earlier member and moves in a copy */
    int64_t count;
};

struct hvd_mover;

/* Tensors that move as one collective. */
struct hvd_fused_op {
    struct hvd_fused_op *next; /* the next one in todo */
    struct hvd_exec_plan *exec_plan;
    const struct hvd_mover *mover; /* set by the preparation */
    struct hvd_request request;    /* of its first tensor; common fields, and a name for reports */
    struct hvd_work work;
    struct hvd_collective move;
    struct hvd_member *members; /* in the execution plan's block */
    struct hvd_piece *pieces;   /* likewise; NULL for a single tensor */
    struct hvd_use *uses;       /* likewise, with room for two for each member */
    uint32_t n_members;
    uint32_t n_uses;             /* while it moves */
    int64_t *by_rank;            /* allgather: agreed rows; reducescatter: elements; owned */
    int64_t *splits;             /* alltoall: taken from the entry; owned */
    void *zeros;                 /* for tensors of a joined rank; owned */
    void *copies;                /* of members with shared memory; owned */
    struct hvd_staging *staging; /* for tensors on the device; owned; NULL: tensors of the host */
    int64_t since_ns;            /* when it was agreed on; 0: stalls are not checked */
    bool is_prepared; /* `work` and `move` are valid for the next time too, except for the memory */
    bool is_second;   /* its first collective has landed */
    bool has_more;    /* another collective follows: alltoall with its splits, Adasum */
};

/* Whether the fused operation's tensors were cached when they were agreed on. */
static inline bool hvd_fused_op_is_cached(const struct hvd_fused_op *f)
{
    return f->members[0].slot != HVD_CACHE_NO_SLOT;
}

/* Prefetches an entry that a loop over the members, now at member i, needs soon. The entries lie
 * in the order of their first submission. */
static inline void hvd_fused_op_fetch(const struct hvd_fused_op *f, uint32_t i)
{
    if (i + 8 < f->n_members)
        __builtin_prefetch(f->members[i + 8].entry, 1);
}

/* Begins a fused operation, whose members have their entries. Finishes it when there is nothing
 * to move, else appends it to todo. A failure ends the job. */
hvd_status_t hvd_fused_op_begin(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* Returns the name of the first tensor, for reports. Borrowed. */
const char *hvd_fused_op_name(const struct hvd_fused_op *f);

/* Starts waiting fused operations and tests moving ones. A failure means that the transport is
 * broken. */
hvd_status_t hvd_fused_op_progress(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                   struct hvd_err *err);

#endif
