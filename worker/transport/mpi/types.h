#ifndef HVD_WORKER_TRANSPORT_MPI_TYPES_H
#define HVD_WORKER_TRANSPORT_MPI_TYPES_H

#include <mpi.h>

#include "worker/core/types.h"

/*
 * Element types and reductions as MPI knows them. All are computed by our kernels: MPI has no half
 * precision, and leaves open what NaN does and what an integer does that overflows.
 */
struct hvd_mpi_ops {
    MPI_Op ops[HVD_DTYPES][HVD_PRODUCT + 1]; /* MPI_OP_NULL: an average, or Adasum */
};

/* Registers the operations. Returns an MPI error code; what was registered is freed then. */
int hvd_mpi_ops_init(struct hvd_mpi_ops *ops);

/* Frees them; before MPI_Finalize. */
void hvd_mpi_ops_fini(struct hvd_mpi_ops *ops);

/* The MPI type that moves elements of a type. */
MPI_Datatype hvd_mpi_type(enum hvd_dtype dtype);

/* The operation that reduces them. */
MPI_Op hvd_mpi_op(const struct hvd_mpi_ops *ops, enum hvd_dtype dtype, enum hvd_reduce reduce);

#endif
