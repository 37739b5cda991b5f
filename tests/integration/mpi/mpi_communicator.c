/*
 * The MPI transport over a communicator that the program hands in, and over some ranks of one:
 * mpi_communicator. MPI belongs to the program, which goes on using it afterwards. Odd ranks of the
 * world are a job of their own, in reverse; then the first two ranks of the world are.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/transport/conformance.h"
#include "worker/transport/mpi/mpi.h"

static int world_rank;
static int world_size;

/* A job of these options; NULL when it is as it should be. */
static const char *run_job(const struct hvd_mpi_options *options, int want_rank, int want_size)
{
    struct hvd_transport *t = NULL;
    const char *problem = NULL;
    struct hvd_err err = {0};

    if (hvd_mpi_create(options, &t, &err) != HVD_OK) {
        fprintf(stderr, "rank %d: %s\n", world_rank, err.msg);
        return "the job does not start";
    }
    if (t->topology.rank != want_rank || t->topology.size != want_size)
        problem = "the job has another rank or size";
    if (!problem)
        problem = hvd_transport_conformance(t);
    t->ops->destroy(t, true);
    return problem;
}

static const char *split_in_two(void)
{
    MPI_Comm half = MPI_COMM_NULL;
    const int color = world_rank % 2;
    const int size = color ? world_size / 2 : (world_size + 1) / 2;

    MPI_Comm_split(MPI_COMM_WORLD, color, -world_rank, &half);
    const struct hvd_mpi_options options = {.comm = &half};
    const char *problem = run_job(&options, size - 1 - world_rank / 2, size);
    MPI_Comm_free(&half);
    return problem;
}

static const char *choose_two(void)
{
    const int ranks[] = {1, 0};
    const struct hvd_mpi_options options = {.ranks = ranks, .n_ranks = 2};
    struct hvd_transport *t = NULL;
    struct hvd_err err = {0};

    if (world_size < 2)
        return NULL;
    if (world_rank < 2)
        return run_job(&options, 1 - world_rank, 2);
    if (hvd_mpi_create(&options, &t, &err) != HVD_ERR_INVALID ||
        !strstr(err.msg, "none of the 2 ranks"))
        return "a process that is not in the job is not told";
    return NULL;
}

static const char *choose_wrongly(void)
{
    const int missing[] = {0, world_size};
    const int twice[] = {0, 0};
    struct hvd_mpi_options options = {.ranks = missing, .n_ranks = 2};
    struct hvd_transport *t = NULL;
    struct hvd_err err = {0};

    if (hvd_mpi_create(&options, &t, &err) != HVD_ERR_INVALID || !strstr(err.msg, "does not exist"))
        return "a rank that does not exist is not named";
    options.ranks = twice;
    hvd_err_clear(&err);
    if (hvd_mpi_create(&options, &t, &err) != HVD_ERR_INVALID || !strstr(err.msg, "twice"))
        return "a rank that is given twice is not named";
    return NULL;
}

int main(int argc, char **argv)
{
    int level = 0;
    int sum = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    const char *problem = split_in_two();
    if (!problem)
        problem = choose_two();
    if (!problem)
        problem = choose_wrongly();
    if (problem)
        fprintf(stderr, "rank %d: %s\n", world_rank, problem);
    MPI_Allreduce(&world_size, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* theirs still works */
    MPI_Finalize();
    return problem || sum != world_size * world_size ? 1 : 0;
}
