#ifndef HVD_WORKER_ENGINE_ENGINE_H
#define HVD_WORKER_ENGINE_ENGINE_H

#include "worker/autotune/autotune.h"
#include "worker/core/op_layout.h"
#include "worker/device/device.h"
#include "worker/engine/output.h"
#include "worker/telemetry/telemetry.h"
#include "worker/transport/transport.h"

/*
 * The engine of one rank: takes tensors from any thread, agrees with the other ranks, moves the
 * data, wakes who waits. Whoever waits, drives:
 *
 * What is submitted is held back for up to `cycle_ns`, so that more can come and go with it, unless
 * somebody waits or polls: then everything that will come has come.
 *
 *   submit ──> queue ──┐                       ┌──> start, test collectives ──> done ──> waiter
 *                      ├─ step(), one owner ───┤
 *   messages of peers ─┘                       └──> requests, plans to peers
 *
 * The progress owner is a waiting thread when there is one (no hand-over to another thread for a
 * small tensor), else the background thread, which sleeps while nothing is outstanding here. Only
 * those that hear of other ranks, the coordinator and the inner nodes of a set's tree
 * (core/tree.h), then sleep in the transport, until a peer wakes them; where a peer cannot, they
 * look from every `idle_poll_ns` down to once a second: no tensor can complete without their own
 * request, so all they can be late for is another rank's shutdown and a stall warning. Where stalls
 * are looked for, all others look a few times in the warning time whether somebody asks if they are
 * there.
 */
struct hvd_engine;

struct hvd_engine_options {
    int64_t cycle_ns;                /* a progress owner without progress sleeps at most so long */
    int64_t idle_poll_ns;            /* see above */
    int64_t stall_warning_ns;        /* 0: no stall warnings, and nobody is asked to answer */
    int64_t stall_shutdown_ns;       /* a tensor that waits so long ends the job; 0: none does */
    int64_t grace_ns;                /* below a second: a job that failed is left so much later, so
                                        that the others hear why before they see that this rank is
                                        gone */
    const struct hvd_log *log;       /* borrowed, for the life of the engine */
    struct hvd_telemetry *telemetry; /* borrowed, likewise; NULL: nobody watches */
    bool no_background;              /* tensors move only while somebody waits or polls */
    struct hvd_autotune *autotune;  /* borrowed, for the life of the engine; rank 0's; NULL: none */
    struct hvd_device_port *device; /* borrowed, for the life of the engine and its outputs; NULL:
                                       no tensor is on a device */
    uint32_t cache_capacity;        /* tensors that are requested by a bit, at most; 0: none */
    int tree_fanout;         /* ranks that speak to one at most, as core/tree.h has it; 0: chosen.
                                The same on every rank */
    int64_t fusion_bytes;    /* allreduces of one type move together up to so many; 0: alone */
    bool keeps_groups_apart; /* tensors of a group move with those of their group alone */
    int64_t adasum_chunk_bytes; /* the largest message of an Adasum's halves; 0: any; the same on
                                   every rank */
};

/* What the engine has done so far. */
struct hvd_engine_counters {
    uint64_t plans;        /* that had a tensor in them */
    uint64_t plan_hits;    /* plans of cached tensors that were laid out before */
    uint64_t plan_misses;  /* the same, laid out anew */
    uint64_t tensors;      /* performed */
    uint64_t flights;      /* collectives they moved in */
    uint64_t idle_wakeups; /* of the background while there was nothing to do here */
};

struct horovod_output;

/* What the program has called for a tensor; see horovod_done_t and horovod_allocate_t. */
struct hvd_completion {
    /* Calls done; NULL: somebody waits for the tensor. */
    void (*call)(const struct hvd_completion *self, hvd_status_t status, const char *message,
                 struct horovod_output *output);
    void (*done)(void);                                           /* as the program has given it */
    void *(*allocate)(void *context, int64_t rows, size_t bytes); /* NULL: the engine does */
    void *context;
};

/* What is submitted; all borrowed for the call but input and output, which must stay until the end
 * of the wait. */
struct hvd_submission {
    struct hvd_request request; /* legal: see hvd_request_check */
    const void *input;          /* of the device, like output, when request.device says so */
    void *output;               /* allreduce, broadcast, reducescatter */
    void *ready; /* the device's event that says that input is there; it stays as long as
                    input does. NULL: it is there */
    const int64_t
        *splits;  /* alltoall: rows to each rank of the set; legal: see hvd_op_layout_splits */
    uint32_t set; /* the process set */
    const struct hvd_agreement *agreement;   /* the engine's own; else NULL */
    const struct hvd_completion *completion; /* NULL: none */
    bool is_waited_now; /* the same thread waits at once: nobody has to be woken to drive */
};

/* An engine on the transport, which it owns from now on also on failure. HVD_ERR_NOMEM,
 * HVD_ERR_SYSTEM. */
hvd_status_t hvd_engine_create(struct hvd_transport *transport,
                               const struct hvd_engine_options *options, struct hvd_engine **out,
                               struct hvd_err *err);

/* Frees an engine that was shut down, with the tensors nobody waited for. NULL is fine. */
void hvd_engine_destroy(struct hvd_engine *e);

/*
 * Leaves the job and waits for the other ranks to do so, once. What is pending ends with
 * HVD_ERR_SHUTDOWN. Others may wait meanwhile. HVD_ERR_STATE, and nothing is done, in a thread that
 * may not call MPI; HVD_ERR_SYSTEM.
 */
hvd_status_t hvd_engine_shutdown(struct hvd_engine *e, struct hvd_err *err);

/* Where this rank is; constant, also after the shutdown. */
const struct hvd_topology *hvd_engine_topology(const struct hvd_engine *e);

/* An allreduce of one tensor as the program describes it, not checked; all borrowed for the call
 * but input and output. */
struct hvd_described {
    enum hvd_op op; /* HVD_ALLREDUCE */
    int dtype;
    int reduce;
    enum hvd_device device;
    int ndim;
    double prescale;
    double postscale;
    const int64_t *shape;
    const char *name;
    const void *input;
    void *output;
    uint32_t set;
    bool is_waited_now;  /* see hvd_submission */
    uint32_t group_size; /* 0: alone */
    const struct hvd_completion *completion;
};

/*
 * Submits the tensor if it is the one that is expected next, because it followed the last one
 * before: then nothing about it has to be checked or looked up. False: nothing was done, submit it
 * the usual way, which finds out what is wrong with it. Any thread.
 */
bool hvd_engine_submit_expected(struct hvd_engine *e, const struct hvd_described *d,
                                int64_t *handle);

/* The same for the n > 1 tensors of a group, which is one that was agreed on as a group: all of
 * them or none. They are of one set. */
bool hvd_engine_submit_expected_group(struct hvd_engine *e, const struct hvd_described *d,
                                      uint32_t n, int64_t *handles);

/*
 * Submits a tensor; *handle is for hvd_engine_wait. HVD_ERR_EXISTS when the name is pending,
 * HVD_ERR_SHUTDOWN, HVD_ERR_NOMEM. Any thread.
 */
hvd_status_t hvd_engine_submit(struct hvd_engine *e, const struct hvd_submission *submission,
                               int64_t *handle, struct hvd_err *err);

/* The name of a join. */
#define HVD_JOIN_NAME "join.noname"

/* What a rank did not take of its program. */
struct hvd_refused {
    uint32_t set;
    struct hvd_strview name; /* of any length: one that is not legal keeps nobody waiting */
    const char *reason;
};

/*
 * A tensor was refused here, by who checks what the program submits or by the engine: announces
 * that, so that it fails on the ranks that have submitted it, or will, with the reason. A refusal
 * counts as the submission that it was: the program may submit the name again at once, here and
 * there. Nothing is done where nobody waits for this rank: it is not in the set, has joined or
 * left, is alone, or the name is pending (then that is what they wait for). A job whose rank has no
 * memory for that ends. Any thread.
 */
void hvd_engine_refuse(struct hvd_engine *e, const struct hvd_refused *refused);

/*
 * Submits n tensors of one set that complete together or fail together; handles receives one for
 * each. All or nothing is submitted. Failures as above; HVD_ERR_EXISTS also for a name that the
 * group has twice.
 */
hvd_status_t hvd_engine_submit_group(struct hvd_engine *e, const struct hvd_submission *submissions,
                                     uint32_t n, int64_t *handles, struct hvd_err *err);

/*
 * Makes a process set of these ranks; every rank of the job calls it alike, in the same order among
 * other calls about sets, and waits. *id is its number on every rank. HVD_ERR_INVALID for ranks
 * that cannot be; HVD_ERR_MISMATCH when ranks disagree; HVD_ERR_CONFLICT when there is such a set;
 * HVD_ERR_EXISTS when another thread is at it; HVD_ERR_STATE when the transport has no sets;
 * HVD_ERR_SHUTDOWN, HVD_ERR_NOMEM. Any thread that may wait.
 */
hvd_status_t hvd_engine_add_set(struct hvd_engine *e, const int *ranks, int n_ranks, uint32_t *id,
                                struct hvd_err *err);

/* Removes a set, not set 0, the same way. What is pending in it ends with HVD_ERR_SHUTDOWN.
 * HVD_ERR_NOT_FOUND; else as above. */
hvd_status_t hvd_engine_remove_set(struct hvd_engine *e, uint32_t id, struct hvd_err *err);

/* Waits until every rank has called it; HVD_ERR_MISMATCH when the values differ. Else as above. */
hvd_status_t hvd_engine_agree(struct hvd_engine *e, int32_t value, struct hvd_err *err);

/* The numbers of the sets that there are, as many as there is room for; returns how many there are.
 * Any thread. */
int hvd_engine_sets(struct hvd_engine *e, uint32_t *ids, int room);

/* The ranks of a set, sorted, as many as there is room for; returns how many there are, -1 when
 * there is no such set. Any thread, member or not. */
int hvd_engine_set_ranks(struct hvd_engine *e, uint32_t id, int *ranks, int room);

/* HVD_ERR_INVALID when a rank of the job is not in the process set: no broadcast can begin there.
 * HVD_OK also where there is no such set, or this rank is not in it. Any thread. */
hvd_status_t hvd_engine_check_root(struct hvd_engine *e, uint32_t set, int root,
                                   struct hvd_err *err);

/* This rank in the process set, and its size, into *place. HVD_ERR_NOT_FOUND when there is no such
 * set, HVD_ERR_DENIED when this rank is not in it. Any thread. */
hvd_status_t hvd_engine_self(struct hvd_engine *e, uint32_t set, struct hvd_self *self,
                             struct hvd_err *err);

/* The number of the next tensor of this operation and process set that has no name, from 1; 0 when
 * this rank is not in the set. Any thread. */
uint64_t hvd_engine_count_unnamed(struct hvd_engine *e, uint32_t set, enum hvd_op op);

/* What was done so far, into *out. Any thread. */
void hvd_engine_read_counters(struct hvd_engine *e, struct hvd_engine_counters *out);

/* 1 when the tensor is done, 0 when not, -1 for an unknown handle. Does a step of work. */
int hvd_engine_poll(struct hvd_engine *e, int64_t handle);

/* What a wait brings besides the status. */
struct hvd_outcome {
    struct horovod_output *output; /* of an allgather or alltoall; the caller's; else NULL */
    int64_t number;                /* join: the rank that joined last */
};

/*
 * Waits for the tensor and ends its handle. outcome may be NULL. Returns how the tensor ended:
 * HVD_OK, HVD_ERR_MISMATCH, HVD_ERR_SHUTDOWN, HVD_ERR_TOO_LARGE, with the reason in err;
 * HVD_ERR_NOT_FOUND for an unknown handle or one that another thread waits for; HVD_ERR_STATE in a
 * thread that may not call MPI.
 */
hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err);

/* The same for timeout_ns or a little more: then HVD_INPROGRESS, and the handle stays. Below 0:
 * without end. 0: does not sleep, and works for the tensor itself only where that takes some
 * microseconds. */
hvd_status_t hvd_engine_wait_for(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                 struct hvd_outcome *outcome, struct hvd_err *err);

/* One step of work, unless another thread drives; whether anything happened. For tests that drive
 * all ranks from one thread. */
bool hvd_engine_step(struct hvd_engine *e);

#endif
