#ifndef HVD_WORKER_TRANSPORT_TRANSPORT_H
#define HVD_WORKER_TRANSPORT_TRANSPORT_H

#include "base/log.h"
#include "worker/core/collective.h"

/*
 * How ranks reach each other: control messages between any two ranks, and collectives of all ranks.
 * One thread at a time calls into a transport, not always the same one unless `thread_bound`. No
 * function blocks, but for create and destroy, which are collective and may wait for the peers.
 *
 * What every adapter keeps (tests/unit/worker/transport/conformance.h checks it):
 * - messages between two ranks arrive whole, once, in the order sent; across senders in any order;
 * - a message sent is on its way even if the sender never calls again, unless it leaves;
 * - collectives are started in the same order by all ranks, several may be moving at once, and they
 *   finish in any order; results are the same bits on every rank;
 * - input and output may be the same memory; both stay the caller's and untouched until finished;
 * - failures are converted to hvd_status_t here, once, and name the rank where it is known.
 */
struct hvd_transport;

/* Where this rank is. */
struct hvd_topology {
    int rank;
    int size;
    int local_rank;
    int local_size;
    int cross_rank;
    int cross_size;
    bool is_homogeneous;   /* every host runs as many ranks */
    bool threads_multiple; /* MPI may be called by several threads at once */
    bool thread_bound;     /* only the thread that created the transport may call it */
};

/* A message that came in. data is the receiver's to hvd_free. */
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

    /* The next message; HVD_INPROGRESS when there is none now. HVD_ERR_GONE once per lost rank,
     * with in->from and the reason in err; HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
    hvd_status_t (*receive)(struct hvd_transport *t, struct hvd_inbound *in, struct hvd_err *err);

    /* Moves on messages that this rank has sent, where that takes calls of the sender; receive and
     * test do it too. NULL: it takes none. */
    void (*flush)(struct hvd_transport *t);

    /* Frees in->data of a message that was received, or keeps it for the next one. NULL: hvd_free
     * does it. */
    void (*recycle)(struct hvd_transport *t, struct hvd_inbound *in);

    /* Starts a collective of at least one element somewhere. Failure means the transport is broken:
     * HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
    hvd_status_t (*start)(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err);

    /* HVD_OK once it is finished (then do not ask again), HVD_INPROGRESS, or a failure, after which
     * it never finishes: HVD_ERR_UNAVAILABLE when a rank is lost, HVD_ERR_SYSTEM. */
    hvd_status_t (*test)(struct hvd_transport *t, struct hvd_collective *c, struct hvd_err *err);

    /* Makes the collectives of a process set of these ranks (sorted, this one among them) possible.
     * Every member calls it, with nothing else of theirs in between that another waits for; it may
     * wait for the others. NULL: this adapter has no sets but 0. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
    hvd_status_t (*add_set)(struct hvd_transport *t, uint32_t set, const int *ranks, int n_ranks,
                            struct hvd_err *err);

    /* Whether add_set may run in another thread while this one sends and receives messages, and
     * calls nothing else; once `is_left` is set, abandon and destroy without `clean` too. NULL: it
     * may not. */
    bool (*adds_aside)(const struct hvd_transport *t);

    /* Ends that: nothing of the set moves any more. Every member calls it. */
    void (*remove_set)(struct hvd_transport *t, uint32_t set);

    /* Gives up a collective that was started and not seen finished: the adapter never asks again,
     * and stops using its memory where that is possible (MPI cannot: it may still write the
     * output). */
    void (*abandon)(struct hvd_transport *t, struct hvd_collective *c);

    /* The ranks of the job that a collective waits for, which was started and not seen finished:
     * at most `room` of them into ranks; how many, 0 where that is not known. NULL: never known. */
    int (*awaits)(struct hvd_transport *t, const struct hvd_collective *c, int *ranks, int room);

    /* How far such a collective is, as a number that never falls: it grows when data of it, or of
     * one that it waits behind, has come or gone here. What cannot be seen does not count: a call
     * of MPI shows its end alone. NULL: never known. */
    uint64_t (*moved)(struct hvd_transport *t, const struct hvd_collective *c);

    /* The host name of a rank where this rank knows it, else NULL. Borrowed. */
    const char *(*host)(const struct hvd_transport *t, int rank);

    /* A number of the host of a rank: the same for ranks of one host, and the same on every rank of
     * the job. NULL: not known. */
    int (*host_number)(const struct hvd_transport *t, int rank);

    /* Frees everything. clean: all ranks have agreed to leave, nothing is moving. Returns whether
     * memory of abandoned collectives is certainly not written to any more. With `is_left` it frees
     * nothing that add_set may use, and returns false. */
    bool (*destroy)(struct hvd_transport *t, bool clean);

    /* Sleeping until a peer sends a message or moves a collective on. All are NULL where the
     * transport wakes nobody: then the user has to look again and again.
     *
     *     ticket = listen(t);  if (nothing else to do) sleep(t, ticket, timeout_ns);
     *
     * listen announces the sleep; what happens after it ends the sleep at once. Every listen is
     * followed by a sleep (0 ns to think better of it). A negative timeout_ns is none. Returns
     * early for any reason. wake ends the sleep of this rank; any thread may call it, at any time.
     */
    uint32_t (*listen)(struct hvd_transport *t);
    void (*sleep)(struct hvd_transport *t, uint32_t ticket, int64_t timeout_ns);
    void (*wake)(struct hvd_transport *t);

    /* Whether everything that this rank may wait for ends its sleep now. Where only some of it
     * does, the user sleeps for short times. NULL: it does. */
    bool (*wakes)(const struct hvd_transport *t);
};

/* The part of an adapter that its users see; adapters put it first in their own struct. */
struct hvd_transport {
    const struct hvd_transport_ops *ops;
    struct hvd_topology topology;
    bool is_left; /* by its user, for good: add_set runs, or is about to, in a thread for which
                     nobody waits any more */
};

#endif
