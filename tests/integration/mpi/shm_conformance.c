/*
 * The transport's promises, kept by what HOROVOD_SHM leads to: shm_conformance NAME SCALE. NAME is
 * the transport that the ranks must have chosen: shm+mpi, or mpi. SCALE: how large payloads are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/transport/conformance.h"
#include "tests/unit/worker/transport/every_kind.h"
#include "worker/transport/hybrid/hybrid.h"
#include "worker/transport/mpi/mpi.h"

int main(int argc, char **argv)
{
    const struct hvd_mpi_options mpi = {0};
    const char *wish = getenv("HOROVOD_SHM");
    const struct hvd_hybrid_options hybrid = {.wants_shm = !wish || strcmp(wish, "0") != 0};
    struct hvd_transport *t = NULL;
    struct hvd_err err = {0};
    const char *problem = NULL;

    if (argc != 3 || hvd_mpi_create(&mpi, &t, &err) != HVD_OK ||
        hvd_hybrid_create(t, &hybrid, &t, &err) != HVD_OK) {
        fprintf(stderr, "shm_conformance NAME SCALE: %s\n", err.msg);
        return 1;
    }
    const int rank = t->topology.rank;
    if (strcmp(t->ops->name, argv[1]) != 0)
        problem = "the ranks chose another transport";
    else if (rank == 0 && !t->ops->host(t, t->topology.size - 1))
        problem = "rank 0 does not know the hosts";
    else
        problem = hvd_transport_conformance(t);
    if (!problem)
        problem = hvd_transport_every_set(t, atoi(argv[2]));
    t->ops->destroy(t, true);
    if (problem)
        fprintf(stderr, "rank %d: %s\n", rank, problem);
    return problem ? 1 : 0;
}
