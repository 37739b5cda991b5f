#ifndef HVD_WORKER_DEVICE_DEVICE_H
#define HVD_WORKER_DEVICE_DEVICE_H

#include "worker/core/collective.h"

/*
 * What the engine needs of a device that has memory of its own: a rank has one. docs/device.md
 * draws the life of a fused operation over it.
 *
 * Nothing here blocks, but where it says so. What is put on a stream runs in the order it was put
 * there, and later; streams do not wait for each other. An event tells that everything before it on
 * its stream is done. One thread at a time calls (the progress owner of the engine), not always the
 * same one; `free` alone may be called by any thread at any time.
 *
 * Failures are converted to hvd_status_t here, once, with the device's own words in err:
 * HVD_ERR_NOMEM, HVD_ERR_SYSTEM, HVD_ERR_UNAVAILABLE when a peer of a collective is lost. A device
 * that has failed stays failed: the engine ends the job, naming rank, tensor and device.
 *
 * A result is the program's once the event behind its unpacking is done. The engine looks at that
 * event itself before it calls a tensor done; a program that orders its own work by events instead
 * (HOROVOD_ENABLE_ASYNC_COMPLETION) needs that very event handed to it when it is recorded, and
 * nothing else of this port changes.
 */
struct hvd_device_port;
struct hvd_device_stream;
struct hvd_device_event;

/* Tensors in the device's memory on one side, one behind the other on the other side. */
struct hvd_device_copy {
    const struct hvd_piece *pieces; /* read during the call alone. pack: the inputs, NULL for zeros;
                                       unpack: the outputs, NULL for those that nobody wants */
    int n_pieces;
    void *buffer; /* of alloc or alloc_host; or the piece itself, where there is one */
    bool is_host; /* it is of alloc_host */
    enum hvd_dtype dtype;
    const struct hvd_scaling *scaling; /* pack: prescale is applied; unpack: postscale and divisor,
                                          as hvd_reduce_finish does. NULL: copies. Read during the
                                          call alone */
};

/* The members of a process set, for collectives of the device's own. */
struct hvd_device_set {
    uint32_t set;
    int rank; /* within the set */
    int size;
    const int *ranks; /* of the job, by rank of the set */
};

/* What rank 0 of a set makes up and all its ranks get before they meet: an ncclUniqueId fits. */
#define HVD_DEVICE_KEY_MAX 128

struct hvd_device_ops {
    /* Memory of the device, aligned for every type; never read or written here. */
    hvd_status_t (*alloc)(struct hvd_device_port *d, size_t bytes, void **out, struct hvd_err *err);
    void (*free)(struct hvd_device_port *d, void *memory);

    /* Memory of the host that the device copies from and to at full speed. May be slow: the engine
     * keeps what it has. */
    hvd_status_t (*alloc_host)(struct hvd_device_port *d, size_t bytes, void **out,
                               struct hvd_err *err);
    void (*free_host)(struct hvd_device_port *d, void *memory);

    /* Whether an event of the program's, which says that an input is there, is done: HVD_OK,
     * HVD_INPROGRESS, or a failure. */
    hvd_status_t (*query_ready)(struct hvd_device_port *d, void *ready, struct hvd_err *err);

    hvd_status_t (*create_stream)(struct hvd_device_port *d, struct hvd_device_stream **out,
                                  struct hvd_err *err);
    /* Waits for what is on it: nothing of it touches any memory afterwards. After `abort` that is
     * soon. */
    void (*destroy_stream)(struct hvd_device_port *d, struct hvd_device_stream *stream);

    /* Puts the copying of inputs into a buffer, or of a buffer into outputs, on the stream: however
     * many pieces, few launches. The memory stays until it is done. */
    hvd_status_t (*pack)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                         const struct hvd_device_copy *copy, struct hvd_err *err);
    hvd_status_t (*unpack)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                           const struct hvd_device_copy *copy, struct hvd_err *err);

    /* An event behind all that is on the stream now; *out may become NULL: it is done already. It
     * is the engine's until `release`, which never waits. */
    hvd_status_t (*record)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                           struct hvd_device_event **out, struct hvd_err *err);
    /* HVD_OK once it is done (then do not ask again), HVD_INPROGRESS, or how the stream failed; of
     * a collective that includes what its communicator says. */
    hvd_status_t (*query)(struct hvd_device_port *d, struct hvd_device_event *event,
                          struct hvd_err *err);
    void (*release)(struct hvd_device_port *d, struct hvd_device_event *event);

    /*
     * Collectives between devices. All four are NULL where there are none: then the engine stages
     * the tensors through the memory of the host. It does so for all ranks when one of them has
     * none.
     *
     * make_key is called on rank 0 of a set; add_set on every rank of it with that key, before the
     * first collective of the set; it may wait for the other ranks. start puts a collective on the
     * stream, with the contract of a transport's (transport.h): same order on all ranks, the caller
     * keeps *c until the event behind it is done. Its memory is the device's; its scaling does
     * nothing (pack and unpack have done it) and its pieces are NULL.
     */
    hvd_status_t (*make_key)(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                             struct hvd_err *err);
    hvd_status_t (*add_set)(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                            const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err);
    void (*remove_set)(struct hvd_device_port *d, uint32_t set);
    hvd_status_t (*start)(struct hvd_device_port *d, struct hvd_device_stream *stream,
                          struct hvd_collective *c, struct hvd_err *err);

    /* Ends the collectives that are under way, of all sets: some rank will not do its part. What
     * else is on the streams runs to its end. */
    void (*abort)(struct hvd_device_port *d);
};

/* The part of an adapter that its users see; adapters put it first in their own struct. Whoever
 * made it destroys it, after the engine and all outputs of it. */
struct hvd_device_port {
    const struct hvd_device_ops *ops;
    const char *name; /* for messages: "GPU 0 (NVIDIA H200)" */
};

/*
 * The host as a device: its memory is the host's, everything is done at once, and it has no
 * collectives of its own. It stands in where a rank that has joined has no device, and is what
 * adapters are compared with. Tensors of the host do not pass it: they are moved where they are.
 * Shared by all, never destroyed.
 */
struct hvd_device_port *hvd_host_device(void);

#endif
