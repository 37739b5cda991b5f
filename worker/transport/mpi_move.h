#ifndef HVD_WORKER_TRANSPORT_MPI_MOVE_H
#define HVD_WORKER_TRANSPORT_MPI_MOVE_H

#include "worker/transport/mpi_types.h"
#include "worker/transport/transport.h"

/* The MPI calls of one collective. Kept for the next one. */
struct hvd_mpi_move {
    struct hvd_mpi_move *next; /* among the spare or the abandoned */
    int room;                  /* of requests */
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
};

/* Who moves it. */
struct hvd_mpi_place {
    MPI_Comm comm;
    int rank;
    int size;
};

/*
 * Starts a collective. Returns the move, or NULL when out of memory (*rc is MPI_SUCCESS then) or
 * when MPI failed; the calls that were started belong to *broken then, which may be NULL.
 */
struct hvd_mpi_move *hvd_mpi_move_start(struct hvd_mpi_mover *mover, struct hvd_mpi_place place,
                                        const struct hvd_collective *c, int *rc,
                                        struct hvd_mpi_move **broken);

/* All calls are complete: scales and unpacks the result, and keeps the move for the next one. */
void hvd_mpi_move_finish(struct hvd_mpi_mover *mover, struct hvd_mpi_place place,
                         const struct hvd_collective *c, struct hvd_mpi_move *mv);

/* Frees a list of moves. */
void hvd_mpi_move_destroy(struct hvd_mpi_move *mv);

#endif
