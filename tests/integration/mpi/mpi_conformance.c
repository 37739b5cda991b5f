/*
 * The transport's promises, kept by the MPI adapter: mpi_conformance CHUNK. CHUNK elements go in
 * one MPI call at most (0: the default), so that splitting is tried with small tensors.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/worker/transport/conformance.h"
#include "tests/unit/worker/transport/every_kind.h"
#include "worker/transport/mpi/mpi.h"

int main(int argc, char **argv)
{
    const struct hvd_mpi_options options = {.chunk_elements = argc > 1 ? atol(argv[1]) : 0};
    struct hvd_transport *t = NULL;
    struct hvd_err err = {0};

    if (hvd_mpi_create(&options, &t, &err) != HVD_OK) {
        fprintf(stderr, "hvd_mpi_create: %s\n", err.msg);
        return 1;
    }
    const int rank = t->topology.rank;
    const char *problem = hvd_transport_conformance(t);
    if (!problem)
        problem = hvd_transport_every_set(t, 1);
    if (rank == 0 && !t->ops->host(t, t->topology.size - 1))
        problem = "rank 0 does not know the hosts";
    t->ops->destroy(t, true);
    if (problem)
        fprintf(stderr, "rank %d: %s\n", rank, problem);
    return problem ? 1 : 0;
}
