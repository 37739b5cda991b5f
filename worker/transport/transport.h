#ifndef HVD_WORKER_TRANSPORT_TRANSPORT_H
#define HVD_WORKER_TRANSPORT_TRANSPORT_H

#include "base/log.h"
#include "worker/core/collective.h"

/*
 * The port between ranks: control messages between any two ranks, and collectives of all ranks. One
 * thread at a time calls into a transport, not always the same one unless `thread_bound`. No
 * function blocks, except for create and destroy, which are collective and may wait for the peers.
 *
 * Every adapter guarantees (tests/unit/worker/transport/conformance.h checks it):
 *
 * - messages between two ranks arrive whole, once, in the order sent; across senders in any order;
 * - a sent message moves on whenever its sender calls send, receive, test, flush or sleep, and in a
 *   clean destroy. Between these calls it need not: a part may wait for room or for a reply of the
 *   receiver. So a rank whose messages others await must go on calling;
 * - all ranks start collectives in the same order; several may be moving at once, and they finish
 *   in any order; results are the same bits on every rank;
 * - input and output may be the same memory; the caller owns both, and leaves them untouched until
 *   the collective is finished;
 * - the adapter converts failures to hvd_status_t, once, and names the rank where it is known.
 */
struct hvd_transport;

/* The location of this rank. */
struct hvd_topology {
    int rank;
    int size;
    int local_rank;
    int local_size;
    int cross_rank;
    int cross_size;
    bool is_homogeneous;   /* every host runs the same number of ranks */
    bool threads_multiple; /* several threads may call MPI at once */
    bool thread_bound;     /* only the thread that created the transport may call it */
};

/* A received message. The receiver owns data, from hvd_malloc. */
struct hvd_inbound {
    int from;
    char *data;
    size_t len;
};

struct hvd_transport_ops {
    const char *name;

    /* Queues a copy of the message for rank `to`, itself excluded. HVD_ERR_NOMEM,
     * HVD_ERR_UNAVAILABLE when the rank is lost. */
    hvd_status_t (*send)(struct hvd_transport *t, int to, const void *data, size_t len,
                         struct hvd_err *err);

    /* Receives the next message; HVD_INPROGRESS when none is there. HVD_ERR_GONE once per lost
     * rank, with in->from and the reason in err; HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
    hvd_status_t (*receive)(struct hvd_transport *t, struct hvd_inbound *in, struct hvd_err *err);

    /* Moves on messages that this rank has sent, as send, receive, test and sleep do too. NULL:
     * only these do. */
    void (*flush)(struct hvd_transport *t);

    /* Frees in->data of a received message, or keeps it for the next one. NULL: the receiver calls
     * hvd_free. */
    void (*recycle)(struct hvd_transport *t, struct hvd_inbound *in);

    /* Starts a collective of which at least one rank has an element. A failure means that the
     * transport is broken: HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
    hvd_status_t (*start)(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err);

    /* Returns HVD_OK once the collective is finished, and must not be called for it again.
     * Otherwise HVD_INPROGRESS, or a failure, after which it never finishes: HVD_ERR_UNAVAILABLE
     * when a rank is lost, HVD_ERR_SYSTEM. */
    hvd_status_t (*test)(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err);

    /* Enables the collectives of a process set of these ranks (sorted, this one among them). May
     * wait for the other members. Every member calls it, and no member waits for another in a
     * different call in between. NULL: this adapter has only set 0. HVD_ERR_NOMEM,
     * HVD_ERR_SYSTEM. */
    hvd_status_t (*add_set)(struct hvd_transport *t, uint32_t set, const int *ranks, int n_ranks,
                            struct hvd_err *err);

    /* Whether add_set may run in another thread. Meanwhile this one may send and receive messages,
     * and nothing else; once `is_left` is set, also abandon, and destroy without `clean`. NULL: it
     * may not. */
    bool (*adds_aside)(const struct hvd_transport *t);

    /* Disables the collectives of a set, when none of them moves any more. Every member calls
     * it. */
    void (*remove_set)(struct hvd_transport *t, uint32_t set);

    /* Abandons a started collective of which test has not returned HVD_OK. The adapter never tests
     * it again, and stops using its memory where possible (MPI cannot: it may still write the
     * output). */
    void (*abandon)(struct hvd_transport *t, struct hvd_collective *c);

    /* The ranks of the job for which a started, unfinished collective waits. Writes at most `room`
     * of them to ranks and returns their number; 0 where unknown. NULL: never known. */
    int (*awaits)(struct hvd_transport *t, const struct hvd_collective *c, int *ranks, int room);

    /* The progress of such a collective, as a number that never falls. It grows when this rank
     * sends or receives data of it, or of one that it waits behind. Progress that cannot be seen
     * does not count: a call of MPI shows its end alone. NULL: never known. */
    uint64_t (*moved)(struct hvd_transport *t, const struct hvd_collective *c);

    /* The host name of a rank, borrowed; NULL where this rank does not know it. */
    const char *(*host)(const struct hvd_transport *t, int rank);

    /* A number for the host of a rank: the same for ranks of one host, and the same on every rank
     * of the job. NULL: unknown. */
    int (*host_number)(const struct hvd_transport *t, int rank);

    /* Frees everything. clean: all ranks have agreed to leave, and no collective moves. Returns
     * true if no memory of abandoned collectives is written to any more. With `is_left` it frees
     * nothing that add_set may use, and returns false. */
    bool (*destroy)(struct hvd_transport *t, bool clean);

    /*
     * Sleeping until a peer sends a message or moves a collective on. All are NULL where the
     * transport wakes no sleeper: then the user has to poll.
     *
     *     ticket = listen(t);  if (nothing else to do) sleep(t, ticket, timeout_ns);
     *
     * listen announces the sleep; events after it end the sleep at once. A sleep must follow every
     * listen, for 0 ns where the caller changes its mind. A negative timeout_ns means no timeout.
     * sleep may return early for any reason. The next receive looks for lost ranks, which it does
     * otherwise only after many calls or some time. wake ends the sleep of this rank; any thread
     * may call it, at any time.
     */
    uint32_t (*listen)(struct hvd_transport *t);
    void (*sleep)(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns);
    void (*wake)(struct hvd_transport *t);

    /* Whether every event that this rank may wait for ends its sleep now. Otherwise the user sleeps
     * for short times only. NULL: it does. */
    bool (*wakes)(const struct hvd_transport *t);

    /* Whether this thread is on the processor of a rank that a started collective waits for, as far
     * as is known: that rank cannot run while this thread polls. NULL: never known. */
    bool (*blocks_peer)(const struct hvd_transport *t);
};

/* The part of an adapter that its users see. Adapters put it first in their own struct. */
struct hvd_transport {
    const struct hvd_transport_ops *ops;
    struct hvd_topology topology;
    bool is_left; /* set by the user, for good: add_set runs, or is about to, in a thread that no
                     other waits for any more */
};

#endif
