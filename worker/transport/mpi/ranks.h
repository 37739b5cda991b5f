#ifndef HVD_WORKER_TRANSPORT_MPI_RANKS_H
#define HVD_WORKER_TRANSPORT_MPI_RANKS_H

#include "base/status.h"

/*
 * Makes a communicator of some ranks of another one. Exactly these ranks call it; the caller owns
 * the MPI_Comm *out. All `ranks` exist and are distinct; they are read before the wait. The
 * communicator returns its errors. HVD_ERR_INVALID on all ranks when they pass different orders,
 * which err shows. HVD_ERR_INVALID here alone when this process is not in the list. HVD_ERR_NOMEM,
 * HVD_ERR_SYSTEM.
 */
hvd_status_t hvd_mpi_ranks_choose(const void *from, const int *ranks, int n_ranks, void *out,
                                  struct hvd_err *err);

#endif
