#ifndef HVD_WORKER_DEVICE_CUDA_CUDA_INTERNAL_H
#define HVD_WORKER_DEVICE_CUDA_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "worker/device/cuda/cuda.h"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/pack_table.h"
#include "worker/device/cuda/recent.h"
#include "worker/device/cuda/torus.h"

/*
 * The adapter's own parts. Threads that launch, the launchers, make all calls that may block, in
 * the order in which the engine handed work over. Each connected process set has one, so that a set
 * which waits for its peers inside NCCL holds no other one up; copies and sets of one rank share
 * one more:
 *
 *     engine ── launch ──> queue ──> thread ── pack stream ──> collective stream ──> numbers
 *                                                                                        │
 *     engine, program <── query: a read of memory ───────────────────────────────────────┘
 *
 * Every stream of the adapter counts its finished work in memory that the host reads, so asking
 * whether work is done calls no driver.
 */

#define HVD_CUDA_SETS_MAX 64 /* that are connected at the same time */
#define HVD_CUDA_BUFFERS 2   /* while one moves, the next one is packed */
#define HVD_CUDA_NUMBERS (2 * HVD_CUDA_SETS_MAX + 4)

/* A stream, and the number of its work that is done. */
struct hvd_cuda_stream {
    struct CUstream_st *stream;
    uint32_t n_launched;          /* the launcher's */
    const _Atomic uint32_t *done; /* the stream writes the number of the work that is done */
    hvd_cu_ptr_t done_at;         /* its address for the stream */
    int slot;                     /* of the number */
    uint64_t n_allocations;       /* those that it has waited for; the launcher's */
    atomic_bool has_more;         /* work without a number: a launch failed in the middle */
};

/* A point on a stream; see device.h. */
struct hvd_cuda_event {
    struct hvd_device_event base; /* first */
    struct hvd_cuda_event *next;  /* in the pool */
    struct CUevent_st *event;
    const _Atomic uint32_t
        *done; /* of the adapter's stream, which may be gone; NULL: of the program */
    const void *program_stream; /* where the program's event is */
    uint32_t number;            /* of the work on that stream */
    int64_t since_ns;           /* when it was launched */
    bool is_collective;         /* an abort makes it fail unless it was done before */
};

/* The table of a list of tensors, in pinned memory and on the device: what kernels.h draws, then
 * the addresses of inputs, then those of outputs. */
struct hvd_cuda_table {
    struct hvd_cuda_table *next; /* most recent first */
    struct hvd_pack_shape shape;
    size_t room; /* bytes of both */
    char *host;  /* pinned */
    hvd_cu_ptr_t device;
    bool is_for_unpack;  /* the collective stream uploaded it: the pack stream must not use it */
    bool is_uploaded[2]; /* the addresses of inputs, of outputs */
    uint32_t last[2];    /* the last work that used it, on the pack and the collective stream */
};

/* A buffer for fused tensors. */
struct hvd_cuda_buffer {
    hvd_cu_ptr_t memory;
    size_t bytes;
    struct CUevent_st *packed; /* on the pack stream */
    struct CUevent_st *free;   /* on the collective stream: the buffer may be packed again */
};

/* Work that one thread launches. The device's mu guards it. */
struct hvd_cuda_queue {
    struct hvd_cuda_device *device;
    struct hvd_cuda_item *first;
    struct hvd_cuda_item **last;
    pthread_cond_t cond;
    pthread_t thread;
    bool has_thread;
    bool is_launching;
    bool must_stop;
};

enum hvd_cuda_set_state { HVD_CUDA_SET_NONE, HVD_CUDA_SET_CONNECTING, HVD_CUDA_SET_READY };

/* What the thread of a set does at its end. */
enum hvd_cuda_set_end {
    HVD_CUDA_SET_JOINED,    /* nothing: another thread frees the set */
    HVD_CUDA_SET_LEAVES,    /* frees the set, together with the other ranks */
    HVD_CUDA_SET_ABANDONED, /* frees the set: the peers are gone, or NCCL has hung */
};

/* A process set. */
struct hvd_cuda_set {
    uint32_t id;
    struct hvd_cuda_queue queue; /* its thread connects first; a set of one rank has none */
    enum hvd_cuda_set_end end;   /* under mu */
    _Atomic int state;           /* enum hvd_cuda_set_state */
    hvd_status_t status;
    struct hvd_err err;
    int rank;
    int size;
    struct hvd_nccl_id key;
    struct ncclComm *comm;
    struct hvd_torus torus;
    struct ncclComm *local; /* for three steps, with the resources of comm; NULL: all take one */
    struct ncclComm *cross; /* likewise; NULL with a second step in host memory */
    hvd_nccl_op_t averages[HVD_DTYPES]; /* of local; 0: not made yet */
    bool is_aborted; /* all three are gone; the launcher does not look at them any more */
    bool is_in_nccl; /* the launcher calls NCCL; under mu */
    struct hvd_cuda_stream pack;
    struct hvd_cuda_stream move;
    const _Atomic uint32_t *begun; /* the number of the work that `move` has reached */
    hvd_cu_ptr_t begun_at;         /* its address for the stream */
    uint32_t n_before;             /* work that an earlier stream has counted in the same place */
    struct hvd_cuda_buffer buffers[HVD_CUDA_BUFFERS];
    int next_buffer;
    struct hvd_recent recent;        /* memory of what was launched; the launcher's */
    struct CUevent_st *ordered;      /* on the collective stream: the pack stream waits for it */
    struct hvd_cuda_buffer *halfway; /* of a SCATTER, until its GATHER; NULL: it needs none */
    struct hvd_cuda_table *tables;
    int n_tables;
    uint64_t *scratch; /* for addresses; owned */
    uint32_t scratch_room;
    int max_ctas; /* of a collective: see hvd_cuda_has_room */
    struct hvd_cuda_device *device;
};

/* Work in the queue. */
struct hvd_cuda_item {
    struct hvd_cuda_item *next;
    struct hvd_cuda_set *set;    /* MOVE; borrowed */
    struct hvd_device_work work; /* with copies of everything that it refers to */
    struct hvd_collective move;
    struct hvd_piece *pieces; /* owned, with room for n_room */
    int n_room;
    int64_t *counts; /* owned: of each rank, then what is received */
    int counts_room;
    struct hvd_device_event **ready; /* owned array of users of events */
    int ready_room;
    uint64_t allocations; /* of the device when it was handed over: see alloc_event */
    _Atomic int status;   /* HVD_INPROGRESS, then how the launch ended */
    atomic_bool is_forgotten;
    bool is_refused; /* the GPU had failed, or was aborted, before its turn */
    struct hvd_err err;
};

struct hvd_cuda_device {
    struct hvd_device_port port; /* first */
    const struct hvd_cuda_library *library;
    char name[160];
    int ordinal;
    hvd_cu_device_t device;
    struct CUctx_st *context;
    struct CUmod_st *module;
    struct CUfunc_st *kernels[HVD_CUDA_N_KERNELS];
    int n_multiprocessors;
    bool has_nccl;
    bool has_torus;
    bool has_hierarchy;

    pthread_mutex_t mu; /* guards what follows; no call that may block is made while it is held */
    struct hvd_cuda_queue queue; /* copies, and sets of one rank */
    struct hvd_cuda_item *free_items;
    struct hvd_cuda_event *free_events;
    int n_numbers; /* slots in use so far, and those that are free again */
    int n_free_numbers;
    int free_numbers[HVD_CUDA_NUMBERS];
    char cause[HVD_ERR_MSG_MAX + 200]; /* of the abort, or the first failure of the GPU */

    pthread_mutex_t comms_mu; /* guards sets and their communicators against whoever looks for
                                 errors of NCCL. The engine's thread alone changes sets */
    struct hvd_cuda_set *sets[HVD_CUDA_SETS_MAX]; /* that are connected or connect */
    int64_t looked_ns;                            /* for errors */
    int64_t lost_since_ns;                        /* NCCL has reported a lost peer; 0: it has not */

    atomic_int n_leaving; /* sets that their threads free */
    atomic_bool is_aborted;
    atomic_bool has_failed;
    _Atomic int64_t failed_ns; /* when it has */
    pthread_mutex_t side_mu;   /* guards the side stream, on which memory comes and goes */
    struct CUstream_st *side;
    struct CUevent_st *alloc_event; /* behind the last allocation */
    _Atomic uint64_t n_allocations;
    _Atomic uint32_t n_marks;  /* events on streams of the program so far */
    pthread_mutex_t pinned_mu; /* guards the list of pinned memory */
    struct hvd_cuda_pinned *pinned;
    struct hvd_cuda_stream in; /* copies into host memory, and out of it */
    struct hvd_cuda_stream out;
    _Atomic uint32_t *numbers; /* pinned: `done` of each stream, then `begun` of each */
    hvd_cu_ptr_t numbers_at;
    struct hvd_cuda_set *alone; /* of all sets of one rank, which need no communicator */
};

/* Returns an address of the device as a pointer, which the host cannot use. */
static inline void *hvd_cuda_pointer(hvd_cu_ptr_t at)
{
    void *memory = NULL;

    memcpy(&memory, &at, sizeof(memory));
    return memory;
}

/* Returns the adapter behind a port. */
static inline struct hvd_cuda_device *hvd_cuda_gpu(struct hvd_device_port *d)
{
    return (struct hvd_cuda_device *)d;
}

/* Returns the failure of a call of the driver; HVD_OK: there is none. */
static inline hvd_status_t hvd_cuda_check(const struct hvd_cuda_device *g, hvd_cu_result_t result,
                                          const char *what, struct hvd_err *err)
{
    return result == HVD_CU_SUCCESS ? HVD_OK
                                    : hvd_cuda_library_failure(g->library, result, what, err);
}

/* --- device.c --------------------------------------------------------------------------------- */

/* Makes the GPU's context current; leave restores the program's. They nest. */
hvd_status_t hvd_cuda_enter(const struct hvd_cuda_device *g, struct hvd_err *err);
void hvd_cuda_leave(const struct hvd_cuda_device *g);

/* Creates a stream with a number; destroy waits for it. In the context. */
hvd_status_t hvd_cuda_stream_create(struct hvd_cuda_device *g, struct hvd_cuda_stream *out,
                                    struct hvd_err *err);
void hvd_cuda_stream_destroy(struct hvd_cuda_device *g, struct hvd_cuda_stream *s);

/* Counts the work on the stream, behind all that is there: its number becomes n_launched. */
hvd_status_t hvd_cuda_stream_count(struct hvd_cuda_device *g, struct hvd_cuda_stream *s,
                                   struct hvd_err *err);

/* Whether the work of that number is done, by where a stream counts. Any thread. */
bool hvd_cuda_is_done(const _Atomic uint32_t *done, uint32_t number);

/* --- events.c --------------------------------------------------------------------------------- */

/* Takes an event out of the pool, with one user; NULL: HVD_ERR_NOMEM or the GPU's failure. In the
 * context. */
struct hvd_cuda_event *hvd_cuda_event_take(struct hvd_cuda_device *g, struct hvd_err *err);

/* The functions of the port; see device.h. */
hvd_status_t hvd_cuda_mark(struct hvd_device_port *d, void *stream, struct hvd_device_event **out,
                           struct hvd_err *err);
hvd_status_t hvd_cuda_order(struct hvd_device_port *d, struct hvd_device_event *event, void *stream,
                            struct hvd_err *err);
hvd_status_t hvd_cuda_query(struct hvd_device_port *d, struct hvd_device_event *event,
                            struct hvd_err *err);
hvd_status_t hvd_cuda_wait(struct hvd_device_port *d, struct hvd_device_event *event,
                           struct hvd_err *err);
void hvd_cuda_recycle(struct hvd_device_port *d, struct hvd_device_event *event);

/* Fills the pool, and frees it. In the context. */
hvd_status_t hvd_cuda_events_create(struct hvd_cuda_device *g, struct hvd_err *err);
void hvd_cuda_events_destroy(struct hvd_cuda_device *g);

/* --- pinned.c --------------------------------------------------------------------------------- */

/* Takes pinned memory, and puts it back for others: no work uses it any more. destroy frees all of
 * it, and waits for the GPU. HVD_ERR_NOMEM, or the GPU's failure. In the context. */
hvd_status_t hvd_cuda_pinned_take(struct hvd_cuda_device *g, size_t bytes, void **out,
                                  struct hvd_err *err);
void hvd_cuda_pinned_put(struct hvd_cuda_device *g, void *memory);
void hvd_cuda_pinned_destroy(struct hvd_cuda_device *g);

/* --- launcher.c ------------------------------------------------------------------------------- */

/* Initialises a queue without a thread; fini frees nothing that is in it. */
void hvd_cuda_queue_init(struct hvd_cuda_queue *q, struct hvd_cuda_device *g);
void hvd_cuda_queue_fini(struct hvd_cuda_queue *q);

/* Launches what is in the queue until it must stop. In the context, in the queue's thread. */
void hvd_cuda_queue_serve(struct hvd_cuda_queue *q);

/* Whether nothing waits or is being launched. */
bool hvd_cuda_queue_is_idle(struct hvd_cuda_queue *q);

/* Ends the thread behind the work that is there. stop waits for it, and abandon does not. */
void hvd_cuda_queue_stop(struct hvd_cuda_queue *q);
void hvd_cuda_queue_abandon(struct hvd_cuda_queue *q);

/* Starts the device's own thread. */
hvd_status_t hvd_cuda_launcher_start(struct hvd_cuda_device *g, struct hvd_err *err);

/* Frees the items, none of which is in use. */
void hvd_cuda_items_destroy(struct hvd_cuda_device *g);

/* The functions of the port; see device.h. */
hvd_status_t hvd_cuda_launch(struct hvd_device_port *d, struct hvd_device_work *work,
                             struct hvd_err *err);
hvd_status_t hvd_cuda_test(struct hvd_device_port *d, struct hvd_device_work *work,
                           struct hvd_err *err);
void hvd_cuda_forget(struct hvd_device_port *d, struct hvd_device_work *work);

/* --- reduce.c --------------------------------------------------------------------------------- */

enum hvd_cuda_reduce_step {
    HVD_CUDA_REDUCE_FLAT, /* all in one */
    HVD_CUDA_REDUCE_LOCAL,
    HVD_CUDA_REDUCE_CROSS,
    HVD_CUDA_REDUCE_GATHER,
    HVD_CUDA_REDUCE_SAVE,   /* this rank's part into host memory, behind LOCAL */
    HVD_CUDA_REDUCE_RESTORE /* and back, in front of GATHER */
};

/* What the messages of an allreduce have in common. The caller sets the first five. */
struct hvd_cuda_reduction {
    struct hvd_cuda_device *g;
    struct hvd_cuda_set *set;
    hvd_nccl_type_t type;
    hvd_nccl_op_t op;
    char *host;             /* SAVE, RESTORE: the part of the next message */
    hvd_nccl_op_t cross_op; /* across hosts */
    size_t width;
    bool has_torus; /* each step is a group of NCCL: from LOCAL to GATHER */
    enum hvd_cuda_reduce_step step;
};

/* Chooses the first step, and makes the operation of an average. */
hvd_status_t hvd_cuda_reduction_init(struct hvd_cuda_reduction *r, const struct hvd_collective *c,
                                     enum hvd_device_work_kind kind, struct hvd_err *err);

/* Calls NCCL for a message in the present step, or copies this rank's part. Behind the first step,
 * its data is in output. */
hvd_status_t hvd_cuda_reduce(struct hvd_cuda_reduction *r, const void *input, void *output,
                             size_t count, struct hvd_err *err);

/* --- copy.c, move.c, tables.c ----------------------------------------------------------------- */

/* Makes a stream wait for the inputs of the work, and for the last allocation. */
hvd_status_t hvd_cuda_await_inputs(struct hvd_cuda_device *g, const struct hvd_cuda_item *item,
                                   struct hvd_cuda_stream *s, struct hvd_err *err);

/* Launches a copy from or into host memory, or a collective with its copies. *out: its event. */
hvd_status_t hvd_cuda_copy(struct hvd_cuda_device *g, struct hvd_cuda_item *item,
                           struct hvd_cuda_event **out, struct hvd_err *err);
hvd_status_t hvd_cuda_move(struct hvd_cuda_device *g, struct hvd_cuda_item *item,
                           struct hvd_cuda_event **out, struct hvd_err *err);

/* A function of the port; see device.h. */
int64_t hvd_cuda_part(struct hvd_device_port *d, const struct hvd_collective *move);

/* Ends launched work: counts it on the stream and returns an event behind it. */
hvd_status_t hvd_cuda_end_work(struct hvd_cuda_device *g, struct hvd_cuda_stream *s,
                               bool is_collective, struct hvd_cuda_event **out,
                               struct hvd_err *err);

/* A copy of tensors into a buffer of the device, or out of it. */
struct hvd_cuda_packing {
    struct hvd_pack_list list;
    hvd_cu_ptr_t buffer;
    const struct hvd_scaling *scaling; /* NULL: none */
    bool is_unpack;
};

/* Launches that copy on the pack stream of the set, or for is_unpack on its collective stream. */
hvd_status_t hvd_cuda_pack(struct hvd_cuda_device *g, struct hvd_cuda_set *set,
                           const struct hvd_cuda_packing *packing, struct hvd_err *err);

/* Frees the tables of a set, whose streams are idle. In the context. */
void hvd_cuda_tables_destroy(struct hvd_cuda_device *g, struct hvd_cuda_set *set);

/* --- sets.c ----------------------------------------------------------------------------------- */

/* Returns the connected set; NULL: there is none of that number. The engine's thread. */
struct hvd_cuda_set *hvd_cuda_set_find(const struct hvd_cuda_device *g, uint32_t id);

/* Returns the set of all sets of one rank, which the first call creates. The engine's thread. */
hvd_status_t hvd_cuda_set_alone(struct hvd_cuda_device *g, struct hvd_cuda_set **out,
                                struct hvd_err *err);

/* The communicators of a set, NULL for those that it has not. The last one is the parent of the
 * others. */
#define HVD_CUDA_COMMS 3
struct hvd_cuda_comms {
    struct ncclComm *at[HVD_CUDA_COMMS];
};
struct hvd_cuda_comms hvd_cuda_comms_of(const struct hvd_cuda_set *set);

/* The functions of the port; see device.h. */
hvd_status_t hvd_cuda_make_key(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                               struct hvd_err *err);
hvd_status_t hvd_cuda_connect(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                              const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err);
hvd_status_t hvd_cuda_connected(struct hvd_device_port *d, uint32_t set, struct hvd_err *err);
struct hvd_device_progress hvd_cuda_progress(struct hvd_device_port *d, uint32_t set);
bool hvd_cuda_has_room(struct hvd_device_port *d);
void hvd_cuda_settle(struct hvd_device_port *d);
void hvd_cuda_disconnect(struct hvd_device_port *d, uint32_t set);

/* Frees all sets. In the context. */
void hvd_cuda_sets_destroy(struct hvd_cuda_device *g);

/* --- failure.c -------------------------------------------------------------------------------- */

/* Records that the GPU has failed, once; returns the status. Any thread. */
hvd_status_t hvd_cuda_fail(struct hvd_cuda_device *g, hvd_status_t status, struct hvd_err *err);

/* Puts a message into err, behind the name of the GPU unless it has that; returns the status. */
hvd_status_t hvd_cuda_name(const struct hvd_cuda_device *g, hvd_status_t status,
                           const char *message, struct hvd_err *err);

/* Whether the GPU has failed so recently that the engine may not have seen which work has. Other
 * work does not report the failure meanwhile, as its tensors would be named. Any thread. */
bool hvd_cuda_is_fresh(struct hvd_cuda_device *g);

/* Looks for errors that no call returns: a lost GPU, and what NCCL's own threads have met. Does so
 * for work that is old, and not often. Records a failure. Any thread. */
void hvd_cuda_look_for_errors(struct hvd_cuda_device *g, const struct hvd_cuda_event *event);

/* Before and after calls of NCCL for a set, by its launcher. HVD_ERR_UNAVAILABLE: there was an
 * abort, so its communicators may be gone. */
hvd_status_t hvd_cuda_nccl_enter(struct hvd_cuda_device *g, struct hvd_cuda_set *set,
                                 struct hvd_err *err);
void hvd_cuda_nccl_leave(struct hvd_cuda_device *g, struct hvd_cuda_set *set);

/* Whether nothing that was launched for a set uses memory any more. NULL is allowed. In the
 * context. */
bool hvd_cuda_set_is_quiet(struct hvd_cuda_device *g, struct hvd_cuda_set *set);

/* Whether work may use memory for ever, after an abort that did not end it. */
bool hvd_cuda_is_stuck(struct hvd_cuda_device *g);

/* The function of the port; see device.h. */
void hvd_cuda_abort(struct hvd_device_port *d, const char *cause);

#endif
