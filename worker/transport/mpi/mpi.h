#ifndef HVD_WORKER_TRANSPORT_MPI_MPI_H
#define HVD_WORKER_TRANSPORT_MPI_MPI_H

#include "worker/transport/algorithm.h"
#include "worker/transport/mpi/arrival.h"
#include "worker/transport/transport.h"

struct hvd_mpi_options {
    bool allow_single_thread; /* accept any thread level; then the transport is thread_bound */
    int64_t chunk_elements; /* at most so many elements in one MPI call; at most INT_MAX; 0: 2^27 */
    enum hvd_algorithm algorithm;     /* of allreduces */
    struct hvd_algorithm_table table; /* AUTO chooses by it; without rows: the built-in one */
    bool is_deterministic; /* of AUTO: bits of a sum do not depend on where in a payload it lies */
    int64_t step_bytes;    /* most bytes of an allreduce per own step; 0: 1 MiB or more */
    const void *comm;      /* an MPI_Comm *, an intracommunicator; NULL: MPI_COMM_WORLD. It is
                              duplicated, and stays the caller's */
    const int *ranks;      /* of comm: they alone take part, as ranks 0, 1, ... */
    int n_ranks;           /* 0: all of comm */
    struct hvd_mpi_arrival *arrival; /* names ranks that do not come; borrowed, also afterwards;
                                        NULL: no names */
};

/*
 * Joins the ranks of a communicator, or some of them, on communicators of its own. Initialises MPI
 * unless the program did. Collective over those ranks.
 *
 * HVD_ERR_STATE when MPI was already finalised or its thread level is too low. HVD_ERR_INVALID when
 * this rank is not one of `ranks`, they are no ranks of comm, or others pass them in another order.
 * HVD_ERR_GONE when a rank did not come, or another one's list differs, see arrival.h.
 * HVD_ERR_NOMEM, HVD_ERR_SYSTEM. When Open MPI's own initialisation fails, Open MPI ends the
 * process. destroy finalises MPI when this call, or an earlier failed one, initialised it.
 */
hvd_status_t hvd_mpi_create(const struct hvd_mpi_options *options, struct hvd_transport **out,
                            struct hvd_err *err);

/* The communicator over all ranks of the job, an MPI_Comm *; borrowed. t comes from
 * hvd_mpi_create. */
const void *hvd_mpi_comm(const struct hvd_transport *t);

/* Marks MPI as unusable after a collective call was left behind: MPI is not finalised, and no other
 * job begins. */
void hvd_mpi_lose(void);

/* For a job that does not begin, or that another job may follow: destroy leaves MPI to
 * hvd_mpi_leave or to that job. */
void hvd_mpi_keep(struct hvd_transport *t);

/* Finalises MPI if hvd_mpi_create initialised it and it is not finalised since. For a process that
 * was left out of the job. May wait for all other processes, as MPI_Finalize does. */
void hvd_mpi_leave(void);

#endif
