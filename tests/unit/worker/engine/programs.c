/*
 * The generator, the run and the oracle. A program has rounds; in each the same names are asked for
 * again, mostly as they were, so that what was agreed is used again, and sometimes changed, so that
 * it must be agreed anew. Values are small whole numbers, so that sums are exact in every type and
 * the oracle may compute in doubles; a quotient is compared within the type's precision.
 */
#include "tests/unit/worker/engine/programs.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support.h"
#include "tests/unit/worker/engine/program_values.h"
#include "worker/transport/sim.h"

#define TENSORS_MAX 40
#define ROUNDS_MAX 4
#define RANKS_MAX 64
#define ROWS_MAX 6
#define COLUMNS_MAX 5
#define WINDOW 8 /* units that a rank submits in an order of its own */
#define STEPS_MAX 400000
#define TEXT_MAX 512

/* A tensor as a round has it: what every rank asks for, and who asks for something else. */
struct plan_tensor {
    enum hvd_op op;
    enum hvd_dtype dtype;
    enum hvd_reduce reduce;
    int root;
    int64_t columns;
    int64_t rows;    /* uneven ones: of rank r it is (rows + r) % (ROWS_MAX + 1) */
    double prescale; /* 2 or 1, and then postscale is 0.5 or 1 */
    int odd_rank;    /* disagrees; -1: nobody */
    int odd_about;   /* 0 type, 1 shape, 2 root or reduction */
    bool is_in_place;
    bool is_odd_in_group; /* another one of its group has an odd rank */
};

/* Tensors that are submitted at once: one, or a group that completes together. */
struct unit {
    int first;
    int n;
};

struct submitted {
    int64_t handle;
    void *input;
    void *output;
    bool is_submitted;
    bool is_ended;
};

struct run {
    const struct program_options *options;
    uint64_t random;
    int n_tensors;
    int n_units;
    int n_rounds;
    struct unit units[TENSORS_MAX];
    struct plan_tensor tensors[ROUNDS_MAX][TENSORS_MAX];
    struct submitted *state; /* [rank * TENSORS_MAX + tensor], of the rank's round */
    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    int order[RANKS_MAX][TENSORS_MAX]; /* of units */
    int round[RANKS_MAX];
    int n_next[RANKS_MAX]; /* units submitted in the round */
    int n_open[RANKS_MAX]; /* tensors submitted and not ended */
    int n_ended;
    int victim; /* -1: nobody dies */
    int kill_after;
    bool is_killed;
    char problem[TEXT_MAX];
};

static char last_problem[TEXT_MAX];

static uint64_t next_random(struct run *r)
{
    /* splitmix64 (Steele, Lea and Flood 2014) */
    uint64_t z = (r->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(struct run *r, int n)
{
    return (int)(next_random(r) % (uint64_t)n);
}

__attribute__((format(printf, 2, 3))) static void blame(struct run *r, const char *fmt, ...)
{
    va_list args;

    if (r->problem[0])
        return;
    va_start(args, fmt);
    vsnprintf(r->problem, sizeof(r->problem), fmt, args);
    va_end(args);
}

static bool has_outputs_of_library(enum hvd_op op)
{
    return op == HVD_ALLGATHER || op == HVD_ALLTOALL;
}

/* --- The program ------------------------------------------------------------------------------ */

static void make_reduction(struct run *r, struct plan_tensor *t)
{
    static const enum hvd_reduce reductions[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX,
                                                 HVD_PRODUCT};

    t->reduce = reductions[below(r, t->op == HVD_ALLREDUCE ? 5 : 2)];
    if (t->dtype == HVD_BOOL && t->reduce == HVD_AVERAGE)
        t->reduce = HVD_SUM;
    if (!value_is_whole(t->dtype) && t->reduce == HVD_SUM && below(r, 4) == 0)
        t->prescale = 2;
}

static struct plan_tensor make_tensor(struct run *r, enum hvd_op op)
{
    struct plan_tensor t = {
        .op = op,
        .dtype = (enum hvd_dtype)below(r, HVD_DTYPES),
        .reduce = HVD_SUM,
        .columns = below(r, COLUMNS_MAX + 1),
        .rows = below(r, ROWS_MAX + 1),
        .prescale = 1,
        .odd_rank = -1,
    };

    if (op == HVD_ALLREDUCE || op == HVD_REDUCESCATTER)
        make_reduction(r, &t);
    if (op == HVD_ALLREDUCE)
        t.is_in_place = below(r, 2);
    if (op == HVD_BROADCAST)
        t.root = below(r, r->options->n_ranks);
    return t;
}

static enum hvd_op random_op(struct run *r)
{
    static const enum hvd_op ops[] = {HVD_ALLREDUCE, HVD_ALLREDUCE, HVD_ALLREDUCE,    HVD_ALLGATHER,
                                      HVD_BROADCAST, HVD_ALLTOALL,  HVD_REDUCESCATTER};

    return ops[below(r, (int)(sizeof(ops) / sizeof(ops[0])))];
}

static bool is_odd(const struct run *r, int round, const struct unit *u)
{
    for (int i = 0; i < u->n; i++)
        if (r->tensors[round][u->first + i].odd_rank >= 0)
            return true;
    return false;
}

/* Who disagrees about what in this round. */
static void make_odd(struct run *r, int round)
{
    for (int i = 0; i < r->n_tensors; i++) {
        struct plan_tensor *t = &r->tensors[round][i];
        t->odd_rank = -1;
        if (r->options->n_ranks == 1 || below(r, 16) > 0)
            continue;
        t->odd_rank = below(r, r->options->n_ranks);
        t->odd_about = below(r, t->op == HVD_ALLREDUCE || t->op == HVD_BROADCAST ? 3 : 2);
    }
    for (int i = 0; i < r->n_units; i++)
        for (int k = 0; k < r->units[i].n; k++)
            r->tensors[round][r->units[i].first + k].is_odd_in_group =
                is_odd(r, round, &r->units[i]);
}

static void make_program(struct run *r)
{
    const int wanted = 1 + below(r, r->options->n_ranks > 8 ? 8 : TENSORS_MAX - 3);

    while (r->n_tensors < wanted) {
        const bool is_group = below(r, 5) == 0;
        struct unit *u = &r->units[r->n_units++];
        *u = (struct unit){.first = r->n_tensors, .n = is_group ? 2 + below(r, 2) : 1};
        const enum hvd_op op = is_group ? HVD_ALLREDUCE : random_op(r);
        for (int i = 0; i < u->n; i++)
            r->tensors[0][r->n_tensors++] = make_tensor(r, op);
    }
    r->n_rounds = 1 + below(r, r->options->n_ranks > 8 ? 2 : ROUNDS_MAX);
    make_odd(r, 0);
    for (int round = 1; round < r->n_rounds; round++) {
        for (int i = 0; i < r->n_tensors; i++) {
            const struct plan_tensor *before = &r->tensors[round - 1][i];
            r->tensors[round][i] = below(r, 8) == 0 ? make_tensor(r, before->op) : *before;
        }
        make_odd(r, round);
    }
}

/* The shared order, with neighbours exchanged within windows. */
static void make_order(struct run *r, int rank)
{
    int *order = r->order[rank];

    for (int i = 0; i < r->n_units; i++)
        order[i] = i;
    for (int begin = 0; begin < r->n_units; begin += WINDOW) {
        const int n = r->n_units - begin < WINDOW ? r->n_units - begin : WINDOW;
        for (int i = n - 1; i > 0; i--) {
            const int j = below(r, i + 1);
            const int swap = order[begin + i];
            order[begin + i] = order[begin + j];
            order[begin + j] = swap;
        }
    }
}

/* How many rows rank `from` sends to rank `to` in an alltoall. */
static int64_t split_of(const struct plan_tensor *t, int from, int to)
{
    return (t->rows + 2 * from + to) % 3;
}

static int64_t rows_of(const struct run *r, const struct plan_tensor *t, int rank)
{
    int64_t rows = 0;

    if (t->op == HVD_ALLGATHER)
        return (t->rows + rank) % (ROWS_MAX + 1);
    if (t->op != HVD_ALLTOALL)
        return t->rows;
    for (int to = 0; to < r->options->n_ranks; to++)
        rows += split_of(t, rank, to);
    return rows;
}

/* The rows of a reducescatter that come to a rank: the first ranks get one more. */
static int64_t share_of(const struct run *r, const struct plan_tensor *t, int rank)
{
    const int n = r->options->n_ranks;

    return t->rows / n + (rank < t->rows % n);
}

/* Small enough for a sum over all ranks to be exact in every type. */
static int value_of(const struct run *r, const struct plan_tensor *t, int rank, int64_t i)
{
    const int range = t->dtype == HVD_BOOL || r->options->n_ranks > 8 ? 2 : 4;

    if (t->reduce == HVD_PRODUCT && t->dtype != HVD_BOOL)
        return rank == (int)(i % r->options->n_ranks) ? 1 + (int)(i % 3) : 1;
    return ((int)t->columns * 7 + rank * 3 + (int)i * 5) % range;
}

static struct hvd_request request_of(const struct run *r, int tensor, int rank, char name[16])
{
    const struct plan_tensor *t = &r->tensors[r->round[rank]][tensor];
    struct hvd_request request = {.op = t->op,
                                  .prescale = t->prescale,
                                  .postscale = 1 / t->prescale,
                                  .dtype = t->dtype,
                                  .reduce = t->reduce,
                                  .root = t->root,
                                  .ndim = 2,
                                  .shape = {rows_of(r, t, rank), t->columns}};

    snprintf(name, 16, "t%d", tensor);
    request.name = hvd_strview_of(name);
    if (rank != t->odd_rank)
        return request;
    if (t->odd_about == 0)
        request.dtype = t->dtype == HVD_INT32 ? HVD_FLOAT32 : HVD_INT32;
    else if (t->odd_about == 1)
        request.shape[1] = t->columns + 1;
    else if (t->op == HVD_BROADCAST)
        request.root = (t->root + 1) % r->options->n_ranks;
    else
        request.reduce = t->reduce == HVD_MIN ? HVD_MAX : HVD_MIN;
    if (t->odd_about == 0 && !value_is_whole(t->dtype)) {
        request.prescale = 1; /* whole numbers are not scaled here */
        request.postscale = 1;
    }
    return request;
}

/* --- The oracle ------------------------------------------------------------------------------- */

static double reduced(const struct run *r, const struct plan_tensor *t, int64_t i)
{
    double result = value_of(r, t, 0, i);
    const bool is_bool = t->dtype == HVD_BOOL;

    for (int rank = 1; rank < r->options->n_ranks; rank++) {
        const double value = value_of(r, t, rank, i);
        if (t->reduce == HVD_MIN || (is_bool && t->reduce == HVD_PRODUCT))
            result = value < result ? value : result;
        else if (t->reduce == HVD_MAX || is_bool)
            result = value > result ? value : result;
        else if (t->reduce == HVD_PRODUCT)
            result *= value;
        else
            result += value;
    }
    if (t->reduce == HVD_AVERAGE)
        result /= r->options->n_ranks;
    return value_is_whole(t->dtype) ? trunc(result) : result;
}

/* Compares the values that begin at element `from` of the whole. */
static void judge_values(struct run *r, int tensor, int rank, int64_t from, int64_t count)
{
    const struct plan_tensor *t = &r->tensors[r->round[rank]][tensor];
    const void *data = r->state[rank * TENSORS_MAX + tensor].output;
    const double slack = t->reduce == HVD_AVERAGE ? value_slack(t->dtype) : 0;

    for (int64_t i = 0; i < count; i++) {
        const double expected =
            t->op == HVD_BROADCAST ? value_of(r, t, t->root, from + i) : reduced(r, t, from + i);
        const double found = value_load(t->dtype, data, i);
        if (!(fabs(found - expected) <= slack))
            blame(r, "round %d: %s t%d (%s, %s) on rank %d: element %lld is %g, not %g",
                  r->round[rank], hvd_op_name((int)t->op), tensor, hvd_dtype_name((int)t->dtype),
                  hvd_reduce_name((int)t->reduce), rank, (long long)i, found, expected);
    }
}

/* Where in the input of rank `from` the rows for rank `to` begin: an allgather sends all to each.
 */
static int64_t first_row(const struct plan_tensor *t, int from, int to)
{
    int64_t row = 0;

    for (int i = 0; t->op == HVD_ALLTOALL && i < to; i++)
        row += split_of(t, from, i);
    return row;
}

static void judge_output(struct run *r, int tensor, int rank, const struct horovod_output *output)
{
    const struct plan_tensor *t = &r->tensors[r->round[rank]][tensor];
    int64_t at = 0;

    for (int from = 0; from < r->options->n_ranks; from++) {
        const int64_t rows = t->op == HVD_ALLTOALL ? split_of(t, from, rank) : rows_of(r, t, from);
        const int64_t begin = first_row(t, from, rank) * t->columns;
        if (output->rows[from] != rows)
            blame(r, "t%d on rank %d: %lld rows of rank %d, not %lld", tensor, rank,
                  (long long)output->rows[from], from, (long long)rows);
        for (int64_t i = 0; i < rows * t->columns && !r->problem[0]; i++, at++)
            if (value_load(t->dtype, output->data, at) != value_of(r, t, from, begin + i))
                blame(r, "%s t%d on rank %d: element %lld of rank %d is wrong",
                      hvd_op_name((int)t->op), tensor, rank, (long long)i, from);
    }
    if (output->bytes != (size_t)at * hvd_dtype_size((int)t->dtype))
        blame(r, "t%d on rank %d: %zu bytes came", tensor, rank, output->bytes);
}

/* How a tensor may end once a rank is dead or dying: also as if nothing had happened. */
static bool may_be_lost(const struct run *r, hvd_status_t st, const char *text)
{
    char name[24];

    snprintf(name, sizeof(name), "ank %d ", r->victim);
    return r->is_killed && st == HVD_ERR_SHUTDOWN && strstr(text, name);
}

static void judge(struct run *r, int tensor, int rank, hvd_status_t st, const char *text)
{
    const struct plan_tensor *t = &r->tensors[r->round[rank]][tensor];
    const hvd_status_t expected = t->is_odd_in_group ? HVD_ERR_MISMATCH : HVD_OK;
    const int64_t share = share_of(r, t, rank);
    int64_t before = 0;

    if (may_be_lost(r, st, text))
        return;
    if (st != expected) {
        blame(r, "round %d: %s t%d on rank %d ended with %s: %s", r->round[rank],
              hvd_op_name((int)t->op), tensor, rank, hvd_status_str(st), text);
    } else if (st == HVD_ERR_MISMATCH && !text[0]) {
        blame(r, "t%d on rank %d: a mismatch without a reason", tensor, rank);
    } else if (st == HVD_OK && t->op == HVD_REDUCESCATTER) {
        for (int other = 0; other < rank; other++)
            before += share_of(r, t, other);
        judge_values(r, tensor, rank, before * t->columns, share * t->columns);
    } else if (st == HVD_OK && !has_outputs_of_library(t->op)) {
        judge_values(r, tensor, rank, 0, t->rows * t->columns);
    }
}

/* --- The run ---------------------------------------------------------------------------------- */

static void fill(struct run *r, int tensor, int rank, const struct hvd_request *request)
{
    struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];
    const struct plan_tensor *t = &r->tensors[r->round[rank]][tensor];
    const int64_t count = request->shape[0] * request->shape[1];
    const size_t bytes = (size_t)count * hvd_dtype_size((int)request->dtype);

    s->input = malloc(bytes + 1);
    assert_non_null(s->input);
    for (int64_t i = 0; i < count; i++)
        value_store(request->dtype, s->input, i, value_of(r, t, rank, i));
    s->output = s->input;
    if (has_outputs_of_library(t->op) || t->is_in_place)
        return;
    s->output = calloc(1, bytes + 1);
    assert_non_null(s->output);
}

static void release(struct submitted *s)
{
    if (s->output != s->input)
        free(s->output);
    free(s->input);
    *s = (struct submitted){0};
}

static struct hvd_submission prepare(struct run *r, int tensor, int rank, char name[16],
                                     int64_t splits[RANKS_MAX])
{
    struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];
    const struct plan_tensor *t = &r->tensors[r->round[rank]][tensor];
    const struct hvd_request request = request_of(r, tensor, rank, name);

    release(s);
    fill(r, tensor, rank, &request);
    for (int to = 0; to < r->options->n_ranks; to++)
        splits[to] = split_of(t, rank, to);
    return (struct hvd_submission){.request = request,
                                   .input = s->input,
                                   .output = has_outputs_of_library(t->op) ? NULL : s->output,
                                   .splits = t->op == HVD_ALLTOALL ? splits : NULL};
}

static void submit_next(struct run *r, int rank)
{
    const struct unit *u = &r->units[r->order[rank][r->n_next[rank]++]];
    struct hvd_submission submissions[3];
    char names[3][16];
    int64_t splits[3][RANKS_MAX];
    int64_t handles[3] = {0};
    struct hvd_err err = {0};
    hvd_status_t st;

    for (int i = 0; i < u->n; i++)
        submissions[i] = prepare(r, u->first + i, rank, names[i], splits[i]);
    if (u->n == 1)
        st = hvd_engine_submit(r->engines[rank], submissions, handles, &err);
    else
        st = hvd_engine_submit_group(r->engines[rank], submissions, (uint32_t)u->n, handles, &err);
    for (int i = 0; i < u->n; i++) {
        struct submitted *s = &r->state[rank * TENSORS_MAX + u->first + i];
        s->handle = handles[i];
        s->is_submitted = true;
        s->is_ended = st != HVD_OK;
        r->n_open[rank] += st == HVD_OK;
    }
    if (st != HVD_OK && !may_be_lost(r, st, err.msg))
        blame(r, "t%d on rank %d: submission failed: %s", u->first, rank, err.msg);
}

static void end_done(struct run *r, int rank)
{
    for (int tensor = 0; tensor < r->n_tensors && r->n_open[rank] > 0; tensor++) {
        struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];
        struct hvd_outcome outcome = {0};
        struct hvd_err err = {0};
        if (!s->is_submitted || s->is_ended || hvd_engine_poll(r->engines[rank], s->handle) != 1)
            continue;
        const hvd_status_t st = hvd_engine_wait(r->engines[rank], s->handle, &outcome, &err);
        s->is_ended = true;
        r->n_open[rank]--;
        r->n_ended++;
        judge(r, tensor, rank, st, err.msg);
        if (st == HVD_OK && has_outputs_of_library(r->tensors[r->round[rank]][tensor].op))
            judge_output(r, tensor, rank, outcome.output);
        hvd_output_destroy(outcome.output);
    }
}

/* Whether the rank has nothing to do any more; begins its next round when the last one has ended.
 */
static bool is_over(struct run *r, int rank)
{
    if (r->is_killed && rank == r->victim)
        return true;
    if (r->n_next[rank] < r->n_units || r->n_open[rank] > 0)
        return false;
    if (r->round[rank] + 1 == r->n_rounds)
        return true;
    r->round[rank]++;
    r->n_next[rank] = 0;
    for (int i = 0; i < r->n_tensors; i++)
        r->state[rank * TENSORS_MAX + i].is_submitted = false;
    make_order(r, rank);
    return false;
}

static void step_rank(struct run *r, int rank)
{
    if (r->is_killed && rank == r->victim)
        return;
    if (r->n_next[rank] < r->n_units && below(r, 3) == 0)
        submit_next(r, rank);
    (void)hvd_engine_step(r->engines[rank]);
    end_done(r, rank);
}

static void drive(struct run *r)
{
    int n_over = 0;

    for (int steps = 0; !r->problem[0] && n_over < r->options->n_ranks; steps++) {
        if (steps > STEPS_MAX) {
            blame(r, "not at its end after %d steps: %d tensors ended", steps, r->n_ended);
            return;
        }
        if (r->victim >= 0 && !r->is_killed && r->n_ended >= r->kill_after) {
            hvd_sim_kill(r->sim, r->victim);
            r->is_killed = true;
        }
        step_rank(r, below(r, r->options->n_ranks));
        n_over = 0;
        for (int rank = 0; rank < r->options->n_ranks; rank++)
            n_over += is_over(r, rank);
    }
}

static void open_world(struct run *r)
{
    static const uint32_t capacities[] = {0, 2, 1024};
    static const int64_t fusions[] = {0, 200, 1 << 20};
    const struct hvd_engine_options options = {.cycle_ns = 200000,
                                               .no_background = true,
                                               .cache_capacity = capacities[below(r, 3)],
                                               .fusion_bytes = fusions[below(r, 3)]};
    const struct hvd_sim_options sim = {.size = r->options->n_ranks,
                                        .seed = r->options->seed,
                                        .max_delay = 1 + (unsigned)below(r, 5)};
    struct hvd_transport *transports[RANKS_MAX];

    assert_int_equal(hvd_sim_create(&sim, &r->sim, NULL), HVD_OK);
    for (int rank = 0; rank < sim.size; rank++)
        assert_int_equal(hvd_sim_join(r->sim, rank, &transports[rank], NULL), HVD_OK);
    for (int rank = 0; rank < sim.size; rank++)
        assert_int_equal(hvd_engine_create(transports[rank], &options, &r->engines[rank], NULL),
                         HVD_OK);
}

static void *shut_down(void *engine)
{
    (void)hvd_engine_shutdown(engine, NULL);
    return NULL;
}

/* Leaving is collective, so every rank does it in a thread of its own. */
static void close_world(struct run *r)
{
    pthread_t threads[RANKS_MAX];

    for (int rank = 0; rank < r->options->n_ranks; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, shut_down, r->engines[rank]), 0);
    for (int rank = 0; rank < r->options->n_ranks; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < r->options->n_ranks; rank++)
        hvd_engine_destroy(r->engines[rank]);
    hvd_sim_destroy(r->sim);
    for (int i = 0; i < r->options->n_ranks * TENSORS_MAX; i++)
        release(&r->state[i]);
}

const char *program_run(const struct program_options *options)
{
    static struct run r; /* too large for some stacks */

    r = (struct run){.options = options, .random = options->seed, .victim = -1};
    make_program(&r);
    for (int rank = 0; rank < options->n_ranks; rank++)
        make_order(&r, rank);
    if (options->may_kill && options->n_ranks > 1) {
        r.victim = below(&r, options->n_ranks);
        r.kill_after = below(&r, r.n_tensors * r.n_rounds * options->n_ranks);
    }
    r.state = calloc((size_t)options->n_ranks * TENSORS_MAX, sizeof(*r.state));
    assert_non_null(r.state);
    open_world(&r);
    drive(&r);
    close_world(&r);
    free(r.state);
    memcpy(last_problem, r.problem, sizeof(last_problem));
    return last_problem[0] ? last_problem : NULL;
}
