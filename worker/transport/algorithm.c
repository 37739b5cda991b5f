/*
 * Algorithms of allreduce as schedules of exchanges, and the choice between them. The functions
 * compute with ranks and sizes alone, so every rank gets the same result from the same numbers.
 *
 * Recursive doubling and Rabenseifner's algorithm need a power of two. Where the number of ranks is
 * none, each of the first even ranks first hands its payload to the odd rank next to it. It stands
 * by, and gets the result back at the end. Both algorithms combine ranks at the largest distance
 * first, so both add up in the same order.
 */
#include "worker/transport/algorithm.h"

#include <limits.h>
#include <string.h>

#include "base/str.h"

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

bool hvd_algorithm_depends_on_offset(enum hvd_algorithm algorithm)
{
    return algorithm == HVD_ALGORITHM_RING || algorithm == HVD_ALGORITHM_MPI;
}

/* --- Powers of two ---------------------------------------------------------------------------- */

/* How the ranks are folded onto a power of two. */
struct fold {
    int n;       /* the power of two */
    int n_steps; /* its logarithm */
    int n_extra; /* ranks beyond it */
    int rank;    /* among the n; -1: this rank stands by */
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

/* The first step where there are extra ranks, and the last, which goes the other way round. */
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

/* A rank's state after a number of halvings: its part, and the other half of what it had before. */
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

/* Halves the payload, the farthest partner first, then gathers the parts on the same way back. */
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

/* Each block travels the ring once to be added up, and once more to reach every rank. */
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

int hvd_algorithm_steps(const struct hvd_schedule *s)
{
    const struct fold f = fold_of(s);
    const int around = f.n_extra > 0 ? 2 : 0;

    if (s->algorithm == HVD_ALGORITHM_RING)
        return 2 * (s->n_ranks - 1);
    return around + (s->algorithm == HVD_ALGORITHM_DOUBLING ? f.n_steps : 2 * f.n_steps);
}

struct hvd_exchange hvd_algorithm_step(const struct hvd_schedule *s, int i)
{
    const struct fold f = fold_of(s);
    const int last = hvd_algorithm_steps(s) - 1;

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

int64_t hvd_algorithm_room(const struct hvd_schedule *s)
{
    const struct fold f = fold_of(s);

    if (s->algorithm == HVD_ALGORITHM_RING)
        return (s->count + s->n_ranks - 1) / s->n_ranks;
    return s->algorithm == HVD_ALGORITHM_DOUBLING || f.n_extra > 0 ? s->count : (s->count + 1) / 2;
}

/* --- The choice ------------------------------------------------------------------------------- */

/*
 * Measured on 2026-11-21 by `script/bench network` between two ranks over Open MPI 4.1.4's TCP, on
 * the loopback of a virtual machine with two processors (AMD EPYC):
 *
 * - Messages to each other take 12.7 us and 0.35 ns a byte up to 60 KiB.
 * - From 64 KiB on, where Open MPI asks first, they take 45 us and 0.33 ns a byte.
 * - Four at once take 9.2 us each, and 31 us.
 * - Adding up takes 0.032 ns a byte.
 *
 * The time of an algorithm's steps follows from these numbers for any number of ranks, without
 * contention. A power of two never takes the ring, which would gain nothing there.
 */
#define NEVER INT64_MAX
#define ALWAYS INT64_MAX
#define KIB(n) ((int64_t)(n) << 10)

static const struct hvd_algorithm_table builtin = {
    .n = 10,
    .rows = {{2, ALWAYS, NEVER},
             {3, KIB(32) - 1, KIB(32)},
             {4, KIB(64) - 1, NEVER},
             {7, KIB(64) - 1, KIB(64)},
             {8, KIB(64) - 1, NEVER},
             {15, KIB(64) - 1, KIB(128)},
             {31, KIB(64) - 1, NEVER},
             {127, KIB(54), NEVER},
             {16383, KIB(45), NEVER},
             {INT_MAX, KIB(38), NEVER}},
};

static const int64_t ranks_range[2] = {2, INT_MAX - 1};
static const int64_t bytes_range[2] = {0, INT64_MAX - 1};

const struct hvd_algorithm_table *hvd_algorithm_builtin(void)
{
    return &builtin;
}

/* Cuts off a number, or the word that stands for the largest number. */
static bool cut_number(struct hvd_strview *row, const char *word, const int64_t range[2],
                       int64_t *out)
{
    const struct hvd_strview text = hvd_strview_trim(hvd_strview_cut(row, ':'));

    if (!text.data)
        return false;
    if (word && hvd_strview_equal(text, word)) {
        *out = range[1] + 1;
        return true;
    }
    return hvd_str_parse_int64(text, range, out, NULL) == HVD_OK;
}

/* Parses a row. It must cover more ranks than the row before. */
static bool parse_row(struct hvd_strview text, int after, struct hvd_algorithm_row *out)
{
    int64_t ranks = 0;
    const bool is_row = cut_number(&text, "*", ranks_range, &ranks) && ranks > after &&
                        cut_number(&text, "-", bytes_range, &out->doubling_max) &&
                        cut_number(&text, "-", bytes_range, &out->ring_min) && !text.data;

    out->max_ranks = (int)ranks;
    return is_row && (out->ring_min > out->doubling_max || out->ring_min == NEVER);
}

hvd_status_t hvd_algorithm_table_parse(const char *text, struct hvd_algorithm_table *out,
                                       struct hvd_err *err)
{
    struct hvd_strview rest = hvd_strview_of(text);
    struct hvd_algorithm_table table = {0};
    int after = 1;

    while (rest.data) {
        const struct hvd_strview row = hvd_strview_cut(&rest, ',');
        if (table.n == HVD_ALGORITHM_ROWS)
            return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "more than %d rows", HVD_ALGORITHM_ROWS);
        if (!parse_row(row, after, &table.rows[table.n]))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "row \"%.*s\" is not RANKS:DOUBLING:RING with more ranks than the row "
                            "before and RING above DOUBLING",
                            row.len > 64 ? 64 : (int)row.len, row.data);
        after = table.rows[table.n++].max_ranks;
    }
    if (after != INT_MAX)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "no row is for all other numbers of ranks: let the last one begin with *");
    *out = table;
    return HVD_OK;
}

uint64_t hvd_algorithm_table_digest(const struct hvd_algorithm_table *table)
{
    uint64_t sum = (uint64_t)table->n;

    for (int i = 0; i < table->n; i++) {
        const struct hvd_algorithm_row *row = &table->rows[i];
        const uint64_t fields[] = {(uint64_t)row->max_ranks, (uint64_t)row->doubling_max,
                                   (uint64_t)row->ring_min};
        for (int k = 0; k < 3; k++) {
            sum = (sum ^ fields[k]) * 0x9e3779b97f4a7c15u;
            sum ^= sum >> 29;
        }
    }
    return sum;
}

enum hvd_algorithm hvd_algorithm_choose(const struct hvd_algorithm_table *table, int64_t bytes,
                                        int n_ranks, bool deterministic)
{
    const struct hvd_algorithm_row *row = table->n > 0 ? table->rows : builtin.rows;

    while (n_ranks > row->max_ranks)
        row++;
    if (bytes <= row->doubling_max)
        return HVD_ALGORITHM_DOUBLING;
    if (!deterministic && bytes >= row->ring_min)
        return HVD_ALGORITHM_RING;
    return HVD_ALGORITHM_RABENSEIFNER;
}
