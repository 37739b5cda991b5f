/*
 * Tries libhorovod.so under mpirun, one behaviour a run: mpi_runtime MODE. Exits 0 when everything
 * held on this rank, 1 when not; says what did not on standard error.
 */
#include "tests/integration/mpi/mpi_runtime.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int n_problems;

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"values", mode_values},       {"gather", mode_gather},       {"threads", mode_threads},
    {"large", mode_large},         {"mismatch", mode_mismatch},   {"refusals", mode_refusals},
    {"arguments", mode_arguments}, {"leave", mode_leave},         {"exit", mode_exit},
    {"reuse", mode_reuse},         {"single", mode_single},       {"again", mode_again},
    {"funneled", mode_funneled},   {"refused", mode_refused},     {"kinds", mode_kinds},
    {"waits", mode_waits},         {"callbacks", mode_callbacks}, {"jobs", mode_jobs},
    {"sets", mode_sets},           {"bits", mode_bits},           {"fixed_sets", mode_fixed_sets},
    {"adasum", mode_adasum},       {"fork", mode_fork},           {"started", mode_started},
    {"inside", mode_inside},       {"alone", mode_alone},         {"after_abort", mode_after_abort},
    {"tied", mode_tied},           {"halves", mode_halves},       {"some", mode_some},
    {"comms", mode_comms},         {"bad_comms", mode_bad_comms},
};

void check(bool good, const char *what, const char *detail)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", horovod_rank(), what, detail);
    atomic_fetch_add(&n_problems, 1);
}

int checks_failed(void)
{
    return atomic_load(&n_problems) ? 1 : 0;
}

void must_init(void)
{
    horovod_error_t err = {0};

    if (horovod_init(NULL, 0, NULL, NULL, 0))
        return;
    horovod_init_error(&err);
    fprintf(stderr, "horovod_init: %s\n", err.message);
    exit(1);
}

void check_sum(const char *name)
{
    const int64_t size = horovod_size();
    horovod_error_t err = {0};
    int64_t data = horovod_rank() + 1;
    horovod_status_t st = horovod_allreduce(
        &data, &data, HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_INT64, .op = HOROVOD_SUM),
        &err);

    check(st == HOROVOD_OK, name, err.message);
    check(data == size * (size + 1) / 2, name, "the sum is wrong");
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        modes[i].run();
        return checks_failed();
    }
    fprintf(stderr, "usage: mpi_runtime MODE\n");
    return 2;
}
