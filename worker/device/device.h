#ifndef HVD_WORKER_DEVICE_DEVICE_H
#define HVD_WORKER_DEVICE_DEVICE_H

#include "worker/core/collective.h"

/*
 * The port between the engine and a device that has memory of its own. A rank has one device.
 * docs/device.md draws the life of a fused operation on it.
 *
 * Calls do not block unless their comment describes it. Work on a stream runs later, in the order
 * in which it was enqueued. Streams do not wait for each other. An event completes when all earlier
 * work on its stream has.
 *
 * One thread at a time calls: the engine's progress owner, which may be a different thread each
 * time. Any thread may call `free` at any time.
 *
 * Adapters convert failures to hvd_status_t here, once, and put the device's own text into err:
 * HVD_ERR_NOMEM, HVD_ERR_SYSTEM, or HVD_ERR_UNAVAILABLE when a peer of a collective is lost. A
 * device that has failed stays failed. The engine then ends the job and names rank, tensor and
 * device.
 *
 * The program may use a result once the event behind its unpacking is done. The engine queries that
 * event before it completes a tensor. A program that orders its own work by events instead
 * (HOROVOD_ENABLE_ASYNC_COMPLETION) needs that very event when it is recorded. Nothing else of this
 * port would change.
 */
struct hvd_device_port;
struct hvd_device_stream;
struct hvd_device_event;

/* A copy between tensors in the device's memory and one contiguous buffer. */
struct hvd_device_copy {
    const struct hvd_piece *pieces; /* read only during the call. pack: the inputs, NULL for zeros;
                                       unpack: the outputs, NULL for those that are not needed */
    int n_pieces;
    void *buffer; /* from alloc or alloc_host; or the piece itself, if there is only one */
    bool is_host; /* the buffer is from alloc_host */
    enum hvd_dtype dtype;
    const struct hvd_scaling *scaling; /* pack applies the prescale; unpack applies postscale and
                                          divisor as hvd_reduce_finish does, to each output. NULL:
                                          plain copies. Read only during the call */
};

/* The members of a process set, for the device's own collectives. */
struct hvd_device_set {
    uint32_t set;
    int rank; /* within the set */
    int size;
    const int *ranks; /* numbers in the job, by rank in the set */
};

/* Size of the key that rank 0 of a set makes and all its ranks receive before they connect. An
 * ncclUniqueId fits. */
#define HVD_DEVICE_KEY_MAX 128

struct hvd_device_ops {
    /* Allocates memory of the device, aligned for every type. The engine never accesses it. */
    hvd_status_t (*alloc)(struct hvd_device_port *d, size_t bytes, void **out, struct hvd_err *err);
    void (*free)(struct hvd_device_port *d, void *memory);

    /* Allocates memory of the host that the device accesses at full speed. May be slow, so the
     * engine reuses what it has. */
    hvd_status_t (*alloc_host)(struct hvd_device_port *d, size_t bytes, void **out,
                               struct hvd_err *err);
    void (*free_host)(struct hvd_device_port *d, void *memory);

    /* Whether one of the program's events, which marks an input as ready, is done: HVD_OK,
     * HVD_INPROGRESS, or a failure. */
    hvd_status_t (*query_ready)(struct hvd_device_port *d, void *ready, struct hvd_err *err);

    hvd_status_t (*create_stream)(struct hvd_device_port *d, struct hvd_device_stream **out,
                                  struct hvd_err *err);
    /* Waits for the work on the stream, which accesses no memory afterwards. After `abort` the
     * wait is short. */
    void (*destroy_stream)(struct hvd_device_port *d, struct hvd_device_stream *stream);

    /* Enqueue the copy of inputs into a buffer, or of a buffer into outputs. Many pieces take
     * few launches. The memory must stay until the copy is done. */
    hvd_status_t (*pack)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                         const struct hvd_device_copy *copy, struct hvd_err *err);
    hvd_status_t (*unpack)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                           const struct hvd_device_copy *copy, struct hvd_err *err);

    /* Records an event behind all present work on the stream. *out may become NULL, which means
     * done already. The engine owns the event until `release`, which never waits. */
    hvd_status_t (*record)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                           struct hvd_device_event **out, struct hvd_err *err);
    /* HVD_OK once the event is done, after which it must not be queried again. Else
     * HVD_INPROGRESS, or the stream's failure. For a collective, that includes failures that its
     * communicator reports. */
    hvd_status_t (*query)(struct hvd_device_port *d, struct hvd_device_event *event,
                          struct hvd_err *err);
    void (*release)(struct hvd_device_port *d, struct hvd_device_event *event);

    /*
     * Collectives between devices. All four are NULL if the device has none. If that is so on any
     * rank, the engine stages the tensors of all ranks through host memory.
     *
     * The engine calls make_key on rank 0 of a set. It then calls add_set with that key on every
     * rank of the set, before the first collective; add_set may wait for the other ranks.
     *
     * start enqueues a collective, with the contract of a transport's start (transport.h): same
     * order on all ranks, and the caller keeps *c until the event behind it is done. Its memory is
     * the device's. Its scaling has no effect, because pack and unpack have applied it. Its pieces
     * are NULL.
     */
    hvd_status_t (*make_key)(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                             struct hvd_err *err);
    hvd_status_t (*add_set)(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                            const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err);
    void (*remove_set)(struct hvd_device_port *d, uint32_t set);
    hvd_status_t (*start)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                          struct hvd_collective *c, struct hvd_err *err);

    /* Ends the running collectives of all sets, because some rank will not do its part. Other
     * work on the streams runs to its end. */
    void (*abort)(struct hvd_device_port *d);
};

/* The part of an adapter that its users see; adapters put it first in their own struct. Its
 * creator destroys it, after the engine and all outputs of the engine. */
struct hvd_device_port {
    const struct hvd_device_ops *ops;
    const char *name; /* for messages: "GPU 0 (NVIDIA H200)" */
};

/*
 * Returns the host as a device. Its memory is the host's, every operation completes during the
 * call, and it has no collectives of its own. It replaces the device on a joined rank that has
 * none, and tests compare adapters with it. Tensors in host memory do not pass through it: they
 * move in place. All callers share it; it is never destroyed.
 */
struct hvd_device_port *hvd_host_device(void);

#endif
