#ifndef HVD_WORKER_TRANSPORT_MPI_TYPES_H
#define HVD_WORKER_TRANSPORT_MPI_TYPES_H

#include <mpi.h>

#include "worker/core/types.h"

/*
 * Element types and reductions as MPI types and operations. Our kernels compute all of them: MPI
 * has no half precision, and does not define NaN or the overflow of integers.
 */
struct hvd_mpi_ops {
    MPI_Op ops[HVD_DTYPES][HVD_PRODUCT + 1]; /* MPI_OP_NULL: for an average, and for Adasum */
};

/* Registers the operations. Returns an MPI error code; on failure it frees those it had
 * registered. */
int hvd_mpi_ops_init(struct hvd_mpi_ops *ops);

/* Frees the operations; to be called before MPI_Finalize. */
void hvd_mpi_ops_fini(struct hvd_mpi_ops *ops);

/* The MPI type that moves elements of dtype. */
MPI_Datatype hvd_mpi_type(enum hvd_dtype dtype);

/* The operation that reduces elements of dtype. */
MPI_Op hvd_mpi_op(const struct hvd_mpi_ops *ops, enum hvd_dtype dtype, enum hvd_reduce reduce);

#endif
