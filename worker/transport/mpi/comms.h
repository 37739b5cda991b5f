#ifndef HVD_WORKER_TRANSPORT_MPI_COMMS_H
#define HVD_WORKER_TRANSPORT_MPI_COMMS_H

#include "worker/transport/bootstrap.h"
#include "worker/transport/mpi/mpi.h"

/*
 * The program's communicators in terms of a job. `job` is a transport of hvd_mpi_create, a
 * communicator a pointer to an MPI_Comm. The program keeps its communicators.
 */

/*
 * Writes the ranks in the job of a communicator's members, in its order, to ranks, which has room
 * for all of the job; *n is their number. HVD_ERR_INVALID for MPI_COMM_NULL, or a communicator with
 * members outside the job; HVD_ERR_SYSTEM. Not collective.
 */
hvd_status_t hvd_mpi_comms_ranks(const struct hvd_transport *job, const void *comm, int *ranks,
                                 int *n, struct hvd_err *err);

/*
 * Reads the process sets of the communicators comms[1], ..., comms[n_comms - 1], an array of
 * MPI_Comm. At one index, ranks may pass different communicators, as MPI_Comm_split makes them.
 * Each is a set, in the order of their lowest ranks. MPI_COMM_NULL: this rank is in no set at that
 * index.
 *
 * Collective over the job; the same result on every rank. HVD_ERR_INVALID, on every rank, for
 * different n_comms, or a communicator that has members outside the job, or has its members in
 * another order. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. The caller calls hvd_bootstrap_sets_fini on *out.
 */
hvd_status_t hvd_mpi_comms_sets_read(const struct hvd_transport *job, const void *comms,
                                     int n_comms, struct hvd_bootstrap_sets *out,
                                     struct hvd_err *err);

#endif
