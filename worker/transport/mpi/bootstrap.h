#ifndef HVD_WORKER_TRANSPORT_MPI_BOOTSTRAP_H
#define HVD_WORKER_TRANSPORT_MPI_BOOTSTRAP_H

#include "worker/transport/bootstrap.h"

/* The bootstrap of ranks that a launcher of MPI has started. Groups are communicators: the first
 * one is the job, the others are process sets. */
extern const struct hvd_bootstrap_provider hvd_mpi_bootstrap;

/* Whether hvd_mpi_bootstrap created it, so that its transport has communicators. */
bool hvd_mpi_bootstrap_is(const struct hvd_bootstrap *b);

#endif
