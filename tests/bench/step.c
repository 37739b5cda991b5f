/*
 * Times training steps of this library and of a peer in one launch, so that both see the same
 * cores.
 *
 * Run under mpirun, all ranks on one host. For each workload and round the arms follow each other
 * in an order drawn at random (the same on all ranks). An arm joins the job, warms up, runs its
 * block and leaves, so that no other runtime's threads are about. In each iteration every rank
 * rewrites its inputs and all meet in a barrier; the slowest rank's time counts; every result is
 * checked at both ends. Rank 0 prints one JSON line per block.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/bench/allocations.h"
#include "tests/bench/models.h"
#include "tests/bench/placement.h"
#include "tests/bench/step.h"
#include "tests/bench/timing.h"

#define MAX_STEPS 200
#define COUNTED_STEPS 20
#define NAME_BYTES 32

struct workload {
    const char *name;
    size_t n_tensors; /* all of n_elements; or else 0, and a model's list */
    size_t n_elements;
    size_t (*model)(size_t *sizes);
    bool is_average;
    int n_steps; /* of a block */
    int n_warmup;
};

static const struct workload workloads[] = {
    {"1x4B", 1, 1, NULL, false, 200, 20},
    {"10x4B", 10, 1, NULL, false, 100, 20},
    {"100x4B", 100, 1, NULL, false, 100, 10},
    {"1000x4B", 1000, 1, NULL, false, 50, 10},
    {"10000x4B", 10000, 1, NULL, false, 20, 5},
    {"1024x4KiB", 1024, 1024, NULL, false, 50, 5},
    {"64x1MiB", 64, 1 << 18, NULL, true, 20, 3},
    {"resnet50", 0, 0, model_resnet50, true, 20, 3},
    {"bert-large", 0, 0, model_bert_large, true, 3, 1},
};
#define N_WORKLOADS (sizeof(workloads) / sizeof(workloads[0]))
#define N_SYNTHETIC 7 /* the models, which need much memory, follow if asked for */

/* A runtime and the one variable that makes it this arm. */
struct arm {
    const char *name;
    bool is_peer;
    const char *variable;
    const char *value;
};

struct bench {
    const struct step_port *peer; /* NULL: there is none */
    struct arm arms[4];
    size_t n_arms;
    size_t n_workloads;
    unsigned seed;
    int n_rounds;
    int rank;
    int size;
    float *input; /* of all tensors, one behind the other */
    float *output;
    char (*names)[NAME_BYTES];
    struct step_tensor *tensors;
    size_t n_tensors; /* of the workload that was laid out, as n_elements */
    size_t n_elements;
    int n_iterations; /* so far: what the next inputs hold */
};

struct block {
    double us[MAX_STEPS];
    double ping_ns[2];
    double allocations; /* per step, as all that follow */
    double switches;
    double idle_cores; /* of a second with nothing outstanding; -1: not measured */
};

static void must(const char *failure)
{
    if (failure)
        bench_fail(failure);
}

/* Element by element the larger one of all ranks. */
static void slowest(double *values, int n)
{
    MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static size_t sizes_of(const struct workload *w, size_t **sizes)
{
    const size_t n = w->model ? MODEL_MAX_TENSORS : w->n_tensors;

    *sizes = calloc(n, sizeof(**sizes));
    if (!*sizes)
        bench_fail("out of memory");
    if (w->model)
        return w->model(*sizes);
    for (size_t i = 0; i < n; i++)
        (*sizes)[i] = w->n_elements;
    return n;
}

/* Names, memory and, different on each rank, the order of submission. */
static void lay_out(struct bench *b, const struct workload *w)
{
    size_t *sizes;
    size_t at = 0;

    b->n_tensors = sizes_of(w, &sizes);
    for (size_t i = 0; i < b->n_tensors; i++) {
        b->tensors[i] = (struct step_tensor){.name = b->names[i],
                                             .input = b->input + at,
                                             .output = b->output + at,
                                             .n = sizes[i],
                                             .is_average = w->is_average};
        at += sizes[i];
    }
    b->n_elements = at;
    free(sizes);
    unsigned seed = b->seed + 7919u * (unsigned)b->rank;
    for (size_t i = b->n_tensors; i > 1; i--) {
        const size_t j = (size_t)rand_r(&seed) % i;
        const struct step_tensor moved = b->tensors[i - 1];
        b->tensors[i - 1] = b->tensors[j];
        b->tensors[j] = moved;
    }
}

static void fill(struct bench *b)
{
    const float value = (float)(b->rank + b->n_iterations % 7 + 1);

    for (size_t i = 0; i < b->n_elements; i++)
        b->input[i] = value;
}

static void check(const struct bench *b)
{
    const int pairs = b->size * (b->size - 1);
    const float all = (float)pairs / 2 + (float)(b->size * (b->n_iterations % 7 + 1));

    for (size_t i = 0; i < b->n_tensors; i++) {
        const struct step_tensor *t = &b->tensors[i];
        const float expected = t->is_average ? all / (float)b->size : all;
        if (fabsf(t->output[0] - expected) > 1e-6f * expected ||
            fabsf(t->output[t->n - 1] - expected) > 1e-6f * expected)
            bench_fail("a wrong result");
    }
}

/* One step as it counts; microseconds of this rank. */
static double run_step(struct bench *b, const struct step_port *port)
{
    b->n_iterations++;
    fill(b);
    placement_barrier();
    double begin = bench_now_us();
    must(port->step());
    double spent = bench_now_us() - begin;
    check(b);
    return spent;
}

static double cpu_us(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e6 +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* Allocations and blocking waits of the process, per step. */
static void count(struct bench *b, int n_steps, const struct step_port *port, struct block *found)
{
    struct rusage before;
    struct rusage after;

    getrusage(RUSAGE_SELF, &before);
    allocations_count(true);
    for (int i = 0; i < n_steps; i++)
        run_step(b, port);
    allocations_count(false);
    getrusage(RUSAGE_SELF, &after);
    found->allocations = (double)allocations_counted() / n_steps;
    found->switches = (double)(after.ru_nvcsw - before.ru_nvcsw) / n_steps;
}

/* The share of a core that the process uses while it has nothing to do. */
static double idle(void)
{
    struct rusage before;
    struct rusage after;
    const struct timespec second = {.tv_sec = 1};

    placement_barrier();
    getrusage(RUSAGE_SELF, &before);
    double begin = bench_now_us();
    nanosleep(&second, NULL);
    double spent = bench_now_us() - begin;
    getrusage(RUSAGE_SELF, &after);
    return (cpu_us(&after) - cpu_us(&before)) / spent;
}

static const struct step_port *enter(const struct bench *b, const struct arm *arm)
{
    const struct step_port *port = arm->is_peer ? b->peer : &step_ours;

    if (arm->variable)
        setenv(arm->variable, arm->value, 1);
    must(port->init());
    if (arm->variable)
        unsetenv(arm->variable);
    return port;
}

static void report(const struct workload *w, const struct arm *arm, int round, struct block *found)
{
    const int n = w->n_steps;

    qsort(found->us, (size_t)n, sizeof(found->us[0]), bench_by_value);
    printf("{\"workload\": \"%s\", \"arm\": \"%s\", \"round\": %d, \"p10_us\": %.3f, \"p50_us\": "
           "%.3f, \"p99_us\": %.3f, \"ping_ns\": [%.1f, %.1f], \"allocations\": %.2f, "
           "\"switches\": %.2f",
           w->name, arm->name, round, found->us[n / 10], found->us[n / 2], found->us[n * 99 / 100],
           found->ping_ns[0], found->ping_ns[1], found->allocations, found->switches);
    if (found->idle_cores >= 0)
        printf(", \"idle_cores\": %.6f", found->idle_cores);
    printf("}\n");
    fflush(stdout);
}

/* One arm's turn: joins, warms up, measures, leaves. */
static void run_block(struct bench *b, const struct workload *w, const struct arm *arm, int round)
{
    struct block found = {.ping_ns[0] = placement_probe(), .idle_cores = -1};
    const struct step_port *port = enter(b, arm);

    lay_out(b, w);
    must(port->prepare(b->tensors, b->n_tensors));
    for (int i = 0; i < w->n_warmup; i++)
        run_step(b, port);
    for (int i = 0; i < w->n_steps; i++)
        found.us[i] = run_step(b, port);
    count(b, w->n_steps < COUNTED_STEPS ? w->n_steps : COUNTED_STEPS, port, &found);
    if (w == &workloads[0] && round == 0)
        found.idle_cores = idle();
    port->forget();
    port->shutdown();
    found.ping_ns[1] = placement_probe();
    slowest(found.us, w->n_steps);
    slowest(&found.allocations, 1);
    slowest(&found.switches, 1);
    slowest(&found.idle_cores, 1);
    if (b->rank == 0)
        report(w, arm, round, &found);
}

/* All arms once, in an order that every rank draws alike. */
static void run_round(struct bench *b, const struct workload *w, int round)
{
    size_t order[sizeof(b->arms) / sizeof(b->arms[0])];

    for (size_t i = 0; i < b->n_arms; i++)
        order[i] = i;
    for (size_t i = b->n_arms; i > 0; i--) {
        const size_t j = (size_t)rand_r(&b->seed) % i;
        const size_t drawn = order[j];
        order[j] = order[i - 1];
        run_block(b, w, &b->arms[drawn], round);
    }
}

/* Steps of one arm and nothing else, for a tracer to count system calls of. */
static void run_only(struct bench *b, const char *arm_name, const char *workload_name, int n_steps)
{
    const struct workload *w = NULL;
    const struct arm *arm = NULL;

    for (size_t i = 0; i < b->n_workloads; i++)
        if (strcmp(workloads[i].name, workload_name) == 0)
            w = &workloads[i];
    for (size_t i = 0; i < b->n_arms; i++)
        if (strcmp(b->arms[i].name, arm_name) == 0)
            arm = &b->arms[i];
    if (!w || !arm)
        bench_fail("--only: no such workload or arm");
    const struct step_port *port = enter(b, arm);
    lay_out(b, w);
    must(port->prepare(b->tensors, b->n_tensors));
    fill(b);
    for (int i = 0; i < n_steps; i++)
        must(port->step());
    check(b);
    port->forget();
    port->shutdown();
}

static void *allocated(size_t bytes)
{
    void *found = calloc(1, bytes);

    if (!found)
        bench_fail("out of memory");
    return found;
}

static void start(struct bench *b)
{
    size_t most_tensors = 1;
    size_t most_elements = 1;

    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b->size);
    for (size_t i = 0; i < b->n_workloads; i++) {
        size_t *sizes;
        size_t n_tensors = sizes_of(&workloads[i], &sizes);
        size_t n_elements = 0;
        for (size_t j = 0; j < n_tensors; j++)
            n_elements += sizes[j];
        free(sizes);
        most_elements = n_elements > most_elements ? n_elements : most_elements;
        most_tensors = n_tensors > most_tensors ? n_tensors : most_tensors;
    }
    b->input = allocated(most_elements * sizeof(float));
    b->output = allocated(most_elements * sizeof(float));
    b->tensors = allocated(most_tensors * sizeof(*b->tensors));
    b->names = allocated(most_tensors * sizeof(*b->names));
    for (size_t i = 0; i < most_tensors; i++)
        snprintf(b->names[i], NAME_BYTES, "gradient.%zu", i);
    placement_start();
}

static void stop(struct bench *b)
{
    placement_stop();
    free(b->input);
    free(b->output);
    free(b->tensors);
    free(b->names);
}

static void add_arm(struct bench *b, struct arm arm)
{
    b->arms[b->n_arms++] = arm;
}

static void load_peer(struct bench *b, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        bench_fail(dlerror());
    b->peer = dlsym(library, STEP_PEER_SYMBOL);
    if (!b->peer)
        bench_fail(dlerror());
    /* Its default, spelled out: a second init does not go back to it by itself. */
    add_arm(b,
            (struct arm){
                .name = "peer", .is_peer = true, .variable = "HOROVOD_CYCLE_TIME", .value = "1"});
    add_arm(b, (struct arm){.name = "peer-cycle0",
                            .is_peer = true,
                            .variable = "HOROVOD_CYCLE_TIME",
                            .value = "0"});
}

static int number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end || value < 0 || value > INT32_MAX)
        bench_fail("an argument that should be a number is none");
    return (int)value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"peer", required_argument, NULL, 'p'},
                                            {"timeline", required_argument, NULL, 't'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"only", no_argument, NULL, 'o'},
                                            {"models", no_argument, NULL, 'm'},
                                            {NULL, 0, NULL, 0}};
    static struct bench b = {.seed = 1, .n_rounds = 2, .n_workloads = N_SYNTHETIC};
    bool is_only = false;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    add_arm(&b, (struct arm){.name = "ours"});
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'p')
            load_peer(&b, optarg);
        else if (c == 't')
            add_arm(&b, (struct arm){"ours-timeline", false, "HOROVOD_TIMELINE", optarg});
        else if (c == 's')
            b.seed = (unsigned)number(optarg);
        else if (c == 'r')
            b.n_rounds = number(optarg);
        else if (c == 'm')
            b.n_workloads = N_WORKLOADS;
        else if (c == 'o')
            is_only = true;
        else
            bench_fail(
                "usage: step [--peer LIB] [--timeline FILE] [--seed N] [--rounds N] [--models] "
                "[--only ARM WORKLOAD STEPS]");
    }
    start(&b);
    if (is_only && argc - optind == 3)
        run_only(&b, argv[optind], argv[optind + 1], number(argv[optind + 2]));
    for (int round = 0; !is_only && round < b.n_rounds; round++)
        for (size_t i = 0; i < b.n_workloads; i++)
            run_round(&b, &workloads[i], round);
    stop(&b);
    MPI_Finalize();
    return 0;
}
