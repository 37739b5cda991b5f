/*
 * Times the allreduce of the transport under the engine against MPI_Allreduce, in one launch.
 *
 * Run under mpirun: bench_datapath SEED. For each size the two arms alternate in blocks, in an
 * order drawn at random (the same on all ranks). Before each measurement all meet in a barrier; the
 * slowest rank's time counts. Small payloads are reduced several times in a row, since one takes as
 * long as reading the clock; each time every line of the input is rewritten. Two elements of each
 * result are checked. Rank 0 prints one JSON line per pair of blocks: {"bytes": B, "ours_us":
 * median, "mpi_us": median, "ping_ns": [before, after]}, the last for the placement of the cores.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/placement.h"
#include "tests/bench/timing.h"
#include "worker/transport/hybrid/hybrid.h"
#include "worker/transport/mpi/mpi.h"

#define BLOCKS 6
#define MAX_MEASUREMENTS 50
#define BATCH 16
#define BATCH_BYTES 8192
#define LINE 16 /* floats in a line of the cache */

struct arena {
    struct hvd_transport *transport;
    float *input;
    float *output;
    size_t n;
};

static void reduce_once(const struct arena *a, bool is_ours)
{
    struct hvd_transport *t = a->transport;
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                               .input = a->input,
                               .output = a->output,
                               .count = (int64_t)a->n};
    hvd_status_t st;

    if (!is_ours) {
        MPI_Allreduce(a->input, a->output, (int)a->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    st = t->ops->start(t, &c, NULL);
    while (st == HVD_OK && (st = t->ops->test(t, &c, NULL)) == HVD_INPROGRESS)
        st = HVD_OK;
    if (st != HVD_OK)
        bench_fail("an allreduce failed");
}

/* Writes every line of the input: the first and the last element of every rank are `fill`. */
static void rewrite(const struct arena *a, float fill)
{
    for (size_t i = 0; i < a->n; i += LINE)
        a->input[i] = fill;
    a->input[a->n - 1] = fill;
}

/* Microseconds of one allreduce on the slowest rank. */
static double measure(const struct arena *a, int number, bool is_ours)
{
    const int batch = a->n * sizeof(float) <= BATCH_BYTES ? BATCH : 1;
    const int size = a->transport->topology.size;
    double slowest = 0;
    double spent = 0;

    rewrite(a, (float)(number % 7));
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = bench_now_us();
    for (int i = 0; i < batch; i++) {
        const float fill = (float)((number + i) % 7);
        if (batch > 1)
            rewrite(a, fill);
        reduce_once(a, is_ours);
        if (a->output[0] != fill * (float)size || a->output[a->n - 1] != fill * (float)size)
            bench_fail("a wrong sum");
    }
    spent = (bench_now_us() - begin) / batch;
    MPI_Allreduce(&spent, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* The median of one block of one arm, in microseconds. */
static double time_block(const struct arena *a, int n, bool is_ours)
{
    double times[MAX_MEASUREMENTS];

    for (int i = 0; i < n; i++)
        times[i] = measure(a, i, is_ours);
    qsort(times, (size_t)n, sizeof(times[0]), bench_by_value);
    return times[n / 2];
}

static void bench_size(struct arena *a, size_t bytes, unsigned *seed)
{
    const int n = bytes > 1u << 20 ? 5 : MAX_MEASUREMENTS;

    a->n = bytes / sizeof(float);
    time_block(a, n, true);
    time_block(a, n, false);
    for (int block = 0; block < BLOCKS; block++) {
        double us[2];
        const double before = placement_probe();
        bool ours_first = rand_r(seed) & 1;
        us[ours_first ? 0 : 1] = time_block(a, n, ours_first);
        us[ours_first ? 1 : 0] = time_block(a, n, !ours_first);
        const double after = placement_probe();
        if (a->transport->topology.rank == 0)
            printf("{\"bytes\": %zu, \"ours_us\": %.3f, \"mpi_us\": %.3f, \"ping_ns\": [%.1f, "
                   "%.1f]}\n",
                   bytes, us[0], us[1], before, after);
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4, 256, 4096, 65536, 64u << 20};
    const size_t largest = 64u << 20;
    const struct hvd_mpi_options mpi = {.allow_single_thread = true};
    const struct hvd_hybrid_options hybrid = {.wants_shm = true};
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    struct arena a = {0};

    MPI_Init(&argc, &argv);
    if (hvd_mpi_create(&mpi, &a.transport, NULL) != HVD_OK ||
        hvd_hybrid_create(a.transport, &hybrid, &a.transport, NULL) != HVD_OK)
        bench_fail("no transport");
    placement_start();
    a.input = calloc(largest, 1);
    a.output = malloc(largest);
    if (!a.input || !a.output)
        bench_fail("out of memory");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bench_size(&a, sizes[i], &seed);
    placement_stop();
    a.transport->ops->destroy(a.transport, true);
    free(a.input);
    free(a.output);
    MPI_Finalize();
    return 0;
}
