/*
 * The generator. A program has rounds; in each the same names are asked for again, mostly as they
 * were, so that what was agreed is used again, and sometimes changed, so that it must be agreed
 * anew.
 */
#include "tests/unit/worker/engine/program.h"

#include <stdarg.h>
#include <stdio.h>

#define WINDOW 8 /* units that are submitted in an order of the rank's own */

static uint64_t next_random(struct program_run *r)
{
    /* splitmix64 (Steele, Lea and Flood 2014) */
    uint64_t z = (r->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int program_below(struct program_run *r, int n)
{
    return (int)(next_random(r) % (uint64_t)n);
}

void program_blame(struct program_run *r, const char *fmt, ...)
{
    va_list args;

    if (r->problem[0])
        return;
    va_start(args, fmt);
    vsnprintf(r->problem, sizeof(r->problem), fmt, args);
    va_end(args);
}

static void make_reduction(struct program_run *r, struct program_tensor *t)
{
    static const enum hvd_reduce reductions[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX,
                                                 HVD_PRODUCT};

    t->reduce = reductions[program_below(r, t->op == HVD_ALLREDUCE ? 5 : 2)];
    if (t->dtype == HVD_BOOL && t->reduce == HVD_AVERAGE)
        t->reduce = HVD_SUM;
    if (hvd_dtype_is_real(t->dtype) && t->reduce == HVD_SUM && program_below(r, 4) == 0)
        t->prescale = 2;
    t->is_rough = t->op == HVD_ALLREDUCE && t->reduce == HVD_SUM && t->prescale == 1 &&
                  (t->dtype == HVD_FLOAT32 || t->dtype == HVD_FLOAT64);
}

static struct program_tensor make_tensor(struct program_run *r, enum hvd_op op, int set)
{
    struct program_tensor t = {
        .op = op,
        .dtype = (enum hvd_dtype)program_below(r, HVD_DTYPES),
        .reduce = HVD_SUM,
        .set = set,
        .columns = program_below(r, COLUMNS_MAX + 1),
        .rows = program_below(r, ROWS_MAX + 1),
        .prescale = 1,
        .odd_rank = -1,
    };

    if (op == HVD_ALLREDUCE || op == HVD_REDUCESCATTER)
        make_reduction(r, &t);
    if (op == HVD_ALLREDUCE)
        t.is_in_place = program_below(r, 2);
    if (op == HVD_BROADCAST)
        t.root = program_below(r, r->sets[set].n);
    return t;
}

static enum hvd_op random_op(struct program_run *r)
{
    static const enum hvd_op ops[] = {HVD_ALLREDUCE, HVD_ALLREDUCE, HVD_ALLREDUCE,    HVD_ALLGATHER,
                                      HVD_BROADCAST, HVD_ALLTOALL,  HVD_REDUCESCATTER};

    return ops[program_below(r, (int)(sizeof(ops) / sizeof(ops[0])))];
}

static bool is_odd(const struct program_run *r, int round, const struct program_unit *u)
{
    for (int i = 0; i < u->n; i++)
        if (r->tensors[round][u->first + i].odd_rank >= 0)
            return true;
    return false;
}

/* Who disagrees about what in this round. */
static void make_odd(struct program_run *r, int round)
{
    for (int i = 0; i < r->n_tensors; i++) {
        struct program_tensor *t = &r->tensors[round][i];
        t->odd_rank = -1;
        if (r->sets[t->set].n == 1 || r->ends_with_join[round] || program_below(r, 16) > 0)
            continue;
        t->odd_rank = program_below(r, r->sets[t->set].n);
        t->odd_about = program_below(r, t->op == HVD_ALLREDUCE || t->op == HVD_BROADCAST ? 3 : 2);
    }
    for (int i = 0; i < r->n_units; i++)
        for (int k = 0; k < r->units[i].n; k++)
            r->tensors[round][r->units[i].first + k].is_odd_in_group =
                is_odd(r, round, &r->units[i]);
}

/* Zeros stand in for sums alone. */
static bool may_be_left_out(const struct program_tensor *t)
{
    return t->set == 0 && t->op == HVD_ALLREDUCE &&
           (t->reduce == HVD_SUM || t->reduce == HVD_AVERAGE);
}

/* Who leaves which unit out of a round that ends with a join: one that must not be left out by some
 * is left out by all. */
static void make_absent(struct program_run *r, int round)
{
    const uint64_t all = ~UINT64_C(0);

    for (int i = 0; i < r->n_units; i++) {
        const struct program_unit *u = &r->units[i];
        uint64_t absent = next_random(r);
        absent &= next_random(r); /* a quarter of the ranks */
        if (!r->ends_with_join[round])
            absent = 0;
        for (int k = 0; k < u->n && absent; k++)
            if (!may_be_left_out(&r->tensors[round][u->first + k]))
                absent = all;
        for (int k = 0; k < u->n; k++)
            r->tensors[round][u->first + k].absent = absent;
    }
}

/* The whole job, and with threads up to two sets of some ranks. */
static void make_sets(struct program_run *r)
{
    const int n = r->options->n_ranks;

    r->n_sets = 1;
    r->sets[0].n = n;
    for (int rank = 0; rank < n; rank++)
        r->sets[0].ranks[rank] = rank;
    for (int more = r->options->has_threads && n > 1 ? program_below(r, SETS_MAX) : 0; more > 0;
         more--) {
        struct program_set *set = &r->sets[r->n_sets];
        /* the second differs from the first in its parity, so never the same ranks twice */
        for (int rank = r->n_sets - 1; rank < n; rank += 1 + program_below(r, 3))
            set->ranks[set->n++] = rank;
        if (set->n > 0 && set->n < n)
            r->n_sets++;
        else
            *set = (struct program_set){0};
    }
}

static void make_units(struct program_run *r)
{
    const int wanted = 1 + program_below(r, r->options->n_ranks > 8 ? 8 : TENSORS_MAX - 3);

    while (r->n_tensors < wanted) {
        const bool is_group = program_below(r, 5) == 0;
        struct program_unit *u = &r->units[r->n_units++];
        *u = (struct program_unit){.first = r->n_tensors,
                                   .n = is_group ? 2 + program_below(r, 2) : 1};
        const enum hvd_op op = is_group ? HVD_ALLREDUCE : random_op(r);
        const int set = program_below(r, 2) ? 0 : program_below(r, r->n_sets);
        for (int i = 0; i < u->n; i++)
            r->tensors[0][r->n_tensors++] = make_tensor(r, op, set);
    }
}

static void make_round(struct program_run *r, int round)
{
    for (int i = 0; round > 0 && i < r->n_tensors; i++) {
        const struct program_tensor *before = &r->tensors[round - 1][i];
        r->tensors[round][i] =
            program_below(r, 8) == 0 ? make_tensor(r, before->op, before->set) : *before;
    }
    r->ends_with_join[round] = r->n_actors == 1 && program_below(r, 4) == 0;
    r->last_joined[round] = -1;
    make_odd(r, round);
    make_absent(r, round);
}

void program_make(struct program_run *r)
{
    const struct program_options *options = r->options;

    r->random = options->seed;
    r->n_actors = options->has_threads ? 1 + program_below(r, ACTORS_MAX) : 1;
    make_sets(r);
    make_units(r);
    r->n_rounds = 1 + program_below(r, options->n_ranks > 8 ? 2 : ROUNDS_MAX);
    for (int round = 0; round < r->n_rounds; round++)
        make_round(r, round);
    r->victim = -1;
    if (!options->may_lose || options->n_ranks == 1)
        return;
    r->victim = program_below(r, options->n_ranks);
    r->leaves = options->has_threads && program_below(r, 2);
    r->lost_after = program_below(r, r->n_tensors * r->n_rounds * options->n_ranks);
    if (!r->leaves && program_below(r, 2))
        r->die_at = 1 + (uint64_t)program_below(r, 16 << program_below(r, 10));
}

/* Whether the actor submits the unit in its round. */
static bool is_mine(const struct program_run *r, const struct program_actor *a, int unit)
{
    const struct program_tensor *t = program_tensor_of(r, a->round, r->units[unit].first);

    return unit % r->n_actors == a->number && program_place(r, t, a->rank) >= 0 &&
           !(t->absent >> a->rank & 1);
}

void program_make_order(struct program_run *r, struct program_actor *a)
{
    a->n_order = 0;
    for (int i = 0; i < r->n_units; i++)
        if (is_mine(r, a, i))
            a->order[a->n_order++] = i;
    for (int begin = 0; begin < a->n_order; begin += WINDOW) {
        const int n = a->n_order - begin < WINDOW ? a->n_order - begin : WINDOW;
        for (int i = n - 1; i > 0; i--) {
            const int j = program_below(r, i + 1);
            const int swap = a->order[begin + i];
            a->order[begin + i] = a->order[begin + j];
            a->order[begin + j] = swap;
        }
    }
}
