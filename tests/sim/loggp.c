/*
 * Modelled time; see loggp.h. No real clock is read here, and nothing waits.
 */
#include "tests/sim/loggp.h"

#include "base/mem.h"

struct processor {
    int64_t busy_until_ns;
    int64_t may_send_at_ns;
};

struct hvd_clock {
    struct hvd_network network;
    int ranks_per_host;
    uint64_t random;
    struct processor *processors; /* by rank; owned */
};

hvd_status_t hvd_loggp_create(const struct hvd_clock_options *options, struct hvd_clock **out,
                              struct hvd_err *err)
{
    struct hvd_clock *c = hvd_calloc(1, sizeof(*c));

    if (c)
        c->processors = hvd_calloc((size_t)options->size, sizeof(*c->processors));
    if (!c || !c->processors) {
        hvd_loggp_destroy(c);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a modelled clock");
    }
    c->network = *options->network;
    c->ranks_per_host = options->ranks_per_host;
    c->random = options->seed * 2654435761u + 88172645463325252u;
    *out = c;
    return HVD_OK;
}

void hvd_loggp_destroy(struct hvd_clock *c)
{
    if (!c)
        return;
    hvd_free(c->processors);
    hvd_free(c);
}

static const struct hvd_loggp *between(const struct hvd_clock *c, int a, int b)
{
    return a / c->ranks_per_host == b / c->ranks_per_host ? &c->network.near : &c->network.far;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t draw_jitter(struct hvd_clock *c)
{
    if (c->network.jitter_ns <= 0)
        return 0;
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (int64_t)(c->random % (uint64_t)(c->network.jitter_ns + 1));
}

int64_t hvd_loggp_work(struct hvd_clock *c, int rank, int64_t at_ns, int64_t ns)
{
    struct processor *p = &c->processors[rank];

    if (c->network.straggler_factor > 0 && rank == c->network.straggler)
        ns = (int64_t)((double)ns * c->network.straggler_factor);
    p->busy_until_ns = later(p->busy_until_ns, at_ns) + ns;
    return p->busy_until_ns;
}

int64_t hvd_loggp_send(struct hvd_clock *c, int from, int to, size_t len, int64_t at_ns)
{
    const struct hvd_loggp *way = between(c, from, to);
    struct processor *p = &c->processors[from];
    const int64_t wire_ns = (int64_t)((double)len * way->byte_ns);
    const int64_t handed_over = hvd_loggp_work(c, from, at_ns, way->overhead_ns);
    const int64_t leaves = later(handed_over, p->may_send_at_ns);

    p->may_send_at_ns = leaves + later(way->gap_ns, wire_ns);
    return leaves + wire_ns + way->latency_ns + draw_jitter(c);
}

int64_t hvd_loggp_receive(struct hvd_clock *c, int from, int to, int64_t came_ns)
{
    return hvd_loggp_work(c, to, came_ns, between(c, from, to)->overhead_ns);
}

int64_t hvd_loggp_time(const struct hvd_clock *c, int rank)
{
    return c->processors[rank].busy_until_ns;
}

int64_t hvd_loggp_collective(const struct hvd_clock *c, int n_ranks, size_t bytes)
{
    const struct hvd_loggp *way = n_ranks <= c->ranks_per_host ? &c->network.near : &c->network.far;
    int64_t hops = 0;

    for (int n = 1; n < n_ranks; n *= 2)
        hops++;
    return 2 * hops * (way->latency_ns + 2 * way->overhead_ns) +
           (int64_t)(2 * (double)bytes * way->byte_ns);
}
