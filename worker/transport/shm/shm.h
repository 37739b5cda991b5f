#ifndef HVD_WORKER_TRANSPORT_SHM_SHM_H
#define HVD_WORKER_TRANSPORT_SHM_SHM_H

#include "worker/transport/cpu_location.h"
#include "worker/transport/transport.h"

/*
 * The transport of ranks that map the same memory: control messages through rings, collectives
 * through staging areas guarded by flags. It knows how many ranks there are and which one it is,
 * but not how they came to share the memory: that is hybrid.h.
 *
 * test and receive never block. They look for a moment before they say HVD_INPROGRESS when every
 * rank has a processor of its own. Who has nothing to do may sleep until a peer writes something:
 *
 *     ticket = listen(t);  if (nothing of my own to do) sleep(t, ticket, ns);
 */

/* The shape of a segment; the same for all ranks. 0 takes the default. */
struct hvd_shm_shape {
    int n_ranks;
    size_t stage_bytes; /* of each of a rank's two staging areas */
    size_t small_bytes; /* an allreduce of at most so much is one exchange; at most 2 KiB */
    size_t ring_bytes;  /* between two ranks, each way; a power of two */
};

struct hvd_shm_options {
    struct hvd_shm_shape shape;
    struct hvd_topology topology; /* of this rank; topology.size is shape.n_ranks */
    void *segment;                /* mapped, of hvd_shm_size bytes, zeroed before the first rank */
    bool owns_mapping;            /* destroy unmaps it */
    int fd;                       /* of the segment, owned; a rank that ends without a word is told
                                     by its lock on it. -1: no rank can be told lost */
    bool is_crowded;              /* more ranks than processors: never spin. Found out too, where
                                     the locations are known */
    const struct hvd_cpu_location
        *cpu_location; /* of this rank; borrowed for the call. NULL: that of `doorbell`, or
          else found out, if fd says that ranks are processes */
    const struct hvd_transport *doorbell; /* also of shared memory: whoever sleeps there is woken
                                         when this one moves, and nobody sleeps here. Outlives this
                                         one. NULL: ranks sleep here */
    const int *doorbell_ranks;            /* which rank there each rank is; borrowed for the call */
    const int *names; /* how each rank is called in errors; borrowed for the call. NULL: by its
                         number here */
};

/* What a rank has done since it attached. */
struct hvd_shm_counts {
    uint64_t bytes_read; /* of payloads, by collectives: from tensors, stages, blocks in between */
    uint64_t bytes_written;
    uint64_t rounds;   /* of collectives */
    uint64_t messages; /* sent */
    uint64_t sleeps;   /* system calls: to sleep */
    uint64_t wakes;    /* to wake a peer */
    uint64_t looks;    /* to see whether a peer is alive */
};

/* Bytes of a segment; 0 when the shape is not a legal one. */
size_t hvd_shm_size(const struct hvd_shm_shape *shape);

/*
 * Attaches this rank to the segment. All ranks have attached before any of them uses the transport;
 * to see to that is the caller's. Takes segment and fd over, also on failure. HVD_ERR_INVALID for a
 * shape that is none, HVD_ERR_NOMEM, HVD_ERR_SYSTEM when the lock cannot be had.
 */
hvd_status_t hvd_shm_create(const struct hvd_shm_options *options, struct hvd_transport **out,
                            struct hvd_err *err);

/* The counts of this rank. Borrowed; read by whoever calls into the transport. */
const struct hvd_shm_counts *hvd_shm_counts(const struct hvd_transport *t);

/* Whether something came in, or what was started can go on: whoever wants to sleep elsewhere asks
 * after it said so there. */
bool hvd_shm_has_news(const struct hvd_transport *t);

/* Wakes a rank that sleeps, after something was written for it in memory of another kind. Cheap
 * when it is awake. */
void hvd_shm_nudge(const struct hvd_transport *t, int rank);

#endif
