/*
 * Algorithms of allreduce as schedules of exchanges, and the choice between them. Arithmetic on
 * ranks and sizes, nothing else: every rank computes the same from the same numbers.
 *
 * Where the number of ranks is not a power of two, recursive doubling and Rabenseifner's begin with
 * each of the first even ranks handing its payload to the odd rank next to it, and end with getting
 * the result back; in between they stand by. Both combine ranks at the largest distance first, so
 * both add up in the same order.
 */
#include "worker/transport/algorithm.h"

#include <string.h>

static const char *const names[HVD_ALGORITHMS] = {"auto", "doubling", "rabenseifner", "ring",
                                                  "mpi"};

const char *hvd_algorithm_name(int algorithm)
{
    return algorithm >= 0 && algorithm < HVD_ALGORITHMS ? names[algorithm] : "unknown";
}

int hvd_algorithm_parse(const char *name)
{
    for (int i = 0; i < HVD_ALGORITHMS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

bool hvd_algorithm_depends_on_place(enum hvd_algorithm algorithm)
{
    return algorithm == HVD_ALGORITHM_RING || algorithm == HVD_ALGORITHM_MPI;
}

/* --- Powers of two ---------------------------------------------------------------------------- */

/* How the ranks are folded onto a power of two. */
struct fold {
    int n;       /* the power of two */
    int n_steps; /* its logarithm */
    int n_extra; /* ranks beyond it */
    int rank;    /* among the n; -1: stands by */
};

static int unfolded(const struct fold *f, int rank)
{
    return rank < f->n_extra ? 2 * rank + 1 : rank + f->n_extra;
}

static struct fold fold_of(const struct hvd_schedule *s)
{
    struct fold f = {.n = 1};

    while (f.n <= s->n_ranks / 2) {
        f.n *= 2;
        f.n_steps++;
    }
    f.n_extra = s->n_ranks - f.n;
    if (s->rank >= 2 * f.n_extra)
        f.rank = s->rank - f.n_extra;
    else
        f.rank = s->rank % 2 ? s->rank / 2 : -1;
    return f;
}

static struct hvd_exchange nothing(void)
{
    return (struct hvd_exchange){.to = -1, .from = -1};
}

/* The first step where there are extra ranks, and the last, the other way round. */
static struct hvd_exchange fold_step(const struct hvd_schedule *s, const struct fold *f,
                                     bool is_first)
{
    struct hvd_exchange x = nothing();
    const bool is_extra = s->rank % 2 == 0;
    const int partner = is_extra ? s->rank + 1 : s->rank - 1;

    if (s->rank >= 2 * f->n_extra)
        return x;
    if (is_extra == is_first) {
        x.to = partner;
        x.send_count = s->count;
    } else {
        x.from = partner;
        x.receive_count = s->count;
        x.combines = is_first;
    }
    return x;
}

static struct hvd_exchange doubling_step(const struct hvd_schedule *s, const struct fold *f, int i)
{
    const int partner = unfolded(f, f->rank ^ (f->n >> (i + 1)));

    return (struct hvd_exchange){.to = partner,
                                 .send_count = s->count,
                                 .from = partner,
                                 .receive_count = s->count,
                                 .combines = true};
}

/* What a rank has after so many halvings: its part, and the other half of what it had before. */
struct halves {
    int64_t at;
    int64_t count;
    int64_t other_at;
    int64_t other_count;
};

static struct halves halve(const struct hvd_schedule *s, const struct fold *f, int n_times)
{
    struct halves h = {.count = s->count};

    for (int i = 0; i < n_times; i++) {
        const int64_t low = h.count / 2;
        const int64_t high = h.count - low;
        if (f->rank & (f->n >> (i + 1)))
            h = (struct halves){h.at + low, high, h.at, low};
        else
            h = (struct halves){h.at, low, h.at + low, high};
    }
    return h;
}

/* First halving, the farthest partner first; then the same way back, gathering. */
static struct hvd_exchange rabenseifner_step(const struct hvd_schedule *s, const struct fold *f,
                                             int i)
{
    const bool is_halving = i < f->n_steps;
    const int level = is_halving ? i : 2 * f->n_steps - 1 - i;
    const int partner = unfolded(f, f->rank ^ (f->n >> (level + 1)));
    const struct halves h = halve(s, f, level + 1);

    if (is_halving)
        return (struct hvd_exchange){.to = partner,
                                     .send_at = h.other_at,
                                     .send_count = h.other_count,
                                     .from = partner,
                                     .receive_at = h.at,
                                     .receive_count = h.count,
                                     .combines = true};
    return (struct hvd_exchange){.to = partner,
                                 .send_at = h.at,
                                 .send_count = h.count,
                                 .from = partner,
                                 .receive_at = h.other_at,
                                 .receive_count = h.other_count};
}

/* --- Ring ------------------------------------------------------------------------------------- */

static int64_t block_at(const struct hvd_schedule *s, int block)
{
    return s->count / s->n_ranks * block +
           (block < s->count % s->n_ranks ? block : s->count % s->n_ranks);
}

/* Each block goes round once to be added up, and once more to be known. */
static struct hvd_exchange ring_step(const struct hvd_schedule *s, int i)
{
    const int n = s->n_ranks;
    const bool is_adding = i < n - 1;
    const int sent = (s->rank - i + 2 * n) % n;
    const int received = (sent + n - 1) % n;

    return (struct hvd_exchange){.to = (s->rank + 1) % n,
                                 .send_at = block_at(s, sent),
                                 .send_count = block_at(s, sent + 1) - block_at(s, sent),
                                 .from = (s->rank + n - 1) % n,
                                 .receive_at = block_at(s, received),
                                 .receive_count = block_at(s, received + 1) - block_at(s, received),
                                 .combines = is_adding};
}

/* --- All of them ------------------------------------------------------------------------------ */

int hvd_schedule_steps(const struct hvd_schedule *s)
{
    const struct fold f = fold_of(s);
    const int around = f.n_extra > 0 ? 2 : 0;

    if (s->algorithm == HVD_ALGORITHM_RING)
        return 2 * (s->n_ranks - 1);
    return around + (s->algorithm == HVD_ALGORITHM_DOUBLING ? f.n_steps : 2 * f.n_steps);
}

struct hvd_exchange hvd_schedule_step(const struct hvd_schedule *s, int i)
{
    const struct fold f = fold_of(s);
    const int last = hvd_schedule_steps(s) - 1;

    if (s->algorithm == HVD_ALGORITHM_RING)
        return ring_step(s, i);
    if (f.n_extra > 0 && (i == 0 || i == last))
        return fold_step(s, &f, i == 0);
    if (f.rank < 0)
        return nothing();
    i -= f.n_extra > 0;
    return s->algorithm == HVD_ALGORITHM_DOUBLING ? doubling_step(s, &f, i)
                                                  : rabenseifner_step(s, &f, i);
}

int64_t hvd_schedule_room(const struct hvd_schedule *s)
{
    const struct fold f = fold_of(s);

    if (s->algorithm == HVD_ALGORITHM_RING)
        return (s->count + s->n_ranks - 1) / s->n_ranks;
    return s->algorithm == HVD_ALGORITHM_DOUBLING || f.n_extra > 0 ? s->count : (s->count + 1) / 2;
}

/* --- The choice ------------------------------------------------------------------------------- */

/*
 * Modelled, not measured: one machine with two processors cannot time many ranks. LogGP with 20 us
 * for a message (latency and overheads), 0.9 ns for a byte of it and 0.1 ns for a byte that is
 * added up, as TCP over 10 Gbit/s has them; the unit test computes the model anew and holds the
 * table to it. For a power of two the model never prefers the ring.
 */
struct choice {
    int max_ranks;
    int64_t doubling_max; /* bytes */
    int64_t ring_min;     /* bytes; of rank counts that are no power of two */
};

#define KIB(n) ((int64_t)(n) << 10)

static const struct choice choices[] = {
    {2, KIB(384), INT64_MAX},      {3, KIB(12), KIB(12)},
    {4, KIB(68), KIB(68)},         {7, KIB(48), KIB(48)},
    {15, KIB(45), KIB(160)},       {31, KIB(38), KIB(400)},
    {63, KIB(32), KIB(900)},       {127, KIB(29), KIB(2000)},
    {255, KIB(27), KIB(4000)},     {511, KIB(27), KIB(8000)},
    {1023, KIB(27), KIB(16000)},   {2047, KIB(25), KIB(32000)},
    {4095, KIB(25), KIB(64000)},   {8191, KIB(25), KIB(128000)},
    {16383, KIB(25), KIB(256000)}, {INT32_MAX, KIB(25), KIB(512000)},
};

enum hvd_algorithm hvd_algorithm_choose(int64_t bytes, int n_ranks, bool deterministic)
{
    const bool is_power = (n_ranks & (n_ranks - 1)) == 0;
    const struct choice *c = choices;

    while (n_ranks > c->max_ranks)
        c++;
    if (bytes <= c->doubling_max)
        return HVD_ALGORITHM_DOUBLING;
    if (!is_power && !deterministic && bytes >= c->ring_min)
        return HVD_ALGORITHM_RING;
    return HVD_ALGORITHM_RABENSEIFNER;
}
