#ifndef HVD_WORKER_ENGINE_EXECUTE_FUSED_OP_H
#define HVD_WORKER_ENGINE_EXECUTE_FUSED_OP_H

#include "worker/core/op_layout.h"
#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* A tensor of a fused operation. */
struct hvd_member {
    struct hvd_entry *entry; /* NULL: this rank has joined and contributes zeros */
    uint32_t slot;           /* in a cached execution plan */
    bool is_shared;          /* has memory of a member before it, and moves in a copy */
    int64_t count;
};

struct hvd_mover;

/* Tensors that move as one collective. */
struct hvd_fused_op {
    struct hvd_fused_op *next; /* in todo */
    struct hvd_exec_plan *exec_plan;
    const struct hvd_mover *mover; /* how it moves: since it was prepared */
    struct hvd_request request;    /* of its first tensor, for what they have in common; no name */
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

/* Whether the fused operation's tensors were cached when they were agreed. */
static inline bool hvd_fused_op_is_cached(const struct hvd_fused_op *f)
{
    return f->members[0].slot != HVD_CACHE_NO_SLOT;
}

/* Going through a fused operation, at member i: what is needed soon is on its way into the cache by
 * then, for the entries lie in the order of their first submission. */
static inline void hvd_fused_op_fetch(const struct hvd_fused_op *f, uint32_t i)
{
    if (i + 8 < f->n_members)
        __builtin_prefetch(f->members[i + 8].entry, 1);
}

/* Puts a fused operation, whose members have their entries, on its way: finishes it when there is
 * nothing to move, else appends it to todo. */
hvd_status_t hvd_fused_op_begin(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* The name that a fused operation is told by: of its first tensor. Borrowed. */
const char *hvd_fused_op_name(const struct hvd_fused_op *f);

/* Starts what may start and tests what moves. Failure: the transport is broken. */
hvd_status_t hvd_fused_op_progress(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                   struct hvd_err *err);

#endif
