#ifndef HVD_WORKER_ENGINE_EXECUTE_EXEC_PLAN_H
#define HVD_WORKER_ENGINE_EXECUTE_EXEC_PLAN_H

#include "worker/engine/execute/fused_op.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* Agreed tensors, divided into fused operations. The execution plan of a plan's bits is cached,
 * and reused when the same bits come again. */
struct hvd_exec_plan {
    struct hvd_exec_plan *next; /* in set->own.exec_plans */
    uint64_t *key;              /* the bits; in this block; NULL: not cached */
    uint32_t n_key;
    size_t room; /* bytes of the block */
    int64_t fusion;
    bool is_whole;   /* cached: this rank has all tensors of the plan */
    uint32_t n_open; /* unfinished fused operations */
    uint32_t n_fused_ops;
    struct hvd_fused_op *fused_ops;
};

/* A tensor of the current plan. */
struct hvd_agreed {
    struct hvd_entry *entry; /* NULL: this rank has joined */
    uint32_t slot;
    uint32_t group;                    /* the group's number, which is the same on all ranks */
    int64_t *rows;                     /* allgather; owned, unless the slot owns it */
    const struct hvd_request *request; /* the entry's or the slot's; or `own` */
    struct hvd_request *own;           /* the request of other ranks; owned */
};

/* Appends an agreed tensor to the current plan and returns it, zeroed. NULL when out of memory. */
struct hvd_agreed *hvd_exec_plan_agree(struct hvd_set *set);

/* Forgets the agreed tensors of the current plan. */
void hvd_exec_plan_forget(struct hvd_set *set);

/* Begins the agreed tensors, in order. After HVD_ERR_NOMEM or HVD_ERR_INVALID their entries end
 * with the job. */
hvd_status_t hvd_exec_plan_begin(struct hvd_engine *e, struct hvd_set *set, int64_t fusion,
                                 struct hvd_err *err);

/* Does the same for the cached tensors of a plan. */
hvd_status_t hvd_exec_plan_begin_bits(struct hvd_engine *e, struct hvd_set *set,
                                      const struct hvd_reader *plan, struct hvd_err *err);

/* Discards all cached execution plans, because a slot has changed its meaning. */
void hvd_exec_plan_invalidate(struct hvd_set *set);

/* Releases one fused operation of the execution plan, which is done or given up. Frees an
 * uncached execution plan with its last one. */
void hvd_exec_plan_release(struct hvd_set *set, struct hvd_exec_plan *exec_plan);

/* Frees the execution plan and everything that its fused operations own. NULL is allowed. */
void hvd_exec_plan_destroy(struct hvd_exec_plan *exec_plan);

#endif
