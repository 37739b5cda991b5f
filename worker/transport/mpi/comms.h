#ifndef HVD_WORKER_TRANSPORT_MPI_COMMS_H
#define HVD_WORKER_TRANSPORT_MPI_COMMS_H

#include "worker/transport/bootstrap.h"
#include "worker/transport/mpi/mpi.h"

/*
 * What communicators of the program mean in a job: `job` is a transport of hvd_mpi_create, a
 * communicator a pointer to an MPI_Comm. They stay the program's.
 */

/*
 * Writes the ranks in the job of a communicator's members, in its order, to ranks, which has room
 * for all of the job; *n is how many. HVD_ERR_INVALID for a communicator that has others too, or
 * that is MPI_COMM_NULL; HVD_ERR_SYSTEM. Not collective.
 */
hvd_status_t hvd_mpi_comms_ranks(const struct hvd_transport *job, const void *comm, int *ranks,
                                 int *n, struct hvd_err *err);

/*
 * The process sets of the communicators comms[1], ..., comms[n_comms - 1], an array of MPI_Comm.
 * At one index of the array ranks may have different communicators, as MPI_Comm_split makes them:
 * each is a set, in the order of their lowest ranks. MPI_COMM_NULL: this rank is in none there.
 * Collective over the job; the same result on every rank. HVD_ERR_INVALID, on every rank, for
 * different n_comms, a communicator that has others than ranks of the job or has them in another
 * order; HVD_ERR_NOMEM, HVD_ERR_SYSTEM. *out is the caller's to fini.
 */
hvd_status_t hvd_mpi_comms_sets_read(const struct hvd_transport *job, const void *comms,
                                     int n_comms, struct hvd_bootstrap_sets *out,
                                     struct hvd_err *err);

#endif
