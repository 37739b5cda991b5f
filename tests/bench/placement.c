/*
 * A page that all ranks map. Each flag has a single writer and 128 bytes of its own, because
 * processors fetch lines in pairs. Waiting spins for a while and then yields, so that ranks which
 * share a core get on.
 */
#include "tests/bench/placement.h"
#include "tests/bench/timing.h"

#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUND_TRIPS 1000
#define PER_SAMPLE 10
#define SPINS 2000

struct flag {
    _Alignas(128) atomic_uint value;
};

static struct {
    MPI_Win window;
    struct flag *flags; /* ranks of the barrier, then two of the ping-pong */
    int rank;
    int size;
    unsigned barriers;
    unsigned pings;
} page;

static void wait_for(const struct flag *flag, unsigned value)
{
    for (unsigned spins = 0;
         (int)(atomic_load_explicit(&flag->value, memory_order_acquire) - value) < 0; spins++)
        if (spins > SPINS)
            sched_yield();
}

static void raise_to(struct flag *flag, unsigned value)
{
    atomic_store_explicit(&flag->value, value, memory_order_release);
}

void placement_start(void)
{
    MPI_Aint bytes;
    int unit;
    void *base = NULL;

    MPI_Comm_rank(MPI_COMM_WORLD, &page.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &page.size);
    bytes = page.rank == 0 ? (MPI_Aint)sizeof(struct flag) * (page.size + 3) : 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&base, &page.window);
    MPI_Win_shared_query(page.window, 0, &bytes, &unit, (void *)&base);
    if (!base) {
        fputs("bench: the ranks share no memory: run all on one host\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    page.flags = (void *)((char *)base + (128 - (uintptr_t)base % 128) % 128);
    raise_to(&page.flags[page.rank], 0);
    if (page.rank == 0) {
        raise_to(&page.flags[page.size], 0);
        raise_to(&page.flags[page.size + 1], 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

void placement_stop(void)
{
    MPI_Win_free(&page.window);
}

void placement_barrier(void)
{
    page.barriers++;
    raise_to(&page.flags[page.rank], page.barriers);
    for (int rank = 0; rank < page.size; rank++)
        wait_for(&page.flags[rank], page.barriers);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Some round trips; rank 0 sends first. */
static void play(void)
{
    struct flag *ping = &page.flags[page.size];
    struct flag *pong = &page.flags[page.size + 1];

    for (int i = 0; i < PER_SAMPLE; i++) {
        page.pings++;
        if (page.rank == 0) {
            raise_to(ping, page.pings);
            wait_for(pong, page.pings);
        } else {
            wait_for(ping, page.pings);
            raise_to(pong, page.pings);
        }
    }
}

double placement_probe(void)
{
    double samples[ROUND_TRIPS / PER_SAMPLE];
    const int n_samples = ROUND_TRIPS / PER_SAMPLE;

    placement_barrier();
    if (page.size < 2 || page.rank > 1)
        return 0;
    for (int i = 0; i < n_samples; i++) {
        double begin = now_ns();
        play();
        samples[i] = (now_ns() - begin) / PER_SAMPLE;
    }
    qsort(samples, (size_t)n_samples, sizeof(samples[0]), bench_by_value);
    return page.rank == 0 ? samples[n_samples / 2] : 0;
}
