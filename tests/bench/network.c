/*
 * What messages cost between two ranks, and what each algorithm of an allreduce takes between all
 * of them, in one launch: bench_network SEED, under mpirun. script/bench network fits costs to it.
 * bench_network --table prints the table alone.
 *
 * In each of several blocks every size is measured in every way, in an order drawn at random (the
 * same on all ranks), the slowest rank's median counts. Messages go as the library's do:
 * nonblocking, and tested until they are there. Rank 0 prints one JSON line per size, way and
 * block, {"way": "exchange", "bytes": B, "us": median}, and first the table that the library
 * chooses by: {"table": [[most ranks, doubling up to, ring from], ...]}. The ways:
 *
 *   pingpong   half of a round trip between ranks 0 and 1
 *   exchange   ranks 0 and 1 send to each other at the same time, as in a step of an algorithm
 *   exchange4  a quarter of four such exchanges at once, as when four runs are on their way
 *   add        adding up so many bytes, without a message
 *   doubling, rabenseifner, ring   an allreduce over all ranks, by the transport under the engine
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/timing.h"
#include "worker/reduce/reduce.h"
#include "worker/transport/mpi/mpi.h"

#define BLOCKS 5
#define MAX_TIMES 41
#define LARGEST ((size_t)8 << 20)
#define TAG 7

#define AT_ONCE 4

enum way { PINGPONG, EXCHANGE, EXCHANGE4, ADD, DOUBLING, RABENSEIFNER, RING, WAYS };

static const char *const names[WAYS] = {"pingpong", "exchange",     "exchange4", "add",
                                        "doubling", "rabenseifner", "ring"};

struct arena {
    struct hvd_transport *transports[WAYS]; /* those of the algorithms */
    float *input;
    float *output;
    size_t bytes;
    int rank;
    int size;
    bool yields; /* there are more ranks than processors */
};

static MPI_Request requests[2 * AT_ONCE];

static int count_of(const struct arena *a)
{
    return (int)(a->bytes / sizeof(float));
}

static void wait_all(const struct arena *a, int n)
{
    int done = 0;

    while (!done) {
        MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (!done && a->yields)
            sched_yield();
    }
}

/* What the two of a pair send each other, so many at once. */
static void exchange(const struct arena *a, bool sends, bool receives, int n)
{
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)i * (size_t)count_of(a);
        requests[2 * i] = MPI_REQUEST_NULL;
        requests[2 * i + 1] = MPI_REQUEST_NULL;
        if (receives)
            MPI_Irecv(a->output + at, count_of(a), MPI_FLOAT, 1 - a->rank, TAG + i, MPI_COMM_WORLD,
                      &requests[2 * i]);
        if (sends)
            MPI_Isend(a->input + at, count_of(a), MPI_FLOAT, 1 - a->rank, TAG + i, MPI_COMM_WORLD,
                      &requests[2 * i + 1]);
    }
    wait_all(a, 2 * n);
}

static void reduce(const struct arena *a, struct hvd_transport *t)
{
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                               .input = a->output,
                               .output = a->output,
                               .count = count_of(a)};
    hvd_status_t st = t->ops->start(t, &c, NULL);

    while (st == HVD_OK && (st = t->ops->test(t, &c, NULL)) == HVD_INPROGRESS) {
        st = HVD_OK;
        if (a->yields)
            sched_yield();
    }
    if (st != HVD_OK)
        bench_fail("an allreduce failed");
}

static void do_once(const struct arena *a, enum way way)
{
    if (way == PINGPONG) {
        exchange(a, a->rank == 0, a->rank == 1, 1);
        exchange(a, a->rank == 1, a->rank == 0, 1);
    } else if (way == EXCHANGE || way == EXCHANGE4) {
        exchange(a, true, true, way == EXCHANGE ? 1 : AT_ONCE);
    } else if (way == ADD) {
        hvd_reduce_combine(HVD_FLOAT32, HVD_SUM, a->output, a->input, count_of(a));
    } else {
        reduce(a, a->transports[way]);
    }
}

/* Microseconds of once, on this rank; 0 when it has no part in it. */
static double time_once(const struct arena *a, enum way way)
{
    const int last = count_of(a) - 1;

    for (int i = 0; i < last; i += 1024)
        a->output[i] = 1;
    a->output[last] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (way <= EXCHANGE4 && a->rank > 1)
        return 0;
    const double begin = bench_now_us();
    do_once(a, way);
    const double us = bench_now_us() - begin;
    if (way >= DOUBLING && ((int)a->output[0] != a->size || (int)a->output[last] != a->size))
        bench_fail("a wrong sum");
    return way == PINGPONG ? us / 2 : way == EXCHANGE4 ? us / AT_ONCE : us;
}

static void time_block(const struct arena *a, enum way way)
{
    const int n = a->bytes > (size_t)1 << 20 ? 9 : a->yields ? 15 : MAX_TIMES;
    double times[MAX_TIMES];

    for (int i = 0; i < n; i++) {
        const double us = time_once(a, way);
        MPI_Allreduce(&us, &times[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    qsort(times, (size_t)n, sizeof(times[0]), bench_by_value);
    if (a->rank == 0)
        printf("{\"way\": \"%s\", \"bytes\": %zu, \"us\": %.3f}\n", names[way], a->bytes,
               times[n / 2]);
}

/* All ways in an order of their own. */
static void bench_size(struct arena *a, size_t bytes, unsigned *seed)
{
    enum way order[WAYS];

    a->bytes = bytes;
    for (int i = 0; i < WAYS; i++)
        order[i] = (enum way)i;
    for (int i = WAYS - 1; i > 0; i--) {
        const int other = (int)((unsigned)rand_r(seed) % (unsigned)(i + 1));
        const enum way way = order[i];
        order[i] = order[other];
        order[other] = way;
    }
    for (int i = 0; i < WAYS; i++)
        time_block(a, order[i]);
}

static void print_table(void)
{
    const struct hvd_algorithm_table *table = hvd_algorithm_builtin();

    printf("{\"table\": [");
    for (int i = 0; i < table->n; i++)
        printf("%s[%d, %lld, %lld]", i ? ", " : "", table->rows[i].max_ranks,
               (long long)table->rows[i].doubling_max, (long long)table->rows[i].ring_min);
    printf("]}\n");
}

static void begin(struct arena *a)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &a->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &a->size);
    a->yields = a->size > sysconf(_SC_NPROCESSORS_ONLN);
    if (a->size < 2)
        bench_fail("two ranks at least");
    for (int way = DOUBLING; way < WAYS; way++) {
        const struct hvd_mpi_options options = {
            .allow_single_thread = true,
            .algorithm = (enum hvd_algorithm)(HVD_ALGORITHM_DOUBLING + way - DOUBLING)};
        if (hvd_mpi_create(&options, &a->transports[way], NULL) != HVD_OK)
            bench_fail("no transport");
    }
    a->input = calloc(LARGEST, AT_ONCE);
    a->output = calloc(LARGEST, AT_ONCE);
    if (!a->input || !a->output)
        bench_fail("out of memory");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4,     256,    1024,   4096,   16384,   32768,   61440,
                                   65536, 131072, 262144, 524288, 1048576, 2097152, 8388608};
    unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    struct arena a = {0};

    MPI_Init(&argc, &argv);
    begin(&a);
    if (a.rank == 0)
        print_table();
    const int n_blocks = argc > 1 && strcmp(argv[1], "--table") == 0 ? 0 : BLOCKS;
    for (int block = 0; block < n_blocks; block++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            bench_size(&a, sizes[i], &seed);
    for (int way = DOUBLING; way < WAYS; way++)
        a.transports[way]->ops->destroy(a.transports[way], true);
    free(a.input);
    free(a.output);
    MPI_Finalize();
    return 0;
}
