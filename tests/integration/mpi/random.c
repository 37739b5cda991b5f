/*
 * Random programs through the public API, over whatever transport the environment chooses:
 * mpi_random FIRST_SEED N_PROGRAMS. All ranks make the same program of a seed, each submits its
 * tensors in an order of its own, in place or not, some in groups, to process sets, of any size and
 * type, at the edges of the types; and in some rounds ranks have joined. Results are compared bit
 * for bit with plain arithmetic. Prints each seed before it runs, so that one that hangs is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <horovod/horovod.h>

#include "tests/unit/worker/reduce/reference.h"
#include "tests/unit/worker/transport/every_edge.h"

#define MAX_RANKS 16
#define MAX_SETS 4
#define MAX_TENSORS 12
#define MAX_COUNT 700
#define ROUNDS 6
#define BYTES ((size_t)MAX_COUNT * MAX_RANKS * 8)

struct set {
    int id;
    int n;
    int ranks[MAX_RANKS];
};

/* The same on every rank but for what follows `mine`. */
struct tensor {
    horovod_dtype_t dtype;
    int op; /* enum hvd_op */
    horovod_reduce_op_t reduce;
    const struct set *set;
    int64_t rows;   /* of the tensor; allgather, alltoall: at most, of a rank */
    int64_t row;    /* elements */
    int root;       /* of the job */
    bool is_paired; /* in a group with the one behind it */
    uint64_t salt;
    char name[32];

    bool in_place; /* mine */
    int64_t splits[MAX_RANKS];
    horovod_handle_t handle;
    horovod_status_t taken;
    char *in;
    char *out;
};

struct program {
    uint64_t state;
    uint64_t seed;
    int round;
    struct set sets[MAX_SETS];
    int n_sets;
    int n;
    struct tensor tensors[MAX_TENSORS];
    bool has_joined[MAX_RANKS];
    int n_problems;
    char *room;
    char *want;
    char *one;
};

static uint64_t below(struct program *p, uint64_t n)
{
    return reference_random(&p->state) % n;
}

static void blame(struct program *p, const struct tensor *t, const char *what, const char *detail)
{
    if (p->n_problems++ < 5)
        fprintf(stderr,
                "rank %d, seed %llu, round %d: %s %s (op %d, reduction %d, %s, %lld rows of %lld, "
                "set %d of %d ranks): %s %s\n",
                horovod_rank(), (unsigned long long)p->seed, p->round, t->name,
                t->in_place ? "in place" : "apart", t->op, (int)t->reduce,
                hvd_dtype_name((int)t->dtype), (long long)t->rows, (long long)t->row, t->set->id,
                t->set->n, what, detail);
}

static int place_in(const struct set *set, int rank)
{
    for (int i = 0; i < set->n; i++)
        if (set->ranks[i] == rank)
            return i;
    return -1;
}

/* --- The program ------------------------------------------------------------------------------ */

/* The rows of a rank, of an allgather, or those it sends to another. */
static int64_t rows_of(const struct tensor *t, int from, int to)
{
    uint64_t state = t->salt + (uint64_t)from * 31 + (uint64_t)to * 1009;

    return (int64_t)(reference_random(&state) % (uint64_t)(t->rows + 1));
}

static void make_tensor(struct program *p, struct tensor *t, int i)
{
    static const int ops[] = {HVD_ALLREDUCE,     HVD_ALLREDUCE, HVD_ALLREDUCE, HVD_ALLREDUCE,
                              HVD_REDUCESCATTER, HVD_BROADCAST, HVD_ALLGATHER, HVD_ALLTOALL};
    static const horovod_reduce_op_t reductions[] = {HOROVOD_SUM, HOROVOD_SUM, HOROVOD_AVERAGE,
                                                     HOROVOD_MIN, HOROVOD_MAX, HOROVOD_PRODUCT};
    static const int64_t rows[] = {0, 1, 2, 3, 17, 64, 100};

    t->op = ops[below(p, 8)];
    t->dtype = (horovod_dtype_t)below(p, HVD_DTYPES);
    t->reduce = reductions[below(p, t->op == HVD_REDUCESCATTER ? 3 : 6)];
    t->set = &p->sets[below(p, (uint64_t)p->n_sets)];
    t->rows = rows[below(p, 7)];
    t->row = 1 + (int64_t)below(p, 7);
    if (t->op == HVD_ALLGATHER || t->op == HVD_ALLTOALL)
        t->rows = t->rows % 8;
    t->root = t->set->ranks[below(p, (uint64_t)t->set->n)];
    t->is_paired = false;
    t->salt = below(p, 1 << 20);
    /* Names come again with whatever tensor: known by bit, or something else now. */
    snprintf(t->name, sizeof(t->name), "t%d.%d", i, (int)below(p, 2));
}

static void make_round(struct program *p)
{
    const bool joins = below(p, 3) == 0 && horovod_size() > 1;

    p->n = 1 + (int)below(p, MAX_TENSORS);
    if (p->round == 0 || below(p, 2)) { /* else the same ones again, with other elements */
        for (int i = 0; i < MAX_TENSORS; i++)
            make_tensor(p, &p->tensors[i], i);
    } else {
        p->n = MAX_TENSORS;
    }
    for (int i = 0; i < p->n; i++)
        p->tensors[i].salt = below(p, 1 << 20);
    for (int i = 0; i < MAX_TENSORS; i++) {
        struct tensor *t = &p->tensors[i];
        t->is_paired = i + 1 < p->n && t->op == HVD_ALLREDUCE && t[1].op == HVD_ALLREDUCE &&
                       t->set == t[1].set && below(p, 2) && (i == 0 || !t[-1].is_paired);
    }
    for (int rank = 0; rank < horovod_size(); rank++) {
        const bool has = below(p, 2);
        p->has_joined[rank] = joins && has && rank != (int)(p->seed % (uint64_t)horovod_size());
    }
}

static bool any_joined(const struct program *p, const struct set *set)
{
    for (int i = 0; i < set->n; i++)
        if (p->has_joined[set->ranks[i]])
            return true;
    return false;
}

/* Whether joined ranks make it an error. */
static bool must_fail(const struct program *p, const struct tensor *t)
{
    return any_joined(p, t->set) &&
           (t->op != HVD_ALLREDUCE || (t->reduce != HOROVOD_SUM && t->reduce != HOROVOD_AVERAGE));
}

/* Whether the tensor, or one that it is in a group with, has to fail. */
static bool group_must_fail(const struct program *p, const struct tensor *t)
{
    const bool is_second = t > p->tensors && t[-1].is_paired;

    return must_fail(p, t) || (t->is_paired && must_fail(p, t + 1)) ||
           (is_second && must_fail(p, t - 1));
}

/* --- This rank's part ------------------------------------------------------------------------- */

static void copy_pattern(const struct tensor *t, int from, int to, char *data, size_t bytes)
{
    uint64_t state = t->salt * 7919 + (uint64_t)from * 64 + (uint64_t)to;

    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)reference_random(&state);
}

static size_t row_bytes(const struct tensor *t)
{
    return (size_t)t->row * hvd_dtype_size((int)t->dtype);
}

/* Fills the input; the rows that this rank brings. */
static int64_t fill_input(struct tensor *t, int me)
{
    int64_t rows = t->rows;
    char *at = t->in;

    if (t->op == HVD_ALLREDUCE || t->op == HVD_REDUCESCATTER) {
        hvd_transport_fill_edges((enum hvd_dtype)t->dtype, me, t->set->n, t->salt, t->in,
                                 rows * t->row);
    } else if (t->op == HVD_ALLTOALL) {
        rows = 0;
        for (int to = 0; to < t->set->n; to++) {
            t->splits[to] = rows_of(t, me, to);
            rows += t->splits[to];
            copy_pattern(t, me, to, at, (size_t)t->splits[to] * row_bytes(t));
            at += (size_t)t->splits[to] * row_bytes(t);
        }
    } else {
        rows = t->op == HVD_ALLGATHER ? rows_of(t, me, 0) : t->rows;
        copy_pattern(t, t->op == HVD_BROADCAST && horovod_rank() != t->root ? 63 : me, 0, at,
                     (size_t)rows * row_bytes(t));
    }
    return rows;
}

static void submit_group(struct tensor *t, const horovod_tensor_t *const *described,
                         horovod_error_t *err)
{
    const void *const inputs[] = {t->in, t[1].in};
    void *const outputs[] = {t->out, t[1].out};
    horovod_handle_t handles[2] = {0};

    t->taken = horovod_grouped_allreduce_async(2, inputs, outputs, described, handles, err);
    for (int i = 0; i < 2; i++) {
        t[i].taken = t->taken;
        t[i].handle = handles[i];
    }
}

static void submit_alone(struct tensor *t, const horovod_tensor_t *described, horovod_error_t *err)
{
    if (t->op == HVD_ALLREDUCE)
        t->taken = horovod_allreduce_async(t->in, t->out, described, &t->handle, err);
    else if (t->op == HVD_REDUCESCATTER)
        t->taken = horovod_reducescatter_async(t->in, t->out, described, &t->handle, err);
    else if (t->op == HVD_BROADCAST)
        t->taken = horovod_broadcast_async(t->in, t->out, described, &t->handle, err);
    else if (t->op == HVD_ALLGATHER)
        t->taken = horovod_allgather_async(t->in, described, &t->handle, err);
    else
        t->taken = horovod_alltoall_async(t->in, described, &t->handle, err);
}

/* Submits the tensor, with the next one if they are a group. */
static void submit(struct program *p, struct tensor *t)
{
    horovod_tensor_t described[2];
    const horovod_tensor_t *const pointers[] = {&described[0], &described[1]};
    int64_t shapes[2][2];
    horovod_error_t err = {0};

    for (int i = 0; i < (t->is_paired ? 2 : 1); i++) {
        struct tensor *one = &t[i];
        const int me = place_in(one->set, horovod_rank());
        one->in = p->room + (size_t)(one - p->tensors) * 2 * BYTES;
        one->out = one->in_place ? one->in : one->in + BYTES;
        shapes[i][0] = fill_input(one, me);
        shapes[i][1] = one->row;
        described[i] = (horovod_tensor_t){.size = sizeof(described[i]),
                                          .name = one->name,
                                          .dtype = one->dtype,
                                          .op = one->reduce,
                                          .ndim = 2,
                                          .shape = shapes[i],
                                          .root_rank = one->root,
                                          .process_set = one->set->id};
        if (one->op == HVD_ALLTOALL) {
            described[i].splits = one->splits;
            described[i].n_splits = one->set->n;
        }
    }
    if (t->is_paired)
        submit_group(t, pointers, &err);
    else
        submit_alone(t, &described[0], &err);
    if (t->taken != HOROVOD_OK)
        blame(p, t, "was not taken:", err.message);
}

/* --- The oracle ------------------------------------------------------------------------------- */

/* What all members make of their elements. */
static void reduce_all(const struct program *p, const struct tensor *t)
{
    const size_t width = hvd_dtype_size((int)t->dtype);
    const enum hvd_dtype dtype = (enum hvd_dtype)t->dtype;
    const enum hvd_reduce op =
        t->reduce == HOROVOD_AVERAGE ? HVD_SUM : (enum hvd_reduce)(int)t->reduce;
    const int64_t count = t->rows * t->row;

    for (int i = 0; i < t->set->n; i++) {
        char *to = i == 0 ? p->want : p->one;
        if (p->has_joined[t->set->ranks[i]])
            memset(to, 0, (size_t)count * width);
        else
            hvd_transport_fill_edges(dtype, i, t->set->n, t->salt, to, count);
        for (int64_t k = 0; i > 0 && k < count; k++) {
            char *at = p->want + (size_t)k * width;
            reference_combine(dtype, op, at, at, p->one + (size_t)k * width);
        }
    }
    for (int64_t k = 0; t->reduce == HOROVOD_AVERAGE && t->set->n > 1 && k < count; k++)
        reference_scale(dtype, p->want + (size_t)k * width, 1, t->set->n);
}

static void check_output(struct program *p, const struct tensor *t, const horovod_output_t *output)
{
    const int me = place_in(t->set, horovod_rank());
    const char *data = horovod_output_data(output);
    size_t at = 0;

    for (int from = 0; from < t->set->n; from++) {
        const int64_t rows = t->op == HVD_ALLGATHER ? rows_of(t, from, 0) : rows_of(t, from, me);
        const size_t bytes = (size_t)rows * row_bytes(t);
        if (horovod_output_rows_of(output, from) != rows) {
            blame(p, t, "has a wrong number of rows", "");
            return;
        }
        copy_pattern(t, from, t->op == HVD_ALLGATHER ? 0 : me, p->want, bytes);
        if (bytes > 0 && memcmp(data + at, p->want, bytes) != 0)
            blame(p, t, "has a wrong element", "");
        at += bytes;
    }
    if (horovod_output_bytes(output) != at)
        blame(p, t, "has a wrong size", "");
}

static void check_memory(struct program *p, const struct tensor *t)
{
    const int me = place_in(t->set, horovod_rank());
    size_t bytes = (size_t)t->rows * row_bytes(t);
    size_t from = 0;

    if (t->op == HVD_BROADCAST) {
        copy_pattern(t, place_in(t->set, t->root), 0, p->want, bytes);
    } else {
        reduce_all(p, t);
    }
    if (t->op == HVD_REDUCESCATTER) {
        for (int i = 0; i < me; i++)
            from += (size_t)horovod_reducescatter_rows(t->rows, i, t->set->n) * row_bytes(t);
        bytes = (size_t)horovod_reducescatter_rows(t->rows, me, t->set->n) * row_bytes(t);
    }
    for (size_t i = 0; i < bytes; i++) {
        if (t->out[i] == p->want[from + i])
            continue;
        char detail[64];
        snprintf(detail, sizeof(detail), "at byte %zu of %zu", i, bytes);
        blame(p, t, "has other bits than the reference", detail);
        return;
    }
}

static void wait_for(struct program *p, struct tensor *t)
{
    horovod_output_t *output = NULL;
    horovod_error_t err = {0};

    if (t->taken != HOROVOD_OK)
        return;
    const horovod_status_t st = horovod_wait_output(t->handle, &output, &err);
    const bool fails = group_must_fail(p, t);
    if (st != (fails ? HOROVOD_PRECONDITION_ERROR : HOROVOD_OK) ||
        (fails && !strstr(err.message, "not supported with Join")))
        blame(p, t, "ended with", st == HOROVOD_OK ? "no error" : err.message);
    else if (!fails && output)
        check_output(p, t, output);
    else if (!fails)
        check_memory(p, t);
    if (output)
        horovod_output_release(output);
}

/* --- Running it ------------------------------------------------------------------------------- */

/* In an order of this rank's own; sets do not wait for each other. */
static void run_round(struct program *p)
{
    const int rank = horovod_rank();
    uint64_t own = p->seed * 977 + (uint64_t)rank * 31 + (uint64_t)p->round;
    const int start = (int)(reference_random(&own) % (uint64_t)p->n);
    int last = -1;
    horovod_error_t err = {0};

    for (int k = 0; k < p->n && !p->has_joined[rank]; k++) {
        struct tensor *t = &p->tensors[(start + k) % p->n];
        const bool is_second = t > p->tensors && t[-1].is_paired;
        t->in_place = reference_random(&own) % 2;
        if (t->is_paired)
            t[1].in_place = reference_random(&own) % 2;
        if (!is_second && place_in(t->set, rank) >= 0)
            submit(p, t);
    }
    for (int k = 0; k < p->n && !p->has_joined[rank]; k++)
        if (place_in(p->tensors[k].set, rank) >= 0)
            wait_for(p, &p->tensors[k]);
    bool joins = false;
    for (int r = 0; r < horovod_size(); r++)
        joins = joins || p->has_joined[r];
    if (joins && horovod_join(&last, &err) != HOROVOD_OK && p->n_problems++ < 5)
        fprintf(stderr, "rank %d: join: %s\n", rank, err.message);
}

static void add_set(struct program *p, int first, int step, int n)
{
    struct set *set = &p->sets[p->n_sets];

    for (int i = 0; i < n; i++)
        set->ranks[i] = first + i * step;
    set->n = n;
    set->id = p->n_sets == 0 ? 0 : horovod_add_process_set(set->ranks, n);
    if (set->id >= 0)
        p->n_sets++;
}

static int run_seed(struct program *p, uint64_t seed)
{
    p->seed = seed;
    p->state = seed;
    p->n_problems = 0;
    if (horovod_rank() == 0) {
        printf("seed %llu\n", (unsigned long long)seed);
        fflush(stdout);
    }
    for (p->round = 0; p->round < ROUNDS; p->round++) {
        make_round(p);
        run_round(p);
    }
    return p->n_problems;
}

int main(int argc, char **argv)
{
    static struct program p;
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int n_problems = 0;

    p.room = malloc(2 * BYTES * MAX_TENSORS);
    p.want = malloc(2 * BYTES);
    if (!p.room || !p.want || !horovod_init(NULL, 0, NULL, NULL, 0) || horovod_size() > MAX_RANKS)
        return 2;
    p.one = p.want + BYTES;
    const int size = horovod_size();
    add_set(&p, 0, 1, size);
    if (size > 2) {
        add_set(&p, 0, size - 1, 2);
        add_set(&p, 1, 1, size - 1);
        add_set(&p, 0, 2, (size + 1) / 2);
    }
    for (uint64_t seed = first; seed < first + n && n_problems == 0; seed++)
        n_problems += run_seed(&p, seed);
    horovod_shutdown();
    free(p.want);
    free(p.room);
    return n_problems ? 1 : 0;
}
