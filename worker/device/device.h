#ifndef HVD_WORKER_DEVICE_DEVICE_H
#define HVD_WORKER_DEVICE_DEVICE_H

#include <stdatomic.h>

#include "worker/core/collective.h"

/*
 * The port between the engine and a device that has memory of its own. A rank has one device.
 * docs/device.md draws the life of a fused operation on it.
 *
 * The engine hands a fused operation over as a whole. The device enqueues it in the background and
 * returns an event. The operation is launched then, which is all that the engine waits for; the
 * program lets its own stream wait for the event, or waits on the host:
 *
 *     the program    mark ──> ready                        order, wait <── event
 *                              │                                            ^
 *     the engine               └──> launch ─────────> test ─────────────────┘
 *                                     │                ^
 *     the device                      └─ waits, copies, collectives, event
 *
 * Unless its comment says otherwise, a call does not block. Any thread may call mark, order, wait,
 * query, free and recycle. One thread at a time makes all other calls: the engine's progress
 * owner, which may be a different thread each time.
 *
 * Adapters convert failures to hvd_status_t here, once, and put the device's own text into err:
 * HVD_ERR_NOMEM, HVD_ERR_SYSTEM, or HVD_ERR_UNAVAILABLE when a collective was aborted or its peer
 * is lost. A device that has failed stays failed. The engine then ends the job and names rank,
 * tensor and device.
 */
struct hvd_device_port;

/* A point on a stream of the device or the program. It is done when all earlier work on that
 * stream is. Shared: see hvd_device_event_retain. */
struct hvd_device_event {
    struct hvd_device_port *device;
    atomic_uint n_users;
};

enum hvd_device_work_kind {
    HVD_DEVICE_MOVE,    /* a collective between devices, with all copies that it needs */
    HVD_DEVICE_SCATTER, /* the first step of an allreduce in three: see `part` */
    HVD_DEVICE_GATHER,  /* and the third one */
    HVD_DEVICE_LOAD,    /* a copy of inputs into host memory */
    HVD_DEVICE_UNLOAD,  /* a copy from host memory into outputs */
};

/* Whether devices move data to each other for such work. */
static inline bool hvd_device_is_between(enum hvd_device_work_kind kind)
{
    return kind <= HVD_DEVICE_GATHER;
}

/* A fused operation, or a part of it, that is handed over. `launch` copies everything that it
 * refers to, except tensors and host memory. */
struct hvd_device_work {
    enum hvd_device_work_kind kind;
    /* MOVE, SCATTER, GATHER: what moves, with the contract of a transport's start (transport.h):
     * same order on all ranks of a set. Memory is the device's. A piece without input contributes
     * zeros, and one without output drops its result. LOAD and UNLOAD: only its dtype matters. */
    const struct hvd_collective *move;
    const struct hvd_piece *pieces; /* LOAD, UNLOAD: the tensors, as above */
    int n_pieces;
    /* Memory from alloc_host. LOAD, UNLOAD: has the tensors one behind the other. SCATTER, GATHER:
     * has this rank's part. */
    void *host;
    struct hvd_device_event *const *ready; /* the device waits for these before it reads an input */
    int n_ready;
    bool is_alone; /* MOVE: the set has one rank, and was not connected: only the scaling remains */
    bool is_shared; /* MOVE: pieces have memory in common, so the device reads all of them before it
                       writes one */
    struct hvd_device_event *event; /* out, of `test`: done when the work is; the caller's. NULL: it
                                       is done already */
    void *_state;                   /* the adapter's; NULL: not handed over */
};

/* The members of a process set, for the device's own collectives. */
struct hvd_device_set {
    uint32_t set;
    int rank; /* within the set */
    int size;
    const int *ranks; /* numbers in the job, by rank in the set; borrowed until connected */
    /* by rank in the set, borrowed for the call; NULL: all are on one host */
    const int *hosts;       /* a number that the ranks of a host share */
    const int *local_ranks; /* among the ranks of the host */
};

/* How far the collectives of a set are, since the set connected. Both numbers wrap. */
struct hvd_device_progress {
    uint32_t n_begun; /* that the device has reached, because the inputs are there */
    uint32_t n_done;
};

/* Size of the key that rank 0 of a set makes and all its ranks receive before they connect. An
 * ncclUniqueId fits. */
#define HVD_DEVICE_KEY_MAX 128

struct hvd_device_ops {
    /* Allocates memory of the device, aligned for every type. The host never accesses it. */
    hvd_status_t (*alloc)(struct hvd_device_port *d, size_t bytes, void **out, struct hvd_err *err);
    /* Frees it once the event is done, without waiting. after is borrowed; NULL: at once. */
    void (*free)(struct hvd_device_port *d, void *memory, struct hvd_device_event *after);

    /* Whether this is memory of the device. NULL: it cannot tell. */
    bool (*owns)(struct hvd_device_port *d, const void *memory);

    /* Allocates memory of the host that the device accesses at full speed. May be slow, so the
     * engine reuses what it has. free_host waits for copies that use the memory. */
    hvd_status_t (*alloc_host)(struct hvd_device_port *d, size_t bytes, void **out,
                               struct hvd_err *err);
    void (*free_host)(struct hvd_device_port *d, void *memory);

    /* Returns an event behind all present work on a stream of the program. *out may become NULL:
     * it is done already. */
    hvd_status_t (*mark)(struct hvd_device_port *d, void *stream, struct hvd_device_event **out,
                         struct hvd_err *err);
    /* Makes later work on a stream of the program wait for the event. */
    hvd_status_t (*order)(struct hvd_device_port *d, struct hvd_device_event *event, void *stream,
                          struct hvd_err *err);
    /* HVD_OK once the event is done, else HVD_INPROGRESS, or the failure of the work before it. */
    hvd_status_t (*query)(struct hvd_device_port *d, struct hvd_device_event *event,
                          struct hvd_err *err);
    /* Does the same, but blocks until the event is done. */
    hvd_status_t (*wait)(struct hvd_device_port *d, struct hvd_device_event *event,
                         struct hvd_err *err);
    /* Takes an event back that has no users any more: see hvd_device_event_release. */
    void (*recycle)(struct hvd_device_port *d, struct hvd_device_event *event);

    /* Hands work over. It runs behind all work of its kind and set that was handed over before. */
    hvd_status_t (*launch)(struct hvd_device_port *d, struct hvd_device_work *work,
                           struct hvd_err *err);
    /* HVD_OK once the work is launched, with work->event; else HVD_INPROGRESS, or its failure. */
    hvd_status_t (*test)(struct hvd_device_port *d, struct hvd_device_work *work,
                         struct hvd_err *err);
    /* Forgets work that was handed over, after an abort: no test follows. */
    void (*forget)(struct hvd_device_port *d, struct hvd_device_work *work);

    /*
     * Collectives between devices. All are NULL if the device has none. If that is so on any
     * rank of a set, the engine stages the set's tensors through host memory.
     *
     * `moves` returns whether they compute exactly what host memory would; it depends on the
     * arguments alone, so it is the same on all ranks. The engine calls make_key on rank 0 of a
     * set. It then calls connect with that key on every rank of the set, before the first
     * collective, and connected until that no longer returns HVD_INPROGRESS.
     */
    const char *name; /* of what moves the data, for the timeline: "nccl" */
    bool (*moves)(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce);
    hvd_status_t (*make_key)(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                             struct hvd_err *err);
    hvd_status_t (*connect)(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                            const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err);
    hvd_status_t (*connected)(struct hvd_device_port *d, uint32_t set, struct hvd_err *err);
    /*
     * Returns the elements of this rank's part of an allreduce in a connected set, if that takes
     * three steps, else -1. NULL: none does. Ranks of equal local rank have equal parts:
     *
     *     SCATTER    the devices of a host reduce; each writes its part to the memory of the host
     *                the engine reduces each part across hosts: same order on all ranks
     *     GATHER     the devices of a host gather the parts, and write the results
     *
     * Behind SCATTER, the next work of the set is its GATHER. The event of SCATTER is done when the
     * part is there.
     */
    int64_t (*part)(struct hvd_device_port *d, const struct hvd_collective *move);
    /* Whether another set may connect. If not so on any rank, the set is staged. NULL: it may. */
    bool (*has_room)(struct hvd_device_port *d);
    /* Reads memory alone, so it returns although the device or its driver hangs. */
    struct hvd_device_progress (*progress)(struct hvd_device_port *d, uint32_t set);
    /* Ends the connections of a set, in the background, behind its work, which all ranks have
     * launched. They may wait for the peers to do the same. settle waits for that, for some seconds
     * at most; NULL: nothing is left to be waited for. */
    void (*disconnect)(struct hvd_device_port *d, uint32_t set);
    void (*settle)(struct hvd_device_port *d);

    /* Ends the running collectives of all sets, because some rank will not do its part. They fail
     * when their events are asked for. Waits until no work accesses memory any more, for some
     * seconds at most: a kernel of the program may not end. Nothing is launched afterwards. cause
     * is copied. */
    void (*abort)(struct hvd_device_port *d, const char *cause);
};

/* The part of an adapter that its users see; adapters put it first in their own struct. Outputs are
 * users of their device, because their memory is its. The engine and events are not: they end
 * before the last user is removed. */
struct hvd_device_port {
    const struct hvd_device_ops *ops;
    const char *name;                          /* for messages: "GPU 0 (NVIDIA H200)" */
    int ordinal;                               /* among the devices that this process sees */
    void (*destroy)(struct hvd_device_port *); /* NULL: its creator destroys it in another way */
    atomic_uint n_users;                       /* besides its creator */
};

/* Adds a user to a device, and returns the device. NULL is allowed. Any thread. */
static inline struct hvd_device_port *hvd_device_retain(struct hvd_device_port *d)
{
    if (d)
        atomic_fetch_add_explicit(&d->n_users, 1, memory_order_relaxed);
    return d;
}

/* Removes a user, or the creator, and destroys the device after the last one. NULL is allowed. Any
 * thread. */
static inline void hvd_device_release(struct hvd_device_port *d)
{
    if (d && atomic_fetch_sub_explicit(&d->n_users, 1, memory_order_acq_rel) == 0 && d->destroy)
        d->destroy(d);
}

/* Adds a user to an event, and returns the event. NULL is allowed. Any thread. */
static inline struct hvd_device_event *hvd_device_event_retain(struct hvd_device_event *event)
{
    if (event)
        atomic_fetch_add_explicit(&event->n_users, 1, memory_order_relaxed);
    return event;
}

/* Removes a user. The device takes an event without users back. NULL is allowed. Any thread. */
static inline void hvd_device_event_release(struct hvd_device_event *event)
{
    if (event && atomic_fetch_sub_explicit(&event->n_users, 1, memory_order_acq_rel) == 1)
        event->device->ops->recycle(event->device, event);
}

/*
 * Returns the host as a device. Its memory is the host's, every operation completes during the
 * call, and it has no collectives of its own. It replaces the device on a joined rank that has
 * none, and tests compare adapters with it. Tensors in host memory do not pass through it: they
 * move in place. All callers share it; it is never destroyed.
 */
struct hvd_device_port *hvd_host_device(void);

#endif
