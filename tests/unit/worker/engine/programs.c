/*
 * The generator, the run and the oracle. Values are small whole numbers, so that sums are exact in
 * every type and the oracle may compute in doubles; an average is compared within the type's
 * precision, and the ranks among each other to the bit.
 */
#include "tests/unit/worker/engine/programs.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support.h"
#include "worker/transport/sim.h"

#define TENSORS_MAX 48
#define RANKS_MAX 64
#define ROWS_MAX 6
#define COLUMNS_MAX 5
#define WINDOW 8 /* a rank is at most so many tensors ahead of the order that all share */
#define STEPS_MAX 200000
#define TEXT_MAX 512

/* A tensor as the program has it: what every rank asks for, and who asks for something else. */
struct plan_tensor {
    enum hvd_op op;
    enum hvd_dtype dtype;
    enum hvd_reduce reduce;
    int root;
    int64_t columns;
    int64_t rows;  /* allgather: of rank r it is (rows + r) % (ROWS_MAX + 1) */
    int odd_rank;  /* disagrees; -1: nobody */
    int odd_about; /* 0 type, 1 shape, 2 root or reduction */
    bool is_in_place;
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
    struct plan_tensor tensors[TENSORS_MAX];
    struct submitted *state; /* [rank * TENSORS_MAX + tensor] */
    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    int order[RANKS_MAX][TENSORS_MAX];
    int n_next[RANKS_MAX];
    int n_ended;
    int victim; /* -1: nobody dies */
    int kill_after;
    bool is_killed;
    char problem[TEXT_MAX];
};

static char last_problem[TEXT_MAX];

static const enum hvd_dtype dtypes[] = {
    HVD_UINT8, HVD_INT32, HVD_INT64, HVD_FLOAT32, HVD_FLOAT64,
};
#define N_DTYPES ((int)(sizeof(dtypes) / sizeof(dtypes[0])))

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

/* --- The program ------------------------------------------------------------------------------ */

static void make_tensor(struct run *r, struct plan_tensor *t)
{
    static const enum hvd_op ops[] = {HVD_ALLREDUCE, HVD_ALLREDUCE, HVD_ALLREDUCE, HVD_ALLGATHER,
                                      HVD_BROADCAST};
    static const enum hvd_reduce reductions[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX};

    *t = (struct plan_tensor){
        .op = ops[below(r, 5)],
        .dtype = dtypes[below(r, N_DTYPES)],
        .reduce = HVD_SUM,
        .columns = below(r, COLUMNS_MAX + 1),
        .rows = below(r, ROWS_MAX + 1),
        .odd_rank = -1,
    };
    if (t->op == HVD_ALLREDUCE) {
        t->reduce = reductions[below(r, 4)];
        t->is_in_place = below(r, 2);
    }
    if (t->op == HVD_BROADCAST)
        t->root = below(r, r->options->n_ranks);
    if (r->options->n_ranks > 1 && below(r, 12) == 0) {
        t->odd_rank = below(r, r->options->n_ranks);
        t->odd_about = below(r, t->op == HVD_ALLGATHER ? 2 : 3);
    }
}

/* The shared order, with neighbours exchanged within windows. */
static void make_orders(struct run *r)
{
    for (int rank = 0; rank < r->options->n_ranks; rank++) {
        int *order = r->order[rank];
        for (int i = 0; i < r->n_tensors; i++)
            order[i] = i;
        for (int begin = 0; begin < r->n_tensors; begin += WINDOW) {
            const int n = r->n_tensors - begin < WINDOW ? r->n_tensors - begin : WINDOW;
            for (int i = n - 1; i > 0; i--) {
                const int j = below(r, i + 1);
                const int swap = order[begin + i];
                order[begin + i] = order[begin + j];
                order[begin + j] = swap;
            }
        }
    }
}

static int64_t rows_of(const struct plan_tensor *t, int rank)
{
    return t->op == HVD_ALLGATHER ? (t->rows + rank) % (ROWS_MAX + 1) : t->rows;
}

static double value_of(int tensor, int rank, int64_t i)
{
    return (double)((tensor * 7 + rank * 3 + (int)i * 5) % 4);
}

static struct hvd_request request_of(const struct run *r, int tensor, int rank, char name[16])
{
    const struct plan_tensor *t = &r->tensors[tensor];
    struct hvd_request request = {.op = t->op,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .dtype = t->dtype,
                                  .reduce = t->reduce,
                                  .root = t->root,
                                  .ndim = 2,
                                  .shape = {rows_of(t, rank), t->columns}};

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
    return request;
}

/* --- Values in every type -----------------------------------------------------------------------
 */

static void store(enum hvd_dtype dtype, void *data, int64_t i, double value)
{
    switch ((int)dtype) {
    case HVD_UINT8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case HVD_INT32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case HVD_INT64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case HVD_FLOAT32:
        ((float *)data)[i] = (float)value;
        break;
    default:
        ((double *)data)[i] = value;
        break;
    }
}

static double load(enum hvd_dtype dtype, const void *data, int64_t i)
{
    switch ((int)dtype) {
    case HVD_UINT8:
        return ((const uint8_t *)data)[i];
    case HVD_INT32:
        return ((const int32_t *)data)[i];
    case HVD_INT64:
        return (double)((const int64_t *)data)[i];
    case HVD_FLOAT32:
        return ((const float *)data)[i];
    default:
        return ((const double *)data)[i];
    }
}

static bool is_integer(enum hvd_dtype dtype)
{
    return dtype != HVD_FLOAT32 && dtype != HVD_FLOAT64;
}

/* --- The oracle ---------------------------------------------------------------------------------
 */

static double reduced(const struct run *r, int tensor, int64_t i)
{
    const struct plan_tensor *t = &r->tensors[tensor];
    double result = value_of(tensor, 0, i);

    for (int rank = 1; rank < r->options->n_ranks; rank++) {
        const double value = value_of(tensor, rank, i);
        if (t->reduce == HVD_MIN)
            result = value < result ? value : result;
        else if (t->reduce == HVD_MAX)
            result = value > result ? value : result;
        else
            result += value;
    }
    if (t->reduce == HVD_AVERAGE)
        result /= r->options->n_ranks;
    return is_integer(t->dtype) ? trunc(result) : result;
}

static void judge_values(struct run *r, int tensor, int rank, const void *data, int64_t count)
{
    const struct plan_tensor *t = &r->tensors[tensor];

    for (int64_t i = 0; i < count; i++) {
        const double expected =
            t->op == HVD_BROADCAST ? value_of(tensor, t->root, i) : reduced(r, tensor, i);
        const double found = load(t->dtype, data, i);
        const double slack = t->reduce == HVD_AVERAGE && !is_integer(t->dtype) ? 1e-6 : 0;
        if (fabs(found - expected) > slack)
            blame(r, "t%d on rank %d: element %lld is %g, not %g", tensor, rank, (long long)i,
                  found, expected);
    }
}

static void judge_gather(struct run *r, int tensor, int rank, const struct horovod_output *output)
{
    const struct plan_tensor *t = &r->tensors[tensor];
    int64_t at = 0;

    for (int from = 0; from < r->options->n_ranks; from++) {
        if (output->rows[from] != rows_of(t, from))
            blame(r, "t%d on rank %d: %lld rows of rank %d", tensor, rank,
                  (long long)output->rows[from], from);
        for (int64_t i = 0; i < rows_of(t, from) * t->columns && !r->problem[0]; i++, at++)
            if (load(t->dtype, output->data, at) != value_of(tensor, from, i))
                blame(r, "t%d on rank %d: element %lld of rank %d is wrong", tensor, rank,
                      (long long)i, from);
    }
    if (output->bytes != (size_t)at * hvd_dtype_size((int)t->dtype))
        blame(r, "t%d on rank %d: %zu bytes gathered", tensor, rank, output->bytes);
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
    const struct plan_tensor *t = &r->tensors[tensor];
    const hvd_status_t expected = t->odd_rank < 0 ? HVD_OK : HVD_ERR_MISMATCH;
    const struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];

    if (may_be_lost(r, st, text))
        return;
    if (st != expected)
        blame(r, "t%d on rank %d ended with %s: %s", tensor, rank, hvd_status_str(st), text);
    else if (st == HVD_ERR_MISMATCH && !strstr(text, "ismatch"))
        blame(r, "t%d on rank %d: no mismatch in '%s'", tensor, rank, text);
    else if (st == HVD_OK && t->op != HVD_ALLGATHER)
        judge_values(r, tensor, rank, s->output, t->rows * t->columns);
}

/* --- The run ------------------------------------------------------------------------------------
 */

static void fill(struct run *r, int tensor, int rank, const struct hvd_request *request)
{
    struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];
    const struct plan_tensor *t = &r->tensors[tensor];
    const int64_t count = request->shape[0] * request->shape[1];
    const size_t bytes = (size_t)count * hvd_dtype_size((int)request->dtype);

    s->input = malloc(bytes + 1);
    assert_non_null(s->input);
    for (int64_t i = 0; i < count; i++)
        store(request->dtype, s->input, i, value_of(tensor, rank, i));
    s->output = s->input;
    if (t->op == HVD_ALLGATHER || t->is_in_place)
        return;
    s->output = calloc(1, bytes + 1);
    assert_non_null(s->output);
}

static void submit_next(struct run *r, int rank)
{
    const int tensor = r->order[rank][r->n_next[rank]++];
    struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];
    char name[16];
    struct hvd_err err = {0};
    struct hvd_request request = request_of(r, tensor, rank, name);

    fill(r, tensor, rank, &request);
    const struct hvd_submission submission = {
        .request = request,
        .input = s->input,
        .output = r->tensors[tensor].op == HVD_ALLGATHER ? NULL : s->output};
    const hvd_status_t st = hvd_engine_submit(r->engines[rank], &submission, &s->handle, &err);
    s->is_submitted = st == HVD_OK;
    if (st == HVD_OK)
        return;
    s->is_ended = true;
    r->n_ended++;
    if (!may_be_lost(r, st, err.msg))
        blame(r, "t%d on rank %d: submission failed: %s", tensor, rank, err.msg);
}

static void end_done(struct run *r, int rank)
{
    for (int i = 0; i < r->n_next[rank]; i++) {
        const int tensor = r->order[rank][i];
        struct submitted *s = &r->state[rank * TENSORS_MAX + tensor];
        struct hvd_outcome outcome = {0};
        struct hvd_err err = {0};
        if (s->is_ended || hvd_engine_poll(r->engines[rank], s->handle) != 1)
            continue;
        const hvd_status_t st = hvd_engine_wait(r->engines[rank], s->handle, &outcome, &err);
        s->is_ended = true;
        r->n_ended++;
        judge(r, tensor, rank, st, err.msg);
        if (st == HVD_OK && r->tensors[tensor].op == HVD_ALLGATHER)
            judge_gather(r, tensor, rank, outcome.output);
        hvd_output_destroy(outcome.output);
    }
}

static bool is_dead(const struct run *r, int rank)
{
    return r->is_killed && rank == r->victim;
}

static bool is_over(const struct run *r)
{
    for (int rank = 0; rank < r->options->n_ranks; rank++) {
        if (is_dead(r, rank))
            continue;
        if (r->n_next[rank] < r->n_tensors)
            return false;
        for (int tensor = 0; tensor < r->n_tensors; tensor++)
            if (!r->state[rank * TENSORS_MAX + tensor].is_ended)
                return false;
    }
    return true;
}

static void drive(struct run *r)
{
    int steps = 0;

    while (!r->problem[0] && !is_over(r)) {
        const int rank = below(r, r->options->n_ranks);
        if (++steps > STEPS_MAX) {
            blame(r, "not at its end after %d steps: %d tensors ended", steps, r->n_ended);
            return;
        }
        if (r->victim >= 0 && !r->is_killed && r->n_ended >= r->kill_after) {
            hvd_sim_kill(r->sim, r->victim);
            r->is_killed = true;
        }
        if (is_dead(r, rank))
            continue;
        if (r->n_next[rank] < r->n_tensors && below(r, 3) == 0)
            submit_next(r, rank);
        (void)hvd_engine_step(r->engines[rank]);
        end_done(r, rank);
    }
}

static void open_world(struct run *r)
{
    static const struct hvd_engine_options options = {
        .cycle_ns = 200000, .no_background = true, .cache_capacity = 1024, .fusion_bytes = 200};
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
    for (int i = 0; i < r->options->n_ranks * TENSORS_MAX; i++) {
        if (r->state[i].output != r->state[i].input)
            free(r->state[i].output);
        free(r->state[i].input);
    }
}

const char *program_run(const struct program_options *options)
{
    struct run r = {.options = options, .random = options->seed, .victim = -1};

    r.n_tensors = 1 + below(&r, options->n_ranks > 8 ? 8 : TENSORS_MAX);
    for (int i = 0; i < r.n_tensors; i++)
        make_tensor(&r, &r.tensors[i]);
    make_orders(&r);
    if (options->may_kill && options->n_ranks > 1) {
        r.victim = below(&r, options->n_ranks);
        r.kill_after = below(&r, r.n_tensors * options->n_ranks);
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
