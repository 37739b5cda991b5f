#ifndef HVD_WORKER_TRANSPORT_MPI_RANKS_H
#define HVD_WORKER_TRANSPORT_MPI_RANKS_H

#include "base/status.h"

/*
 * Some ranks of a communicator as one of their own, an MPI_Comm *out that is the caller's
 * afterwards: all of them call this, and nobody else. `ranks`, which exist and of which none is
 * given twice, is read before it waits. Errors on the communicator are returned. HVD_ERR_INVALID on
 * all of them when they pass the ranks in different orders, with both; or here when this process is
 * not one of them. HVD_ERR_NOMEM, HVD_ERR_SYSTEM.
 */
hvd_status_t hvd_mpi_ranks_choose(const void *from, const int *ranks, int n_ranks, void *out,
                                  struct hvd_err *err);

#endif
