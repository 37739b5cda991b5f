#ifndef HVD_WORKER_TRANSPORT_MPI_MOVE_H
#define HVD_WORKER_TRANSPORT_MPI_MOVE_H

#include "worker/transport/algorithm.h"
#include "worker/transport/mpi/types.h"
#include "worker/transport/transport.h"

#define HVD_MPI_CHUNKS 4

/* A chunk of an allreduce that passes the steps of one of our algorithms. */
struct hvd_mpi_chunk {
    bool is_active;
    struct hvd_schedule schedule;
    struct hvd_exchange exchange; /* of the current step */
    int step;
    int n_steps;
    int tag;
    char *data;
    char *room; /* receives the elements to combine; owned */
    size_t room_bytes;
    MPI_Request requests[2];
};

/* The MPI calls of one collective. Finished ones are reused. */
struct hvd_mpi_move {
    struct hvd_mpi_move *next;    /* in the spare or the abandoned list */
    enum hvd_algorithm algorithm; /* HVD_ALGORITHM_MPI: uses requests below; else chunks */
    struct hvd_mpi_chunk chunks[HVD_MPI_CHUNKS];
    int64_t next_element; /* the first that no chunk has taken */
    int64_t steps_elements;
    uint32_t next_tag; /* of the next chunk */
    uint64_t n_steps;  /* of all chunks, taken so far */
    int room;          /* of requests */
    int n_requests;
    int *counts_displs; /* two by rank; owned */
    int size;           /* that counts_displs has room for */
    char *packed;       /* owned */
    size_t packed_size;
    MPI_Request requests[];
};

/* The settings and the spare memory of moves. */
struct hvd_mpi_mover {
    struct hvd_mpi_ops ops;
    struct hvd_mpi_move *spare; /* owned */
    int64_t chunk_elements;     /* at most, per MPI call */
    enum hvd_algorithm algorithm;
    struct hvd_algorithm_table table;
    bool is_deterministic;
    int64_t step_bytes; /* 0: the default */
};

/* A communicator, this rank's number in it, and its tags. */
struct hvd_mpi_channel {
    MPI_Comm comm;
    int rank;
    int size;
    uint32_t next_tag; /* of messages of chunks; the same on all ranks */
};

/* The number of tags that a collective takes from its channel. */
uint32_t hvd_mpi_move_tags(const struct hvd_mpi_move *mv, const struct hvd_collective *c);

/* Makes progress; *done: whether all started calls are complete. Returns an MPI error code. */
int hvd_mpi_move_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                      struct hvd_mpi_move *mv, int *done);

/* The number of complete calls, or of messages that its steps have moved. */
uint64_t hvd_mpi_move_moved(struct hvd_mpi_move *mv);

/*
 * Starts a collective. Returns the move, or NULL when out of memory (then *rc is MPI_SUCCESS) or
 * when MPI failed. In that case *broken, which may be NULL, owns the started calls.
 */
struct hvd_mpi_move *hvd_mpi_move_start(struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                                        const struct hvd_collective *c, int *rc,
                                        struct hvd_mpi_move **broken);

/* To be called when all calls are complete: scales and unpacks the result, and keeps the move for
 * reuse. */
void hvd_mpi_move_finish(struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                         const struct hvd_collective *c, struct hvd_mpi_move *mv);

/* steps.c: begins an allreduce by mv->algorithm. The caller has packed fused tensors, and unpacks
 * them at the end; steps.c does the rest, scaling of the sum included. Returns an MPI error
 * code. */
int hvd_mpi_steps_start(const struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                        const struct hvd_collective *c, struct hvd_mpi_move *mv);

/* steps.c: as hvd_mpi_move_test. */
int hvd_mpi_steps_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                       struct hvd_mpi_move *mv, int *done);

/* steps.c: the ranks of the channel that have not sent a message that the steps wait for, or not
 * received ours. Writes at most room ranks and returns their number; 0 for moves by MPI. */
int hvd_mpi_steps_awaits(const struct hvd_mpi_move *mv, int *ranks, int room);

/* steps.c: the number of messages that the steps have sent or received; 0 for moves by MPI. */
uint64_t hvd_mpi_steps_moved(const struct hvd_mpi_move *mv);

/* Frees a list of moves. */
void hvd_mpi_move_destroy(struct hvd_mpi_move *mv);

#endif
