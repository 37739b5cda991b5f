/*
 * Allreduces between ranks by each algorithm: mpi_algorithms. The sum of every algorithm, in steps
 * of several sizes, against the ranks' sum; the same bits on all ranks; and the same bits from
 * those that promise it, wherever in a payload an element lies.
 */
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/transport/every_kind.h"
#include "worker/transport/mpi/mpi.h"

#define COUNT 100003
#define SHIFT 777
#define SHORT 1000 /* steps, of which there are many */

static float data[COUNT + SHIFT];
static float first[COUNT + SHIFT]; /* of rank 0, or of the algorithm before */

static float value(int rank, int64_t i)
{
    return ldexpf((float)((rank * 7919 + i * 104729) % 1000003) / 1000003.0f, rank * 5 % 17);
}

static const char *reduce(struct hvd_transport *t, int64_t from, int64_t count)
{
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                               .input = data,
                               .output = data,
                               .count = count};
    hvd_status_t st;

    for (int64_t i = 0; i < count; i++)
        data[i] = value(t->topology.rank, from + i);
    if (t->ops->start(t, &c, NULL) != HVD_OK)
        return "an allreduce does not start";
    while ((st = t->ops->test(t, &c, NULL)) == HVD_INPROGRESS)
        sched_yield();
    return st == HVD_OK ? NULL : "an allreduce failed";
}

static bool are_same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

static const char *check_sums(const struct hvd_transport *t, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int rank = 0; rank < t->topology.size; rank++)
            sum += (double)value(rank, i);
        if (!(fabs((double)data[i] - sum) <= 1e-5 * sum + 1e-6))
            return "a sum is wrong";
    }
    memcpy(first, data, sizeof(data));
    MPI_Bcast(first, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    return are_same_bits(first, data, (size_t)count * sizeof(float)) ? NULL
                                                                     : "ranks differ in bits";
}

/* A piece of the payload alone has the bits that it has as a part of the whole. */
static const char *check_places(struct hvd_transport *t)
{
    static float whole[COUNT + SHIFT];
    const char *problem = reduce(t, 0, COUNT);

    memcpy(whole, data, sizeof(whole));
    if (!problem)
        problem = reduce(t, SHIFT, COUNT - SHIFT);
    if (!problem && !are_same_bits(whole + SHIFT, data, (COUNT - SHIFT) * sizeof(float)))
        problem = "bits depend on the place";
    if (!problem)
        problem = reduce(t, SHIFT, 10);
    if (!problem && !are_same_bits(whole + SHIFT, data, 10 * sizeof(float)))
        problem = "bits depend on the size";
    return problem;
}

static const char *try(const struct hvd_mpi_options *options)
{
    static const int64_t counts[] = {1, 2, 3, 5, 1000, 65537, COUNT};
    struct hvd_transport *t = NULL;
    struct hvd_err err = {0};
    const char *problem = NULL;

    if (hvd_mpi_create(options, &t, &err) != HVD_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return "no transport";
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && !problem; i++) {
        problem = reduce(t, 0, counts[i]);
        if (!problem)
            problem = check_sums(t, counts[i]);
    }
    if (!problem && (options->algorithm == HVD_ALGORITHM_DOUBLING ||
                     options->algorithm == HVD_ALGORITHM_RABENSEIFNER || options->is_deterministic))
        problem = check_places(t);
    if (!problem && options->step_bytes == SHORT)
        problem = hvd_transport_every_set(t, 1);
    t->ops->destroy(t, true);
    return problem;
}

int main(int argc, char **argv)
{
    static const int64_t step_bytes[] = {0, SHORT, 65536};
    int level = 0;
    int rank = 0;
    int n_problems = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int a = 0; a < 3 * HVD_ALGORITHMS; a++) {
        struct hvd_mpi_options options = {.algorithm = (enum hvd_algorithm)(a % HVD_ALGORITHMS),
                                          .step_bytes = step_bytes[a / HVD_ALGORITHMS]};
        options.is_deterministic = options.algorithm == HVD_ALGORITHM_AUTO;
        const char *problem = try(&options);
        if (!problem)
            continue;
        fprintf(stderr, "rank %d: %s in steps of %lld: %s\n", rank, hvd_algorithm_name(a % 5),
                (long long)options.step_bytes, problem);
        n_problems++;
    }
    MPI_Finalize();
    return n_problems ? 1 : 0;
}
