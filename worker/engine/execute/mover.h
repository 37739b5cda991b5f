#ifndef HVD_WORKER_ENGINE_EXECUTE_MOVER_H
#define HVD_WORKER_ENGINE_EXECUTE_MOVER_H

#include "worker/engine/execute/fused_op.h"

/*
 * The way in which a fused operation moves. What all ways have in common is in fused_op.c:
 *
 *     prepare ──> claim ──> start ──> test ──> advance ──> finish
 *                   ^                  ^          │
 *                   │                  └──────────┤ HVD_ADVANCE_MOVES
 *                   └─────────────────────────────┘ HVD_ADVANCE_NEXT
 *
 * A tensor that was prepared once moves again and again without prepare. Caller is the progress
 * owner, without mu.
 */

/* What follows when what was started has moved. */
enum hvd_advance {
    HVD_ADVANCE_DONE, /* nothing: the results are where they belong */
    HVD_ADVANCE_NEXT, /* f->move is another collective: it starts before anything else of the set */
    HVD_ADVANCE_MOVES, /* something else is on its way already, to be tested */
};

struct hvd_mover {
    /* Describes f->move, and takes the memory of a result whose size is known. HVD_ERR_TOO_LARGE:
     * the same on all ranks, this tensor's failure; else the job's. */
    hvd_status_t (*prepare)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err);

    /* In a set of one rank, instead of all that follows: computes the result; HVD_INPROGRESS: it
     * starts in its turn all the same. */
    hvd_status_t (*alone)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err);

    /* It is the fused operation's turn: HVD_OK when it has its memory; HVD_INPROGRESS: not yet. May
     * set f->mover, which start is called of then. */
    hvd_status_t (*claim)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err);

    /* Starts f->move. While f->has_more nothing of the set overtakes it. */
    hvd_status_t (*start)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err);

    /* HVD_INPROGRESS while it moves. Failure: the transport or the device is broken. */
    hvd_status_t (*test)(struct hvd_engine *e, struct hvd_fused_op *f, struct hvd_err *err);

    /* It has moved: what follows. NULL: HVD_ADVANCE_DONE. On failure after HVD_ADVANCE_MOVES the
     * fused operation ends with the job, else by itself. */
    hvd_status_t (*advance)(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            enum hvd_advance *next, struct hvd_err *err);

    /* Lets go of what it has of its own; also of one that was not prepared to the end. NULL:
     * nothing. */
    void (*finish)(struct hvd_set *set, struct hvd_fused_op *f);
};

/* Tensors in the memory of the host: one collective of the transport. */
extern const struct hvd_mover hvd_mover_host;

/* Two of them: the splits, then the rows. */
extern const struct hvd_mover hvd_alltoall_mover;

/* A row of them: see adasum.c. */
extern const struct hvd_mover hvd_adasum_mover;

/* Tensors on the device: by its own collectives, or through the memory of the host as one of the
 * above. */
extern const struct hvd_mover hvd_staging_mover;

/* How the fused operation moves where its tensors are in the memory of the host. */
const struct hvd_mover *hvd_mover_of_host(const struct hvd_fused_op *f);

/* For prepare: f->move but for memory of the result, and zeros for tensors that this rank does not
 * have. HVD_ERR_NOMEM, HVD_ERR_INVALID. */
hvd_status_t hvd_mover_describe(const struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err);

/* The memory of a fused operation of cached tensors that was prepared before; all are there. */
void hvd_mover_describe_again(struct hvd_fused_op *f);

/* Memory for a result of so many elements. HVD_ERR_NOMEM; what the device says. */
hvd_status_t hvd_mover_reserve(const struct hvd_engine *e, struct hvd_fused_op *f, int64_t total,
                               struct hvd_err *err);

/* The output of an allgather or alltoall, without memory yet. HVD_ERR_NOMEM. */
hvd_status_t hvd_mover_create_output(const struct hvd_set *set, struct hvd_fused_op *f,
                                     struct hvd_err *err);

/* f->move in a set of one rank: the result is the input, scaled. */
void hvd_mover_compute(const struct hvd_fused_op *f);

/* The memory of the host, for claim: HVD_INPROGRESS while another fused operation moves it. */
hvd_status_t hvd_mover_claim(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err);

/* f->move over the transport, for start and test. */
hvd_status_t hvd_mover_start(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err);
hvd_status_t hvd_mover_test(struct hvd_engine *e, struct hvd_fused_op *f, struct hvd_err *err);

#endif
