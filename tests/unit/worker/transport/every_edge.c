/*
 * Reductions at the edges of their types, tried from one rank's side. Elements are chosen so that
 * the result does not depend on the order in which the ranks are added up: integers wrap in any
 * order; floating point elements are exact, or all orders end in the same infinity, zero or NaN.
 */
#include "tests/unit/worker/transport/every_edge.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/unit/worker/reduce/reference.h"

#define MAX_RANKS 16
#define MAX_COUNT 1200
#define WIDTH_MAX 8
#define N(array) (sizeof(array) / sizeof((array)[0]))

static const enum hvd_reduce ops[] = {HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT};

/* Where a trial runs, and its memory: MAX_COUNT elements each. */
struct stand {
    struct hvd_transport *t;
    uint32_t set;
    int n;
    int rank;
    char *in;
    char *out;
    char *want;
    char *one;
};

static bool is_floating(enum hvd_dtype dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 || dtype == HVD_FLOAT32 ||
           dtype == HVD_FLOAT64;
}

/* What is special in a floating point type. */
struct limits {
    double most;        /* the largest number */
    double least;       /* the smallest one above 0 */
    double half_normal; /* half of the smallest normal one: sums of it leave the denormals */
};

static struct limits limits_of(enum hvd_dtype dtype)
{
    switch ((int)dtype) {
    case HVD_FLOAT16:
        return (struct limits){65504, 0x1p-24, 0x1p-15};
    case HVD_BFLOAT16:
        return (struct limits){0x1.fep127, 0x1p-133, 0x1p-127};
    case HVD_FLOAT32:
        return (struct limits){0x1.fffffep127, 0x1p-149, 0x1p-127};
    default:
        return (struct limits){0x1.fffffffffffffp1023, 0x1p-1074, 0x1p-1023};
    }
}

/* One element of a rank; `odd` is the rank that has what the others have not. */
static double number_of(struct limits limits, int kind, int rank, bool odd)
{
    const double infinity = (double)INFINITY;

    switch (kind) {
    case 0:
        return limits.least;
    case 1:
        return odd ? (double)NAN : 1;
    case 2:
        return odd ? infinity : 1;
    case 3:
        return odd ? -infinity : infinity;
    case 4:
        return limits.most;
    case 5:
        return -limits.most;
    case 6:
        return odd ? 0 : -0.0;
    case 7:
        return -0.0;
    case 8:
        return odd ? infinity : 0;
    case 9:
        return limits.half_normal;
    case 10:
        return odd ? -limits.least : 0;
    default:
        return rank % 3 - 1;
    }
}

void hvd_transport_fill_edges(enum hvd_dtype dtype, int rank, int n_ranks, uint64_t salt,
                              char *data, int64_t count)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const struct limits limits = limits_of(dtype);
    const int64_t shift = (int64_t)(salt % 1009);

    if (!is_floating(dtype)) {
        reference_fill(dtype, data, count, salt * 64 + (uint64_t)rank + 1);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const int kind = (int)((i + shift) % 13);
        const bool odd = (i + shift) / 13 % n_ranks == rank;
        reference_set(dtype, data, i, number_of(limits, kind, rank, odd));
        if (kind == 1 && odd && i % 2)
            data[(size_t)(i + 1) * width - 1] |= (char)0x80; /* a NaN with a sign */
    }
}

static void fill(enum hvd_dtype dtype, int rank, int n_ranks, char *data, int64_t count)
{
    hvd_transport_fill_edges(dtype, rank, n_ranks, 0, data, count);
}

/* What all ranks make of their elements. */
static void reduce_all(const struct stand *s, const struct hvd_collective *c)
{
    const size_t width = hvd_dtype_size((int)c->dtype);

    fill(c->dtype, 0, s->n, s->want, c->count);
    for (int rank = 1; rank < s->n; rank++) {
        fill(c->dtype, rank, s->n, s->one, c->count);
        for (int64_t i = 0; i < c->count; i++) {
            char *at = s->want + (size_t)i * width;
            reference_combine(c->dtype, c->reduce, at, at, s->one + (size_t)i * width);
        }
    }
}

static const char *run(const struct stand *s, struct hvd_collective *c)
{
    hvd_status_t st;

    c->set = s->set;
    if (s->t->ops->start(s->t, c, NULL) != HVD_OK)
        return "a reduction does not start";
    while ((st = s->t->ops->test(s->t, c, NULL)) == HVD_INPROGRESS)
        sched_yield();
    return st == HVD_OK ? NULL : "a reduction failed";
}

/* Says which one it is. */
static const char *tell(const struct stand *s, const struct hvd_collective *c, const char *problem)
{
    static const char *const names[] = {
        [HVD_SUM] = "sum", [HVD_MIN] = "min", [HVD_MAX] = "max", [HVD_PRODUCT] = "product"};

    fprintf(stderr, "rank %d of %d: %s, %s of %lld %s\n", s->rank, s->n, hvd_op_name((int)c->op),
            names[c->reduce], (long long)c->count, hvd_dtype_name((int)c->dtype));
    return problem;
}

static struct hvd_collective collective(const struct stand *s, enum hvd_op op, int dtype,
                                        enum hvd_reduce reduce)
{
    return (struct hvd_collective){.op = op,
                                   .dtype = (enum hvd_dtype)dtype,
                                   .reduce = reduce,
                                   .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                                   .input = s->in,
                                   .output = s->out};
}

/* Which ranks reduce in place: the even ones, the odd ones, none, all. */
static bool is_in_place(const struct stand *s, int salt)
{
    switch (salt % 4) {
    case 0:
        return s->rank % 2 == 0;
    case 1:
        return s->rank % 2 == 1;
    default:
        return salt % 4 == 3;
    }
}

static const char *reduce_once(const struct stand *s, struct hvd_collective c, int salt)
{
    if (is_in_place(s, salt))
        c.output = s->in;
    fill(c.dtype, s->rank, s->n, s->in, c.count);
    reduce_all(s, &c);
    const char *problem = run(s, &c);
    if (!problem && memcmp(c.output, s->want, (size_t)c.count * hvd_dtype_size((int)c.dtype)) != 0)
        problem = "a reduction at the edge of its type has other bits than the reference";
    return problem ? tell(s, &c, problem) : NULL;
}

/* The same in pieces, each of them in place or not. */
static const char *fused_once(const struct stand *s, struct hvd_collective c, int salt)
{
    const size_t width = hvd_dtype_size((int)c.dtype);
    struct hvd_piece pieces[4];
    int64_t at = 0;

    for (int i = 0; i < 4; i++) {
        const int64_t count = i < 3 ? (int64_t)i * 17 : c.count - at;
        const size_t offset = (size_t)at * width;
        pieces[i] =
            (struct hvd_piece){.input = s->in + offset,
                               .output = (is_in_place(s, salt + i) ? s->in : s->out) + offset,
                               .count = count};
        at += count;
    }
    c.pieces = pieces;
    c.n_pieces = 4;
    fill(c.dtype, s->rank, s->n, s->in, c.count);
    reduce_all(s, &c);
    const char *problem = run(s, &c);
    const char *want = s->want;
    for (int i = 0; i < 4 && !problem; i++) {
        const size_t bytes = (size_t)pieces[i].count * width;
        if (memcmp(pieces[i].output, want, bytes) != 0)
            problem = "a fused reduction at the edge of its type has other bits than the reference";
        want += bytes;
    }
    return problem ? tell(s, &c, problem) : NULL;
}

static const char *scatter_once(const struct stand *s, struct hvd_collective c, int salt)
{
    const size_t width = hvd_dtype_size((int)c.dtype);
    int64_t counts[MAX_RANKS];
    int64_t before = 0;

    c.count = 0;
    for (int rank = 0; rank < s->n; rank++) {
        counts[rank] = (rank + salt) % 4 * 23; /* some are empty */
        before += rank < s->rank ? counts[rank] : 0;
        c.count += counts[rank];
    }
    if (c.count == 0)
        return NULL;
    c.counts = counts;
    if (is_in_place(s, salt))
        c.output = s->in;
    fill(c.dtype, s->rank, s->n, s->in, c.count);
    reduce_all(s, &c);
    const char *problem = run(s, &c);
    if (!problem &&
        memcmp(c.output, s->want + (size_t)before * width, (size_t)counts[s->rank] * width) != 0)
        problem = "a scattered reduction at the edge of its type has other bits than the reference";
    return problem ? tell(s, &c, problem) : NULL;
}

static const char *try_all(const struct stand *s)
{
    const char *problem = NULL;

    for (int i = 0; i < HVD_DTYPES * (int)N(ops) && !problem; i++) {
        const int dtype = i / (int)N(ops);
        const enum hvd_reduce op = ops[i % (int)N(ops)];
        struct hvd_collective c = collective(s, HVD_ALLREDUCE, dtype, op);
        c.count = i % 3 == 0 ? MAX_COUNT : 1 + i;
        problem = reduce_once(s, c, i);
        c.count = 300;
        if (!problem)
            problem = fused_once(s, c, i);
        if (!problem)
            problem = scatter_once(s, collective(s, HVD_REDUCESCATTER, dtype, op), i);
    }
    return problem;
}

const char *hvd_transport_every_edge(struct hvd_transport *t, uint32_t set, int rank, int n_ranks)
{
    struct stand s = {.t = t, .set = set, .n = n_ranks, .rank = rank};
    char *room = hvd_calloc(4 * MAX_COUNT, WIDTH_MAX);
    const char *problem = "no room for the test";

    if (room && n_ranks <= MAX_RANKS) {
        s.in = room;
        s.out = room + (size_t)MAX_COUNT * WIDTH_MAX;
        s.want = s.out + (size_t)MAX_COUNT * WIDTH_MAX;
        s.one = s.want + (size_t)MAX_COUNT * WIDTH_MAX;
        problem = try_all(&s);
    }
    hvd_free(room);
    return problem;
}
