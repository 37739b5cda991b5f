/*
 * Collectives of all kinds, tried from one rank's side. Values are small integers that every type
 * and every order of a reduction gets exactly right. Runs in threads and in processes, so it
 * returns texts and asserts nothing.
 */
#include "tests/unit/worker/transport/every_kind.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/unit/worker/transport/every_edge.h"
#include "worker/reduce/reduce.h"

#define MAX_RANKS 16
#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Where a trial runs, and its memory. */
struct stand {
    struct hvd_transport *t;
    uint32_t set;
    int n;
    int rank;
    int64_t room; /* doubles in each of the two */
    double *in;
    double *out;
};

static const char *start(const struct stand *s, struct hvd_collective *c)
{
    c->set = s->set;
    return s->t->ops->start(s->t, c, NULL) == HVD_OK ? NULL : "a collective does not start";
}

static const char *finish(const struct stand *s, struct hvd_collective *c)
{
    for (;;) {
        hvd_status_t st = s->t->ops->test(s->t, c, NULL);
        if (st != HVD_INPROGRESS)
            return st == HVD_OK ? NULL : "a collective failed";
        sched_yield();
    }
}

static const char *run(const struct stand *s, struct hvd_collective *c)
{
    const char *problem = start(s, c);

    return problem ? problem : finish(s, c);
}

/* Element i of a rank: 0 to 3. */
static int value(int rank, int64_t i)
{
    return (int)(((int64_t)rank * 5 + i * 3 + i / 7) % 4);
}

static void store(enum hvd_dtype dtype, void *data, int64_t i, int v)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200};
    static const uint16_t brains[] = {0, 0x3f80, 0x4000, 0x4040};

    switch (dtype) {
    case HVD_UINT8:
    case HVD_INT8:
        ((uint8_t *)data)[i] = (uint8_t)v;
        break;
    case HVD_BOOL:
        ((uint8_t *)data)[i] = v != 0;
        break;
    case HVD_UINT16:
    case HVD_INT16:
        ((uint16_t *)data)[i] = (uint16_t)v;
        break;
    case HVD_FLOAT16:
        ((uint16_t *)data)[i] = halves[v];
        break;
    case HVD_BFLOAT16:
        ((uint16_t *)data)[i] = brains[v];
        break;
    case HVD_INT32:
    case HVD_UINT32:
        ((uint32_t *)data)[i] = (uint32_t)v;
        break;
    case HVD_INT64:
    case HVD_UINT64:
        ((uint64_t *)data)[i] = (uint64_t)v;
        break;
    case HVD_FLOAT32:
        ((float *)data)[i] = (float)v;
        break;
    case HVD_FLOAT64:
        ((double *)data)[i] = v;
        break;
    }
}

static void fill(enum hvd_dtype dtype, int rank, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        store(dtype, data, i, value(rank, i));
}

/* The elements of all ranks reduced in rank order, into want, with room for one more input. */
static void reduce_all(const struct stand *s, const struct hvd_collective *c, char *want)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    char *one = want + (size_t)c->count * width;

    for (int rank = 0; rank < s->n; rank++) {
        char *to = rank == 0 ? want : one;
        fill(c->dtype, rank, to, c->count);
        hvd_reduce_prescale(c->dtype, &c->scaling, to, to, c->count);
        if (rank > 0)
            hvd_reduce_combine(c->dtype, c->reduce, want, one, c->count);
    }
    hvd_reduce_finish(c->dtype, &c->scaling, want, c->count);
}

/* --- Allreduce -------------------------------------------------------------------------------- */

static const char *reduce_once(const struct stand *s, struct hvd_collective *c, char *want)
{
    fill(c->dtype, s->rank, s->in, c->count);
    reduce_all(s, c, want);
    const char *problem = run(s, c);
    if (!problem && memcmp(c->output, want, (size_t)c->count * hvd_dtype_size((int)c->dtype)) != 0)
        problem = "an allreduce has a wrong element";
    return problem;
}

static const char *allreduces(const struct stand *s, int scale)
{
    static const enum hvd_reduce ops[] = {HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT};
    static const int64_t counts[] = {1, 3, 129, 1000};
    char *want = hvd_malloc(2 * 1000 * (size_t)scale, sizeof(double));
    const char *problem = want ? NULL : "out of memory";

    for (int d = 0; d < HVD_DTYPES && !problem; d++) {
        for (size_t i = 0; i < N(ops) * N(counts) && !problem; i++) {
            const bool in_place = (i + (size_t)d + (size_t)s->rank) % 2 == 0;
            struct hvd_collective c = {
                .op = HVD_ALLREDUCE,
                .dtype = (enum hvd_dtype)d,
                .reduce = ops[i % N(ops)],
                .scaling = {.prescale = i % 3 ? 1 : 2, .postscale = i % 5 ? 1 : 0.5, .divisor = 1},
                .count = counts[i / N(ops)] * scale,
                .input = s->in,
                .output = in_place ? s->in : s->out};
            if (i % 4 == 3)
                c.scaling.divisor = s->n;
            problem = reduce_once(s, &c, want);
        }
    }
    hvd_free(want);
    return problem;
}

/* Pieces of 0, 1, 2, ... elements, half of them in place, as one payload. */
static const char *fused(const struct stand *s, int scale)
{
    struct hvd_piece pieces[40];
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 2, .postscale = 1, .divisor = 2},
                               .pieces = pieces,
                               .n_pieces = N(pieces)};
    float *in = (float *)s->in;
    float *out = (float *)s->out;

    for (int p = 0; p < c.n_pieces; p++) {
        const int64_t count = (int64_t)p * scale;
        pieces[p] = (struct hvd_piece){
            .input = in + c.count, .output = (p % 2 ? in : out) + c.count, .count = count};
        c.count += count;
    }
    fill(HVD_FLOAT32, s->rank, in, c.count);
    const char *problem = run(s, &c);
    int64_t i = 0;
    for (int p = 0; p < c.n_pieces && !problem; p++) {
        for (int64_t k = 0; k < pieces[p].count; k++, i++) {
            int sum = 0;
            for (int rank = 0; rank < s->n; rank++)
                sum += value(rank, i);
            if (((const float *)pieces[p].output)[k] != (float)sum)
                problem = "a fused allreduce has a wrong element";
        }
    }
    return problem;
}

/* --- Reducescatter ---------------------------------------------------------------------------- */

static int64_t part_of(int rank, int salt, int scale)
{
    return (int64_t)((rank * 3 + salt) % 5) * 13 * scale; /* some are empty */
}

static const char *scatter_once(const struct stand *s, int salt, int scale)
{
    int64_t counts[MAX_RANKS];
    int64_t before = 0;
    struct hvd_collective c = {.op = HVD_REDUCESCATTER,
                               .dtype = salt % 2 ? HVD_INT64 : HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 3, .divisor = 1},
                               .counts = counts,
                               .input = s->in,
                               .output = salt % 3 ? s->out : s->in};

    for (int rank = 0; rank < s->n; rank++) {
        counts[rank] = part_of(rank, salt, scale);
        before += rank < s->rank ? counts[rank] : 0;
        c.count += counts[rank];
    }
    if (c.count == 0)
        return NULL;
    fill(c.dtype, s->rank, s->in, c.count);
    const char *problem = run(s, &c);
    for (int64_t i = 0; i < counts[s->rank] && !problem; i++) {
        int sum = 0;
        for (int rank = 0; rank < s->n; rank++)
            sum += value(rank, before + i);
        const bool is_right = c.dtype == HVD_INT64
                                  ? ((const int64_t *)c.output)[i] == 3 * sum
                                  : ((const float *)c.output)[i] == (float)(3 * sum);
        if (!is_right)
            problem = "a reducescatter has a wrong element";
    }
    return problem;
}

/* --- Copies ----------------------------------------------------------------------------------- */

static const char *cast_once(const struct stand *s, int root, bool in_place, int64_t count)
{
    struct hvd_collective c = {.op = HVD_BROADCAST,
                               .dtype = HVD_INT16,
                               .reduce = HVD_SUM,
                               .root = root,
                               .count = count,
                               .output = in_place ? s->in : s->out};

    memset(s->out, 0, (size_t)count * sizeof(int16_t));
    memset(s->in, 0, (size_t)count * sizeof(int16_t));
    if (s->rank == root) {
        c.input = s->in;
        fill(HVD_INT16, root, s->in, count);
    }
    const char *problem = run(s, &c);
    for (int64_t i = 0; i < count && !problem; i++)
        if (((const int16_t *)c.output)[i] != value(root, i))
            problem = "a broadcast has a wrong element";
    return problem;
}

static const char *gather_once(const struct stand *s, int salt, bool in_place, int scale)
{
    int64_t counts[MAX_RANKS];
    int64_t all = 0;
    struct hvd_collective c = {.op = HVD_ALLGATHER,
                               .dtype = HVD_FLOAT64,
                               .reduce = HVD_SUM,
                               .counts = counts,
                               .output = s->out};

    for (int rank = 0; rank < s->n; rank++)
        all += counts[rank] = part_of(rank, salt, scale);
    if (all == 0)
        return NULL;
    c.count = counts[s->rank];
    c.input = in_place ? s->out : s->in;
    fill(c.dtype, s->rank, in_place ? s->out : s->in, c.count);
    const char *problem = run(s, &c);
    const double *out = s->out;
    for (int rank = 0; rank < s->n && !problem; rank++)
        for (int64_t i = 0; i < counts[rank]; i++)
            if (*out++ != value(rank, i))
                problem = "an allgather has a wrong element";
    return problem;
}

static int64_t sent(int from, int to, int scale)
{
    return (int64_t)((from * 2 + to * 3) % 4) * 11 * scale;
}

static const char *exchange_once(const struct stand *s, bool in_place, int scale)
{
    int64_t counts[MAX_RANKS];
    int64_t received[MAX_RANKS];
    int32_t *in = (int32_t *)s->in;
    struct hvd_collective c = {.op = HVD_ALLTOALL,
                               .dtype = HVD_INT32,
                               .reduce = HVD_SUM,
                               .counts = counts,
                               .received = received,
                               .input = s->in,
                               .output = in_place ? s->in : s->out};

    for (int rank = 0; rank < s->n; rank++) {
        counts[rank] = sent(s->rank, rank, scale);
        received[rank] = sent(rank, s->rank, scale);
        c.count += counts[rank];
        for (int64_t i = 0; i < counts[rank]; i++)
            *in++ = (int32_t)(s->rank * 100 + rank);
    }
    const char *problem = run(s, &c);
    const int32_t *out = c.output;
    for (int rank = 0; rank < s->n && !problem; rank++)
        for (int64_t i = 0; i < received[rank]; i++)
            if (*out++ != rank * 100 + s->rank)
                problem = "an alltoall has a wrong element";
    return problem;
}

/* --- All of them ------------------------------------------------------------------------------ */

/* Large and small ones of several kinds on their way at once, seen finished in reverse. */
static const char *at_once(const struct stand *s, int scale)
{
    struct hvd_collective moving[8];
    const int64_t stride = s->room / 8;
    const char *problem = NULL;

    for (int i = 0; i < 8 && !problem; i++) {
        const int64_t count = i % 2 ? 1 + i : 700 * (int64_t)scale;
        moving[i] = (struct hvd_collective){
            .op = i % 3 == 2 ? HVD_BROADCAST : HVD_ALLREDUCE,
            .dtype = HVD_FLOAT64,
            .reduce = HVD_SUM,
            .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
            .root = i % s->n,
            .count = count,
            .input = s->in + i * stride,
            .output = s->out + i * stride,
        };
        fill(HVD_FLOAT64, s->rank, s->in + i * stride, count);
        problem = start(s, &moving[i]);
    }
    for (int i = 7; i >= 0 && !problem; i--) {
        const struct hvd_collective *c = &moving[i];
        problem = finish(s, &moving[i]);
        for (int64_t k = 0; k < c->count && !problem; k++) {
            int want = c->op == HVD_BROADCAST ? value(c->root, k) : 0;
            for (int rank = 0; rank < s->n && c->op == HVD_ALLREDUCE; rank++)
                want += value(rank, k);
            if (((const double *)c->output)[k] != want)
                problem = "collectives that move at once are mixed up";
        }
    }
    return problem;
}

static const char *try_all(const struct stand *s, int scale)
{
    const char *problem = allreduces(s, scale);

    if (!problem)
        problem = fused(s, scale);
    for (int salt = 0; salt < 6 && !problem; salt++) {
        problem = scatter_once(s, salt, scale);
        if (!problem)
            problem = gather_once(s, salt, salt % 2, scale);
    }
    for (int i = 0; i < 4 * s->n && !problem; i++)
        problem = cast_once(s, i / 4, i % 2, i % 4 < 2 ? 3 : 700 * (int64_t)scale);
    for (int i = 0; i < 2 && !problem; i++)
        problem = exchange_once(s, i == 1, scale);
    if (!problem)
        problem = at_once(s, scale);
    return problem ? problem : hvd_transport_every_edge(s->t, s->set, s->rank, s->n);
}

const char *hvd_transport_every_kind(struct hvd_transport *t, uint32_t set, const int *ranks,
                                     int n_ranks, int scale)
{
    struct stand s = {.t = t, .set = set, .n = n_ranks, .room = (int64_t)8000 * scale};
    const char *problem = "out of memory";

    for (int i = 0; i < n_ranks; i++)
        if (ranks[i] == t->topology.rank)
            s.rank = i;
    s.in = hvd_calloc((size_t)s.room, sizeof(double));
    s.out = hvd_calloc((size_t)s.room, sizeof(double));
    if (s.in && s.out && n_ranks <= MAX_RANKS)
        problem = try_all(&s, scale);
    hvd_free(s.in);
    hvd_free(s.out);
    return problem;
}

static bool is_member(const int *ranks, int n_ranks, int rank)
{
    for (int i = 0; i < n_ranks; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* A set from its beginning to its end, if this rank is in it. */
static const char *live_in(struct hvd_transport *t, uint32_t set, const int *ranks, int n_ranks,
                           int scale)
{
    if (n_ranks < 2 || !is_member(ranks, n_ranks, t->topology.rank))
        return NULL;
    if (t->ops->add_set(t, set, ranks, n_ranks, NULL) != HVD_OK)
        return "a process set does not come about";
    const char *problem = hvd_transport_every_kind(t, set, ranks, n_ranks, scale);
    t->ops->remove_set(t, set);
    return problem;
}

const char *hvd_transport_every_set(struct hvd_transport *t, int scale)
{
    const int size = t->topology.size;
    const int mine = t->topology.rank % 2;
    int all[MAX_RANKS];
    int halves[2][MAX_RANKS];
    const int ends[] = {0, size - 1};

    if (size > MAX_RANKS)
        return "too many ranks for the test";
    for (int rank = 0; rank < size; rank++) {
        all[rank] = rank;
        halves[rank % 2][rank / 2] = rank;
    }
    const char *problem = hvd_transport_every_kind(t, 0, all, size, scale);
    if (!problem)
        problem = live_in(t, 1 + (uint32_t)mine, halves[mine], (size + 1 - mine) / 2, scale);
    scale = 1;
    if (!problem)
        problem = live_in(t, 3, ends, size > 1 ? 2 : 1, scale);
    if (!problem)
        problem = live_in(t, 4, all + 1, size - 1, scale);
    return problem ? problem : hvd_transport_every_kind(t, 0, all, size, scale);
}
