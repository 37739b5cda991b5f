#ifndef HVD_WORKER_TRANSPORT_MPI_MOVE_H
#define HVD_WORKER_TRANSPORT_MPI_MOVE_H

#include "worker/transport/algorithm.h"
#include "worker/transport/mpi/types.h"
#include "worker/transport/transport.h"

#define HVD_MPI_CHUNKS 4

/* A chunk of an allreduce on its way through the steps of an algorithm of ours. */
struct hvd_mpi_chunk {
    bool is_active;
    struct hvd_schedule schedule;
    struct hvd_exchange exchange; /* of the step */
    int step;
    int n_steps;
    int tag;
    char *data;
    char *room; /* for what is received to be combined; owned */
    size_t room_bytes;
    MPI_Request requests[2];
};

/* The MPI calls of one collective. Kept for the next one. */
struct hvd_mpi_move {
    struct hvd_mpi_move *next;    /* among the spare or the abandoned */
    enum hvd_algorithm algorithm; /* MPI: requests below; else chunks */
    struct hvd_mpi_chunk chunks[HVD_MPI_CHUNKS];
    int64_t next_element; /* that no chunk has begun with */
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

/* What moves are made of. */
struct hvd_mpi_mover {
    struct hvd_mpi_ops ops;
    struct hvd_mpi_move *spare; /* owned */
    int64_t chunk_elements;     /* in one MPI call */
    enum hvd_algorithm algorithm;
    struct hvd_algorithm_table table;
    bool is_deterministic;
    int64_t step_bytes; /* 0: the default */
};

/* Who moves it. */
struct hvd_mpi_channel {
    MPI_Comm comm;
    int rank;
    int size;
    uint32_t next_tag; /* of messages of chunks; the same on all ranks */
};

/* How many tags a collective takes of its channel. */
uint32_t hvd_mpi_move_tags(const struct hvd_mpi_move *mv, const struct hvd_collective *c);

/* Whether everything that was started is complete; moves it on. An MPI error code. */
int hvd_mpi_move_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                      struct hvd_mpi_move *mv, int *done);

/* How many of its calls are complete, or how many messages of its steps have moved. */
uint64_t hvd_mpi_move_moved(struct hvd_mpi_move *mv);

/*
 * Starts a collective. Returns the move, or NULL when out of memory (*rc is MPI_SUCCESS then) or
 * when MPI failed; the calls that were started belong to *broken then, which may be NULL.
 */
struct hvd_mpi_move *hvd_mpi_move_start(struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                                        const struct hvd_collective *c, int *rc,
                                        struct hvd_mpi_move **broken);

/* All calls are complete: scales and unpacks the result, and keeps the move for the next one. */
void hvd_mpi_move_finish(struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                         const struct hvd_collective *c, struct hvd_mpi_move *mv);

/* steps.c: begins an allreduce by mv->algorithm. Fused tensors were packed, and will be
 * unpacked when it is done; the rest, scaling of the sum included, is done here. An MPI error code.
 */
int hvd_mpi_steps_start(const struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                        const struct hvd_collective *c, struct hvd_mpi_move *mv);

/* steps.c: as hvd_mpi_move_test. */
int hvd_mpi_steps_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                       struct hvd_mpi_move *mv, int *done);

/* steps.c: the ranks of the channel whose messages the steps wait for, or who do not take ours;
 * at most room, how many. 0 for what MPI moves. */
int hvd_mpi_steps_awaits(const struct hvd_mpi_move *mv, int *ranks, int room);

/* steps.c: the messages that were sent or received so far, of what is moved in steps. */
uint64_t hvd_mpi_steps_moved(const struct hvd_mpi_move *mv);

/* Frees a list of moves. */
void hvd_mpi_move_destroy(struct hvd_mpi_move *mv);

#endif
