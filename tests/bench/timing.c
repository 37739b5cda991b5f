/* Clock, order and end of the benchmarks' programs, which all run under mpirun. */
#include "tests/bench/timing.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double bench_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int bench_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

_Noreturn void bench_fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}
