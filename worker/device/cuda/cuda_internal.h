#ifndef HVD_WORKER_DEVICE_CUDA_CUDA_INTERNAL_H
#define HVD_WORKER_DEVICE_CUDA_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "worker/device/cuda/cuda.h"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/pack_table.h"

/*
 * The adapter's own parts. One thread, the launcher, makes all calls that may block, in the order
 * in which the engine handed work over:
 *
 *     engine ── launch ──> queue ──> launcher ── pack stream ──> collective stream ──> numbers
 *                                                                                        │
 *     engine, program <── query: a read of memory ───────────────────────────────────────┘
 *
 * Every stream of the adapter counts its finished work in memory that the host reads, so asking
 * whether work is done calls no driver.
 */

#define HVD_CUDA_SETS_MAX 64
#define HVD_CUDA_BUFFERS 2 /* while one moves, the next one is packed */

/* A stream, and the number of its work that is done. */
struct hvd_cuda_stream {
    struct CUstream_st *stream;
    uint32_t n_launched;          /* the launcher's */
    const _Atomic uint32_t *done; /* the stream writes the number of the work that is done */
    hvd_cu_ptr_t done_at;         /* its address for the stream */
    uint64_t n_allocations;       /* those that it has waited for; the launcher's */
};

/* A point on a stream; see device.h. */
struct hvd_cuda_event {
    struct hvd_device_event base; /* first */
    struct hvd_cuda_event *next;  /* in the pool */
    struct CUevent_st *event;
    const struct hvd_cuda_stream *on; /* of this adapter; NULL: of the program */
    const void *program_stream;       /* where the program's event is */
    uint32_t number;                  /* of the work on that stream */
    bool is_collective;               /* an abort makes it fail unless it was done before */
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

enum hvd_cuda_set_state { HVD_CUDA_SET_NONE, HVD_CUDA_SET_CONNECTING, HVD_CUDA_SET_READY };

/* A process set. */
struct hvd_cuda_set {
    _Atomic int state; /* enum hvd_cuda_set_state */
    hvd_status_t status;
    struct hvd_err err;
    int rank;
    int size;
    struct hvd_nccl_id id;
    struct ncclComm *comm;
    bool is_aborted; /* comm is gone; the launcher does not look at it any more */
    struct hvd_cuda_stream pack;
    struct hvd_cuda_stream move;
    struct hvd_cuda_buffer buffers[HVD_CUDA_BUFFERS];
    int next_buffer;
    struct hvd_cuda_table *tables;
    int n_tables;
    uint64_t *scratch; /* for addresses; owned */
    uint32_t scratch_room;
    pthread_t thread; /* that connects */
    bool has_thread;
    int max_ctas; /* of a collective: see hvd_cuda_has_room */
    struct hvd_cuda_device *device;
};

/* Work in the queue. */
struct hvd_cuda_item {
    struct hvd_cuda_item *next;
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

    pthread_mutex_t mu; /* guards what follows; no call that may block is made while it is held */
    pthread_cond_t cond;
    struct hvd_cuda_item *first; /* work to launch */
    struct hvd_cuda_item **last;
    struct hvd_cuda_item *free_items;
    struct hvd_cuda_event *free_events;
    bool must_stop;
    bool is_launching;
    int n_stuck;                       /* threads that hang in NCCL: what they use is never freed */
    char cause[HVD_ERR_MSG_MAX + 200]; /* of the abort, or the first failure of the GPU */

    pthread_t launcher;
    atomic_bool is_aborted;
    atomic_bool has_failed;
    pthread_mutex_t side_mu; /* guards the side stream, on which memory comes and goes */
    struct CUstream_st *side;
    struct CUevent_st *alloc_event; /* behind the last allocation */
    _Atomic uint64_t n_allocations;
    _Atomic uint32_t n_marks;  /* events on streams of the program so far */
    struct hvd_cuda_stream in; /* copies into host memory, and out of it */
    struct hvd_cuda_stream out;
    _Atomic uint32_t *numbers; /* pinned: `done` of each stream */
    hvd_cu_ptr_t numbers_at;
    int n_numbers;
    struct hvd_cuda_set *sets[HVD_CUDA_SETS_MAX];
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

/* Whether the work of that number is done. Any thread. */
bool hvd_cuda_stream_is_done(const struct hvd_cuda_stream *s, uint32_t number);

/* Records that the GPU has failed, once; returns the status. Any thread. */
hvd_status_t hvd_cuda_fail(struct hvd_cuda_device *g, hvd_status_t status, struct hvd_err *err);

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

/* --- launcher.c ------------------------------------------------------------------------------- */

/* Starts the thread; stop ends it, with work that was not launched. */
hvd_status_t hvd_cuda_launcher_start(struct hvd_cuda_device *g, struct hvd_err *err);
void hvd_cuda_launcher_stop(struct hvd_cuda_device *g);

/* Frees the items, none of which is in use. */
void hvd_cuda_items_destroy(struct hvd_cuda_device *g);

/* The functions of the port; see device.h. */
hvd_status_t hvd_cuda_launch(struct hvd_device_port *d, struct hvd_device_work *work,
                             struct hvd_err *err);
hvd_status_t hvd_cuda_test(struct hvd_device_port *d, struct hvd_device_work *work,
                           struct hvd_err *err);
void hvd_cuda_forget(struct hvd_device_port *d, struct hvd_device_work *work);

/* --- copy.c, move.c, tables.c ----------------------------------------------------------------- */

/* Makes a stream wait for the inputs of the work, and for the last allocation. */
hvd_status_t hvd_cuda_await_inputs(struct hvd_cuda_device *g, const struct hvd_cuda_item *item,
                                   struct hvd_cuda_stream *s, struct hvd_err *err);

/* Launches a copy from or into host memory, or a collective with its copies. *out: its event. */
hvd_status_t hvd_cuda_copy(struct hvd_cuda_device *g, struct hvd_cuda_item *item,
                           struct hvd_cuda_event **out, struct hvd_err *err);
hvd_status_t hvd_cuda_move(struct hvd_cuda_device *g, struct hvd_cuda_item *item,
                           struct hvd_cuda_event **out, struct hvd_err *err);

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

/* Returns the set, which for a set of one rank is created now. In the context. */
hvd_status_t hvd_cuda_set_of(struct hvd_cuda_device *g, uint32_t id, bool is_alone,
                             struct hvd_cuda_set **out, struct hvd_err *err);

/* The functions of the port; see device.h. */
hvd_status_t hvd_cuda_make_key(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                               struct hvd_err *err);
hvd_status_t hvd_cuda_connect(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                              const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err);
hvd_status_t hvd_cuda_connected(struct hvd_device_port *d, uint32_t set, struct hvd_err *err);
bool hvd_cuda_has_room(struct hvd_device_port *d);
void hvd_cuda_disconnect(struct hvd_device_port *d, uint32_t set);
void hvd_cuda_abort(struct hvd_device_port *d, const char *cause);

/* Frees all sets. */
void hvd_cuda_sets_destroy(struct hvd_cuda_device *g);

#endif
