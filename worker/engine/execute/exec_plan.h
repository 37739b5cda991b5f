#ifndef HVD_WORKER_ENGINE_EXECUTE_EXEC_PLAN_H
#define HVD_WORKER_ENGINE_EXECUTE_EXEC_PLAN_H

#include "worker/engine/execute/fused_op.h"

/*
 * Caller is the progress owner, without mu.
 */

/* An agreed set of tensors, divided into fused operations. One that came as bits is kept, and used
 * again when the same bits come. */
struct hvd_exec_plan {
    struct hvd_exec_plan *next; /* in set->own.exec_plans */
    uint64_t *key;              /* the bits; in the execution plan's block; NULL: not cached */
    uint32_t n_key;
    size_t room; /* bytes of the block */
    int64_t fusion;
    bool is_whole;   /* cached: this rank has all its tensors */
    uint32_t n_open; /* fused operations that are not done */
    uint32_t n_fused_ops;
    struct hvd_fused_op *fused_ops;
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

#endif
