/*
 * The schedules of the three algorithms over a simulated cluster: compiled by smpicc and run by
 * smpirun, from script/bench simgrid. Messages and their order are those of
 * worker/transport/mpi/steps.c, one run at a time; adding up is given to the simulator as work.
 *
 * network_smpi LAST BYTES ... prints a JSON line per size and algorithm: simulated microseconds of
 * the slowest rank, for the algorithms up to the one named LAST. Payloads are one shared buffer:
 * nobody looks at the elements.
 */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/transport/algorithm.h"

#define TAG 7

static void take(const struct hvd_schedule *s, char *data, char *room)
{
    const int n_steps = hvd_algorithm_steps(s);

    for (int i = 0; i < n_steps; i++) {
        const struct hvd_exchange x = hvd_algorithm_step(s, i);
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        if (x.from >= 0 && x.receive_count > 0)
            MPI_Irecv(x.combines ? room : data + x.receive_at, (int)x.receive_count, MPI_CHAR,
                      x.from, TAG, MPI_COMM_WORLD, &requests[0]);
        if (x.to >= 0 && x.send_count > 0)
            MPI_Isend(data + x.send_at, (int)x.send_count, MPI_CHAR, x.to, TAG, MPI_COMM_WORLD,
                      &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (x.from >= 0 && x.combines)
            smpi_execute_flops((double)x.receive_count);
    }
}

static void measure(enum hvd_algorithm algorithm, int bytes, char *data, char *room)
{
    struct hvd_schedule s = {.algorithm = algorithm, .count = bytes};
    double slowest = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &s.n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    take(&s, data, room);
    const double spent = MPI_Wtime() - begin;
    MPI_Reduce(&spent, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (s.rank == 0)
        printf("{\"ranks\": %d, \"bytes\": %d, \"algorithm\": \"%s\", \"us\": %.3f}\n", s.n_ranks,
               bytes, hvd_algorithm_name((int)algorithm), slowest * 1e6);
}

int main(int argc, char **argv)
{
    const int last = argc > 1 ? hvd_algorithm_parse(argv[1]) : -1;
    int largest = 1;

    MPI_Init(&argc, &argv);
    for (int i = 2; i < argc; i++)
        largest = atoi(argv[i]) > largest ? atoi(argv[i]) : largest;
    char *data = SMPI_SHARED_MALLOC((size_t)largest);
    char *room = SMPI_SHARED_MALLOC((size_t)largest);
    for (int i = 2; i < argc; i++)
        for (int a = HVD_ALGORITHM_DOUBLING; a <= last; a++)
            measure((enum hvd_algorithm)a, atoi(argv[i]), data, room);
    SMPI_SHARED_FREE(data);
    SMPI_SHARED_FREE(room);
    MPI_Finalize();
    return 0;
}
