#ifndef HVD_WORKER_ENGINE_ENGINE_H
#define HVD_WORKER_ENGINE_ENGINE_H

#include "worker/autotune/autotune.h"
#include "worker/core/op_layout.h"
#include "worker/device/device.h"
#include "worker/engine/output.h"
#include "worker/telemetry/telemetry.h"
#include "worker/transport/transport.h"

/*
 * The engine of one rank. It accepts tensors from any thread, negotiates with the other ranks,
 * moves the data and wakes waiting threads. A waiting thread makes the progress itself.
 *
 * The engine holds submitted tensors back for up to `cycle_ns`, so that later ones can move
 * together with them. It does not while a thread waits or polls, because the program then submits
 * nothing more.
 *
 *                      ├─ step(), one owner ───┤
 *
 * The progress owner is a waiting thread if there is one, so that a small tensor needs no hand-over
 * between threads. Otherwise it is the background thread, which sleeps while nothing is outstanding
 * here.
 *
 * The coordinator and the inner nodes of a set's tree (core/tree.h) receive for others. They then
 * sleep in the transport until a peer wakes them. If a peer cannot wake them they poll, first every
 * `idle_poll_ns` and later once a second. No tensor can complete without their own request, so
 * polling only delays the shutdown of another rank and stall warnings.
 *
 * With stall warnings, all other ranks check a few times in the warning time whether a peer probes
 * them.
 */
struct hvd_engine;

struct hvd_engine_options {
    int64_t cycle_ns;          /* longest sleep of a progress owner that makes no progress */
    int64_t idle_poll_ns;      /* see above */
    int64_t stall_warning_ns;  /* 0: no stall warnings and no probes */
    int64_t stall_shutdown_ns; /* a tensor that waits so long ends the job; 0: never */
    int64_t grace_ns; /* below a second: delay before this rank leaves a failed job, so that the
                         others receive the cause before they lose this rank */
    const struct hvd_log *log;       /* borrowed until hvd_engine_destroy */
    struct hvd_telemetry *telemetry; /* borrowed likewise; NULL: no telemetry */
    bool no_background;              /* tensors move only while a thread waits or polls */
    struct hvd_autotune *autotune;   /* rank 0's; borrowed until hvd_engine_destroy; NULL: none */
    struct hvd_device_port *device;  /* as for hvd_engine_use_device; NULL: none yet */
    uint32_t cache_capacity; /* maximum number of tensors that are requested by a bit; 0: none */
    int tree_fanout; /* maximum number of children of a rank, as core/tree.h defines it; 0: chosen.
                        The same on every rank */
    int64_t fusion_bytes;       /* maximum bytes of a fused operation; 0: tensors move alone */
    bool keeps_groups_apart;    /* tensors of a group fuse only with those of their group */
    int64_t adasum_chunk_bytes; /* largest message of an Adasum's exchange; 0: no limit; the same on
                                   every rank */
};

/* Counters since the creation of the engine. */
struct hvd_engine_counters {
    uint64_t plans;        /* plans with a tensor */
    uint64_t plan_hits;    /* plans of cached tensors whose execution plan was cached */
    uint64_t plan_misses;  /* plans of cached tensors that needed a new execution plan */
    uint64_t tensors;      /* tensors that were executed */
    uint64_t flights;      /* fused operations in which they moved */
    uint64_t idle_wakeups; /* wakeups of the background thread while this rank had no work */
};

struct horovod_output;

/* The program's callbacks for a tensor; see horovod_done_t and horovod_allocate_t. */
struct hvd_completion {
    /* Calls `done`; NULL: a thread waits for the tensor instead. */
    void (*call)(const struct hvd_completion *self, hvd_status_t status, const char *message,
                 struct horovod_output *output);
    void (*done)(void);                                           /* as the program passed it */
    void *(*allocate)(void *context, int64_t rows, size_t bytes); /* NULL: the engine allocates */
    void *context;
};

/* A submitted tensor. All pointers are borrowed for the call, but input and output must stay
 * until the end of the wait. */
struct hvd_submission {
    struct hvd_request request; /* must pass hvd_request_check */
    const void *input;          /* in device memory, like output, if request.device is HVD_GPU */
    void *output;               /* allreduce, broadcast, reducescatter */
    struct hvd_device_event *ready; /* the device reads the input when it is done; borrowed for the
                                       call; NULL: the input is there */
    const int64_t
        *splits;  /* alltoall: rows to each rank of the set; must pass hvd_op_layout_splits */
    uint32_t set; /* the process set */
    const struct hvd_agreement *agreement;   /* the engine's own submissions have one; else NULL */
    const struct hvd_completion *completion; /* NULL: none */
    bool is_waited_now; /* this thread waits at once, so none has to be woken */
};

/* Creates an engine on the transport and takes ownership of it, also on failure. HVD_ERR_NOMEM,
 * HVD_ERR_SYSTEM. */
hvd_status_t hvd_engine_create(struct hvd_transport *transport,
                               const struct hvd_engine_options *options, struct hvd_engine **out,
                               struct hvd_err *err);

/* Frees an engine after its shutdown, with the tensors for which no thread waited. NULL is
 * allowed. */
void hvd_engine_destroy(struct hvd_engine *e);

/*
 * Gives the engine the device of this rank, which it did not have. It must have it before a tensor
 * on the device is submitted. Borrowed until the engine is destroyed. Any thread, one at a time.
 */
void hvd_engine_use_device(struct hvd_engine *e, struct hvd_device_port *device);

/* Returns the device of this rank; NULL: it has none yet. Any thread. */
struct hvd_device_port *hvd_engine_device(const struct hvd_engine *e);

/*
 * Leaves the job and waits until the other ranks do, once. Pending tensors end with
 * HVD_ERR_SHUTDOWN. Other threads may wait meanwhile. HVD_ERR_STATE, without any effect, in a
 * thread that may not call MPI; HVD_ERR_SYSTEM.
 */
hvd_status_t hvd_engine_shutdown(struct hvd_engine *e, struct hvd_err *err);

/* Returns the place of this rank in the job; constant, also after the shutdown. */
const struct hvd_topology *hvd_engine_topology(const struct hvd_engine *e);

/* An unchecked allreduce of one tensor, as the program describes it. All pointers are borrowed
 * for the call, but input and output must stay until the end of the wait. */
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
    bool is_waited_now;             /* see hvd_submission */
    uint32_t group_size;            /* 0: no group */
    struct hvd_device_event *ready; /* see hvd_submission */
    const struct hvd_completion *completion;
};

/*
 * Submits the tensor if it is the expected next one, because it followed the last one before. Then
 * nothing about it has to be checked or looked up. Otherwise returns false without any effect, and
 * the caller must use hvd_engine_submit, which reports what is wrong. Any thread.
 */
bool hvd_engine_submit_expected(struct hvd_engine *e, const struct hvd_described *d,
                                int64_t *handle);

/* Does the same for the n > 1 tensors of a group of one set, if that group was agreed on.
 * Submits all of them or none. */
bool hvd_engine_submit_expected_group(struct hvd_engine *e, const struct hvd_described *d,
                                      uint32_t n, int64_t *handles);

/*
 * Submits a tensor; *handle is for hvd_engine_wait. HVD_ERR_EXISTS when the name is pending;
 * HVD_ERR_SHUTDOWN; HVD_ERR_NOMEM. Any thread.
 */
hvd_status_t hvd_engine_submit(struct hvd_engine *e, const struct hvd_submission *submission,
                               int64_t *handle, struct hvd_err *err);

/* The name of a join. */
#define HVD_JOIN_NAME "join.noname"

/* A submission that this rank rejected. */
struct hvd_refused {
    uint32_t set;
    struct hvd_strview name; /* of any length: for an illegal name, no rank can be waiting */
    const char *reason;
};

/*
 * Announces that a tensor was refused here, by the checks of the API or by the engine. The tensor
 * then fails with the reason on all ranks that have submitted it or will. A refusal counts as the
 * submission itself, so the program may submit the name again at once, on any rank.
 *
 * Does nothing when no rank waits for this one: it is not in the set, has joined or left, or is
 * alone. Does nothing either when the name is pending, because the others wait for that tensor.
 * Ends the job when this rank has no memory for the refusal. Any thread.
 */
void hvd_engine_refuse(struct hvd_engine *e, const struct hvd_refused *refused);

/*
 * Submits n tensors of one set that complete together or fail together; handles receives one for
 * each. Submits all or none. Fails as hvd_engine_submit does. HVD_ERR_EXISTS also when a name is
 * twice in the group.
 */
hvd_status_t hvd_engine_submit_group(struct hvd_engine *e, const struct hvd_submission *submissions,
                                     uint32_t n, int64_t *handles, struct hvd_err *err);

/*
 * Creates a process set of these ranks and waits for all ranks of the job. Each of them must make
 * the same calls about sets in the same order. *id becomes the set's number on every rank.
 *
 * HVD_ERR_INVALID for impossible ranks; HVD_ERR_MISMATCH when ranks disagree; HVD_ERR_CONFLICT when
 * the set exists; HVD_ERR_EXISTS when another thread makes such a call; HVD_ERR_STATE when the
 * transport has no sets; HVD_ERR_SHUTDOWN; HVD_ERR_NOMEM. Any thread that may wait.
 */
hvd_status_t hvd_engine_add_set(struct hvd_engine *e, const int *ranks, int n_ranks, uint32_t *id,
                                struct hvd_err *err);

/* Removes a set, but not set 0, in the same way. Its pending tensors end with HVD_ERR_SHUTDOWN.
 * HVD_ERR_NOT_FOUND; else fails as hvd_engine_add_set does. */
hvd_status_t hvd_engine_remove_set(struct hvd_engine *e, uint32_t id, struct hvd_err *err);

/* Waits until every rank has called it; HVD_ERR_MISMATCH when the values differ. Else fails as
 * hvd_engine_add_set does. */
hvd_status_t hvd_engine_agree(struct hvd_engine *e, int32_t value, struct hvd_err *err);

/* Writes the numbers of the existing sets, at most `room`; returns the number of sets. Any
 * thread. */
int hvd_engine_sets(struct hvd_engine *e, uint32_t *ids, int room);

/* Writes the sorted ranks of a set, at most `room`. Returns their number; -1 when the set does
 * not exist. Any thread, on members and other ranks. */
int hvd_engine_set_ranks(struct hvd_engine *e, uint32_t id, int *ranks, int room);

/* HVD_ERR_INVALID when the root, a rank of the job, is not in the process set. HVD_OK also when
 * the set does not exist or this rank is not in it. Any thread. */
hvd_status_t hvd_engine_check_root(struct hvd_engine *e, uint32_t set, int root,
                                   struct hvd_err *err);

/* Sets *self to this rank in the process set and the set's size. HVD_ERR_NOT_FOUND when the set
 * does not exist; HVD_ERR_DENIED when this rank is not in it. Any thread. */
hvd_status_t hvd_engine_self(struct hvd_engine *e, uint32_t set, struct hvd_self *self,
                             struct hvd_err *err);

/* Returns the number of the next unnamed tensor of this operation and process set, from 1 on; 0
 * when this rank is not in the set. Any thread. */
uint64_t hvd_engine_count_unnamed(struct hvd_engine *e, uint32_t set, enum hvd_op op);

/* Copies the counters into *out. Any thread. */
void hvd_engine_read_counters(struct hvd_engine *e, struct hvd_engine_counters *out);

/* Does one step of work. Returns 1 when the tensor is done and its result is there, 0 when not, -1
 * for an unknown handle. */
int hvd_engine_poll(struct hvd_engine *e, int64_t handle);

/* The results of a wait besides the status. */
struct hvd_outcome {
    struct horovod_output *output;  /* of an allgather or alltoall, the caller's; else NULL */
    struct hvd_device_event *event; /* of a tensor on the device, the caller's to release: the
                                       result is there once it is done. NULL: it is there */
    int64_t number;                 /* join: the rank that joined last */
};

/*
 * Waits for the tensor and ends its handle. outcome may be NULL. Returns the tensor's status, with
 * the reason in err: HVD_OK, HVD_ERR_MISMATCH, HVD_ERR_SHUTDOWN, HVD_ERR_TOO_LARGE.
 *
 * HVD_ERR_NOT_FOUND when the handle is unknown or another thread waits for it. HVD_ERR_STATE in a
 * thread that may not call MPI.
 */
hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err);

/* Does the same for timeout_ns or a little more, and then returns HVD_INPROGRESS without ending
 * the handle. Below 0: no limit. 0: does not sleep, and works for the tensor only if that takes
 * some microseconds. */
hvd_status_t hvd_engine_wait_for(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                 struct hvd_outcome *outcome, struct hvd_err *err);

/* Does the same, but also waits until the result of a tensor on the device is there: outcome->event
 * is NULL then. HVD_ERR_SHUTDOWN when the job or the device has failed. */
hvd_status_t hvd_engine_wait_result(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                    struct hvd_outcome *outcome, struct hvd_err *err);

/*
 * Returns HVD_OK while the job goes on. If it has failed, waits until nothing moves any more:
 * HVD_ERR_SHUTDOWN with the cause. Streams of the program do not fail: behind a HVD_OK, what they
 * have waited for before is right. Any thread.
 */
hvd_status_t hvd_engine_check(struct hvd_engine *e, struct hvd_err *err);

/*
 * Makes a stream of the program wait for the event of a tensor on the device. NULL is allowed.
 * HVD_ERR_INVALID when the device rejects the stream; HVD_ERR_SHUTDOWN as hvd_engine_await. The
 * caller keeps the event. Any thread.
 */
hvd_status_t hvd_engine_order(struct hvd_engine *e, struct hvd_device_event *event, void *stream,
                              struct hvd_err *err);

/*
 * Waits on the host until the event of a tensor on the device is done, and makes progress meanwhile
 * where no thread of the engine does. NULL is allowed. HVD_ERR_SHUTDOWN when the job or the device
 * has failed: the result is undefined. The caller keeps the event. Any thread that may wait.
 */
hvd_status_t hvd_engine_await(struct hvd_engine *e, struct hvd_device_event *event,
                              struct hvd_err *err);

/* Does one step of work unless another thread is the progress owner; returns whether anything
 * happened. For tests that run all ranks in one thread. */
bool hvd_engine_step(struct hvd_engine *e);

#endif
