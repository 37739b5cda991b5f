/*
 * Times horovod_allreduce against MPI_Allreduce in one launch, so that both see the same cores.
 *
 * Run under mpirun. For each size the two arms alternate in blocks, in an order drawn at random
 * (the same on all ranks). In each iteration every rank rewrites its input, all meet in a barrier,
 * and the slowest rank's time counts; two elements of each result are checked. Rank 0 prints one
 * JSON line per pair of blocks: {"bytes": B, "ours_us": median, "mpi_us": median, "ping_ns":
 * [before, after]}, the last for the placement of the cores.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <horovod/horovod.h>

#include "tests/bench/placement.h"
#include "tests/bench/timing.h"

#define BLOCKS 6
#define MAX_ITERATIONS 50

struct arena {
    float *input;
    float *output;
    size_t n;
    int rank;
    int size;
};

static void reduce_once(const struct arena *a, bool is_ours)
{
    horovod_error_t err = {0};

    if (!is_ours) {
        MPI_Allreduce(a->input, a->output, (int)a->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    if (horovod_allreduce(a->input, a->output,
                          HOROVOD_TENSOR(.name = "bench", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                         .shape = (const int64_t[]){(int64_t)a->n},
                                         .op = HOROVOD_SUM),
                          &err) != HOROVOD_OK)
        bench_fail(err.message);
}

static double time_iteration(const struct arena *a, int iteration, bool is_ours)
{
    const float fill = (float)(a->rank + iteration % 7 + 1);
    const float expected =
        (float)(a->size * (a->size - 1)) / 2 + (float)(a->size * (iteration % 7 + 1));
    double slowest = 0;

    for (size_t i = 0; i < a->n; i++)
        a->input[i] = fill;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = bench_now_us();
    reduce_once(a, is_ours);
    double spent = bench_now_us() - begin;
    if (a->output[0] != expected || a->output[a->n - 1] != expected)
        bench_fail("a wrong sum");
    MPI_Allreduce(&spent, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* The median of one block of one arm, in microseconds. */
static double time_block(const struct arena *a, int iterations, bool is_ours)
{
    double times[MAX_ITERATIONS];

    for (int i = 0; i < iterations; i++)
        times[i] = time_iteration(a, i, is_ours);
    qsort(times, (size_t)iterations, sizeof(times[0]), bench_by_value);
    return times[iterations / 2];
}

static void bench_size(struct arena *a, size_t bytes, unsigned *seed)
{
    const int iterations = bytes > 1u << 20 ? 5 : MAX_ITERATIONS;

    a->n = bytes / sizeof(float);
    time_block(a, iterations, true);
    time_block(a, iterations, false);
    for (int block = 0; block < BLOCKS; block++) {
        double us[2];
        double before = placement_probe();
        bool ours_first = rand_r(seed) & 1;
        us[ours_first ? 0 : 1] = time_block(a, iterations, ours_first);
        us[ours_first ? 1 : 0] = time_block(a, iterations, !ours_first);
        double after = placement_probe();
        if (a->rank == 0)
            printf("{\"bytes\": %zu, \"ours_us\": %.3f, \"mpi_us\": %.3f, \"ping_ns\": [%.1f, "
                   "%.1f]}\n",
                   bytes, us[0], us[1], before, after);
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4, 256, 4096, 65536, 64u << 20};
    const size_t largest = 64u << 20;
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    struct arena a = {0};
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    placement_start();
    a = (struct arena){.input = malloc(largest),
                       .output = malloc(largest),
                       .rank = horovod_rank(),
                       .size = horovod_size()};
    if (!a.input || !a.output)
        bench_fail("out of memory");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bench_size(&a, sizes[i], &seed);
    placement_stop();
    horovod_shutdown();
    free(a.input);
    free(a.output);
    MPI_Finalize();
    return 0;
}
