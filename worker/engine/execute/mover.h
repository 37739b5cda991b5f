#ifndef HVD_WORKER_ENGINE_EXECUTE_MOVER_H
#define HVD_WORKER_ENGINE_EXECUTE_MOVER_H

#include "worker/engine/execute/fused_op.h"

/*
 * The way in which a fused operation moves; fused_op.c calls it:
 *
 *     prepare ──> claim ──> start ──> test ──> advance ──> finish
 *                   ^                  ^          │
 *                   │                  └──────────┤ HVD_ADVANCE_MOVES
 *                   └─────────────────────────────┘ HVD_ADVANCE_NEXT
 *
 * A tensor that was prepared once can move repeatedly without another prepare. Only the progress
 * owner calls these functions, without mu.
 */

/* The next action after a collective has moved. */
enum hvd_advance {
    HVD_ADVANCE_DONE,  /* none: the results are in their places */
    HVD_ADVANCE_NEXT,  /* f->move is another collective; it precedes all others of the set */
    HVD_ADVANCE_MOVES, /* other work has started and must be tested */
};

struct hvd_mover {
    /* Describes f->move, and allocates a result whose size is known. HVD_ERR_TOO_LARGE occurs on
     * all ranks alike and only fails the tensor; other failures end the job. */
    hvd_status_t (*prepare)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err);

    /* Computes the result in a set of one rank, instead of the steps below. HVD_INPROGRESS: the
     * operation starts in its turn nevertheless. */
    hvd_status_t (*alone)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err);

    /* Claims the memory when it is the operation's turn. HVD_INPROGRESS: it is not available
     * yet. May replace f->mover, whose start is then called. */
    hvd_status_t (*claim)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err);

    /* Starts f->move. While f->has_more is set, no operation of the set overtakes it. */
    hvd_status_t (*start)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err);

    /* HVD_INPROGRESS while it moves. A failure means that the transport or the device is broken. */
    hvd_status_t (*test)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                         struct hvd_err *err);

    /* Selects the next action after a collective has moved. NULL: HVD_ADVANCE_DONE. On failure
     * after HVD_ADVANCE_MOVES the end of the job finishes the operation; on any other failure the
     * caller does. */
    hvd_status_t (*advance)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            enum hvd_advance *next, struct hvd_err *err);

    /* Releases the mover's own resources, also of an operation whose preparation failed. NULL:
     * there are none. */
    void (*finish)(struct hvd_set *set, struct hvd_fused_op *f);
};

/* Moves tensors in host memory by one collective of the transport. */
extern const struct hvd_mover hvd_mover_host;

/* Uses two collectives: for the splits, then for the rows. */
extern const struct hvd_mover hvd_alltoall_mover;

/* Uses a sequence of collectives: see adasum.c. */
extern const struct hvd_mover hvd_adasum_mover;

/* Moves tensors on the device by its own collectives, or through host memory by one of the
 * movers above. */
extern const struct hvd_mover hvd_staging_mover;

/* Returns the mover of a fused operation whose tensors are in host memory. */
const struct hvd_mover *hvd_mover_of_host(const struct hvd_fused_op *f);

/* For prepare: fills in f->move except for the memory of the result, and allocates zeros for
 * tensors that this rank does not have. HVD_ERR_NOMEM, HVD_ERR_INVALID. */
hvd_status_t hvd_mover_describe(const struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* Sets the memory of a fused operation of cached tensors that was prepared before. This rank
 * must have all its tensors. */
void hvd_mover_describe_again(struct hvd_fused_op *f);

/* Allocates a result of `total` elements. HVD_ERR_NOMEM, or the device's failure. */
hvd_status_t hvd_mover_reserve(const struct hvd_engine *e, struct hvd_fused_op *f, int64_t total,
                               struct hvd_err *err);

/* Creates the output of an allgather or alltoall, without memory for the result. HVD_ERR_NOMEM. */
hvd_status_t hvd_mover_create_output(const struct hvd_set *set, struct hvd_fused_op *f,
                                     struct hvd_err *err);

/* Performs f->move in a set of one rank: scales the input into the result. */
void hvd_mover_compute(const struct hvd_fused_op *f);

/* For claim: claims host memory; HVD_INPROGRESS while another fused operation moves it. */
hvd_status_t hvd_mover_claim(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err);

/* For start and test: perform f->move on the transport. With a lost rank it stays in progress, and
 * the transport's receive ends the job. */
hvd_status_t hvd_mover_start(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err);
hvd_status_t hvd_mover_test(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err);

#endif
