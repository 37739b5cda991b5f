#ifndef HVD_WORKER_TRANSPORT_SHM_SHM_H
#define HVD_WORKER_TRANSPORT_SHM_SHM_H

#include "worker/transport/cpu_location.h"
#include "worker/transport/transport.h"

/*
 * The transport of ranks that map the same memory: control messages through rings, collectives
 * through staging areas guarded by flags. It knows the number of ranks and its own rank. hybrid.h
 * decides how they share the memory.
 *
 * test and receive never block. When every rank has a processor of its own, they poll for a moment
 * before they return HVD_INPROGRESS. A rank with nothing to do may sleep until a peer writes:
 *
 *     ticket = listen(t);  if (nothing of my own to do) sleep(t, ticket, ns);
 */

/* The shape of a segment; the same on all ranks. 0 stands for the default. */
struct hvd_shm_shape {
    int n_ranks;
    size_t stage_bytes; /* for each of a rank's two staging areas */
    size_t small_bytes; /* an allreduce of at most this size is one exchange; at most 2 KiB */
    size_t ring_bytes;  /* between two ranks, each way; a power of two */
};

struct hvd_shm_options {
    struct hvd_shm_shape shape;
    struct hvd_topology topology; /* of this rank; topology.size is shape.n_ranks */
    void *segment;                /* mapped, of hvd_shm_size bytes, zeroed before the first rank */
    bool owns_mapping;            /* destroy unmaps it */
    int fd;                       /* of the segment, owned; its locks show which processes have
                                     ended. -1: no loss is detected */
    bool is_crowded;              /* more ranks than processors: never spin. Also detected where the
                                     locations are known */
    const struct hvd_cpu_location
        *cpu_location; /* of this rank; borrowed for the call. NULL: that of `doorbell`, or else
                          read from hwloc if fd shows that ranks are processes */
    const struct hvd_transport *doorbell; /* also of shared memory: progress here wakes ranks that
                                             sleep there, and no rank sleeps here. Outlives this
                                             one. NULL: ranks sleep here */
    const int *doorbell_ranks;            /* by rank: its rank in `doorbell`; borrowed for the
                                             call */
    const int *names; /* by rank: its name in errors; borrowed for the call. NULL: its number
                         here */
};

/* Counts since this rank attached. */
struct hvd_shm_counts {
    uint64_t bytes_read; /* of payloads, by collectives: from tensors, stages, and blocks in
                            between */
    uint64_t bytes_written;
    uint64_t rounds;   /* of collectives */
    uint64_t polls;    /* for the next round of a collective, without success */
    uint64_t messages; /* sent */
    uint64_t sleeps;   /* system calls to sleep */
    uint64_t wakes;    /* system calls to wake a peer */
    uint64_t looks;    /* system calls to see whether a peer is alive */
};

/* Bytes of a segment; 0 when the shape is not a legal one. */
size_t hvd_shm_size(const struct hvd_shm_shape *shape);

/*
 * Attaches this rank to the segment. The caller makes sure that all ranks have attached before any
 * of them uses the transport. Takes ownership of segment and fd, also on failure. HVD_ERR_INVALID
 * for an illegal shape, HVD_ERR_NOMEM, HVD_ERR_SYSTEM when the lock cannot be taken.
 */
hvd_status_t hvd_shm_create(const struct hvd_shm_options *options, struct hvd_transport **out,
                            struct hvd_err *err);

/* The counts of this rank. Borrowed; only the thread that calls into the transport may read
 * them. */
const struct hvd_shm_counts *hvd_shm_counts(const struct hvd_transport *t);

/* Whether a message came in, or a collective can go on. A caller that sleeps elsewhere asks after
 * it has announced its sleep there. */
bool hvd_shm_has_news(const struct hvd_transport *t);

/* Wakes a sleeping rank, after a write for it to memory outside this segment. Cheap when the rank
 * is awake. */
void hvd_shm_nudge(const struct hvd_transport *t, int rank);

#endif
