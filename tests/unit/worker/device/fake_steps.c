/* Three steps of the fake device; see fake_steps.h. */
#include "tests/unit/worker/device/fake_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/reduce/reduce.h"

struct fake_place fake_place_of(const struct hvd_device_set *device_set)
{
    struct fake_place p = {.size = device_set->size, .rank = device_set->rank};

    if (p.size > FAKE_RANKS_MAX)
        abort();
    for (int i = 0; i < p.size; i++)
        p.hosts[i] = device_set->hosts ? device_set->hosts[i] : 0;
    return p;
}

/* How many of the first n ranks are on the host of a rank. */
static int count_on(const struct fake_place *p, int n, int rank)
{
    int found = 0;

    for (int i = 0; i < n; i++)
        found += p->hosts[i] == p->hosts[rank];
    return found;
}

static int local_size(const struct fake_place *p, int rank)
{
    const int n = count_on(p, p->size, rank);

    return n > 0 ? n : 1;
}

/* The first rank of a host has what equal parts leave. */
static int64_t part_of(const struct fake_place *p, int rank, int64_t count)
{
    const int n = local_size(p, rank);

    return count / n + (count_on(p, rank, rank) == 0 ? count % n : 0);
}

int64_t fake_part(const struct fake_place *p, int64_t count)
{
    const int n = local_size(p, p->rank);

    for (int i = 0; i < p->size; i++)
        if (local_size(p, i) != n)
            return -1;
    return n == 1 || n == p->size ? -1 : part_of(p, p->rank, count);
}

static char *take(size_t bytes)
{
    char *memory = calloc(1, bytes + 1);

    if (!memory)
        abort();
    return memory;
}

/* Counts what is sent to each rank and received from each; returns what is received. */
static int64_t count_step(const struct fake_place *p, bool is_scatter, struct hvd_collective *c,
                          int64_t *counts)
{
    const int64_t count = c->count;
    const int64_t own = part_of(p, p->rank, count);
    int64_t received = 0;

    c->count = 0;
    for (int i = 0; i < p->size; i++) {
        const bool is_local = p->hosts[i] == p->hosts[p->rank];
        const int64_t other = is_local ? part_of(p, i, count) : 0;
        const int64_t mine = is_local ? own : 0;
        counts[i] = is_scatter ? other : mine;
        counts[p->size + i] = is_scatter ? mine : other;
        c->count += counts[i];
        received += counts[p->size + i];
    }
    return received;
}

void fake_step(const struct fake_place *p, enum hvd_device_work_kind kind, struct hvd_collective *c,
               struct fake_step_memory *m)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    const int64_t own = part_of(p, p->rank, c->count);
    const int64_t received = count_step(p, kind == HVD_DEVICE_SCATTER, c, m->counts);

    free(m->output);
    m->output = take((size_t)received * width);
    if (kind == HVD_DEVICE_GATHER) {
        free(m->input);
        m->input = take((size_t)c->count * width);
        for (int64_t at = 0; at < c->count && own > 0; at += own)
            memcpy(m->input + (size_t)at * width, m->part, (size_t)own * width);
    }
    c->op = HVD_ALLTOALL;
    c->counts = m->counts;
    c->received = m->counts + p->size;
    c->input = m->input;
    c->output = m->output;
}

void fake_combine(const struct fake_place *p, const struct hvd_collective *allreduce,
                  const char *received, char *part)
{
    const int64_t own = part_of(p, p->rank, allreduce->count);
    const size_t bytes = (size_t)own * hvd_dtype_size((int)allreduce->dtype);

    memcpy(part, received, bytes);
    for (int i = 1; i < local_size(p, p->rank); i++)
        hvd_reduce_combine(allreduce->dtype, allreduce->reduce, part, received + (size_t)i * bytes,
                           own);
}
