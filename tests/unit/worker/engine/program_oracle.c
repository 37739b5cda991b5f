/*
 * The oracle: what every tensor must be, computed one rank after the other in doubles. Values are
 * small whole numbers, so that sums are exact in every type; a quotient is compared within the
 * type's precision. "Rough" sums are not exact: they must be the same bits on every rank and
 * those that an addition in rank order gives.
 */
#include "tests/unit/worker/engine/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"

const struct program_tensor *program_tensor_of(const struct program_run *r, int round, int tensor)
{
    return &r->tensors[round][tensor];
}

int program_place(const struct program_run *r, const struct program_tensor *t, int rank)
{
    const struct program_set *set = &r->sets[t->set];

    for (int i = 0; i < set->n; i++)
        if (set->ranks[i] == rank)
            return i;
    return -1;
}

static int size_of(const struct program_run *r, const struct program_tensor *t)
{
    return r->sets[t->set].n;
}

int64_t program_split(const struct program_tensor *t, int from, int to)
{
    return (t->rows + 2 * from + to) % 3;
}

int64_t program_rows(const struct program_run *r, const struct program_tensor *t, int place)
{
    int64_t rows = 0;

    if (t->op == HVD_ALLGATHER)
        return (t->rows + place) % (ROWS_MAX + 1);
    if (t->op != HVD_ALLTOALL)
        return t->rows;
    for (int to = 0; to < size_of(r, t); to++)
        rows += program_split(t, place, to);
    return rows;
}

/* The rows of a reducescatter that come to a rank: the first ranks get one more. */
static int64_t share_of(const struct program_run *r, const struct program_tensor *t, int place)
{
    return t->rows / size_of(r, t) + (place < t->rows % size_of(r, t));
}

/* Small enough for a sum over all ranks to be exact in every type. */
static int value_of(const struct program_run *r, const struct program_tensor *t, int place,
                    int64_t i)
{
    const int range = t->dtype == HVD_BOOL || r->options->n_ranks > 8 ? 2 : 4;

    if (t->reduce == HVD_PRODUCT && t->dtype != HVD_BOOL)
        return place == (int)(i % size_of(r, t)) ? 1 + (int)(i % 3) : 1;
    return ((int)t->columns * 7 + place * 3 + (int)i * 5) % range;
}

/* Of magnitudes so far apart that another order of addition gives other bits. */
static double rough_value(int place, int64_t i)
{
    static const double magnitudes[] = {1e8, 1.1, -1e8, 0.3, 12345.678};

    return magnitudes[(place + (int)i) % 5] * (1 + 0.01 * place);
}

void program_fill(const struct program_run *r, const struct program_tensor *t, int place,
                  enum hvd_dtype dtype, void *data, int64_t count)
{
    const bool is_rough = t->is_rough && dtype == t->dtype;

    for (int64_t i = 0; i < count; i++) {
        if (is_rough && dtype == HVD_FLOAT32)
            ((float *)data)[i] = (float)rough_value(place, i);
        else if (is_rough)
            ((double *)data)[i] = rough_value(place, i);
        else
            reference_set(dtype, data, i, value_of(r, t, place, i));
    }
}

/* The sum in rank order, rounded after each step as the type does. Who is absent gives a zero. */
static double rough_sum(const struct program_run *r, const struct program_tensor *t, int64_t i)
{
    double sum = 0;
    float single = 0;

    for (int place = 0; place < size_of(r, t); place++) {
        const double value = t->absent >> place & 1 ? 0 : rough_value(place, i);
        sum = place == 0 ? value : sum + value;
        single = place == 0 ? (float)value : single + (float)value;
    }
    return t->dtype == HVD_FLOAT32 ? (double)single : sum;
}

static double reduced(const struct program_run *r, const struct program_tensor *t, int64_t i)
{
    const bool is_bool = t->dtype == HVD_BOOL;
    double result = 0;

    for (int place = 0; place < size_of(r, t); place++) {
        const double value = t->absent >> place & 1 ? 0 : value_of(r, t, place, i);
        if (place == 0)
            result = value;
        else if (t->reduce == HVD_MIN || (is_bool && t->reduce == HVD_PRODUCT))
            result = value < result ? value : result;
        else if (t->reduce == HVD_MAX || is_bool)
            result = value > result ? value : result;
        else if (t->reduce == HVD_PRODUCT)
            result *= value;
        else
            result += value;
    }
    if (t->reduce == HVD_AVERAGE)
        result /= size_of(r, t);
    return hvd_dtype_is_real(t->dtype) ? result : trunc(result);
}

static double expected_value(const struct program_run *r, const struct program_tensor *t, int64_t i)
{
    if (t->op == HVD_BROADCAST)
        return value_of(r, t, t->root, i);
    return t->is_rough ? rough_sum(r, t, i) : reduced(r, t, i);
}

/* How far a quotient of small numbers may be off in the type. */
static double slack_of(enum hvd_dtype dtype)
{
    if (!hvd_dtype_is_real(dtype))
        return 0;
    return dtype == HVD_BFLOAT16 ? 0.02 : dtype == HVD_FLOAT16 ? 0.003 : 1e-6;
}

/* Compares the values that begin at element `from` of the whole. */
static void judge_values(struct program_run *r, const struct program_actor *a, int tensor,
                         int64_t from, int64_t count)
{
    const struct program_tensor *t = program_tensor_of(r, a->round, tensor);
    const void *data = r->state[a->rank * TENSORS_MAX + tensor].output;
    const double slack = t->reduce == HVD_AVERAGE ? slack_of(t->dtype) : 0;

    for (int64_t i = 0; i < count; i++) {
        const double expected = expected_value(r, t, from + i);
        const double found = reference_get(t->dtype, data, i);
        if (!(fabs(found - expected) <= slack))
            program_blame(r,
                          "round %d: %s t%d (%s, %s, set %d) on rank %d: element %lld is %.17g, "
                          "not %.17g%s",
                          a->round, hvd_op_name((int)t->op), tensor, hvd_dtype_name((int)t->dtype),
                          hvd_reduce_name((int)t->reduce), t->set, a->rank, (long long)i, found,
                          expected, t->is_rough ? ": not added in rank order" : "");
    }
}

/* Where in the input of a rank the rows for another begin: an allgather sends all to each. */
static int64_t first_row(const struct program_tensor *t, int from, int to)
{
    int64_t row = 0;

    for (int i = 0; t->op == HVD_ALLTOALL && i < to; i++)
        row += program_split(t, from, i);
    return row;
}

static void judge_output(struct program_run *r, const struct program_actor *a, int tensor,
                         const struct horovod_output *output)
{
    const struct program_tensor *t = program_tensor_of(r, a->round, tensor);
    const int place = program_place(r, t, a->rank);
    int64_t at = 0;

    for (int from = 0; from < size_of(r, t); from++) {
        const int64_t rows =
            t->op == HVD_ALLTOALL ? program_split(t, from, place) : program_rows(r, t, from);
        const int64_t begin = first_row(t, from, place) * t->columns;
        if (output->rows[from] != rows)
            program_blame(r, "t%d on rank %d: %lld rows of rank %d, not %lld", tensor, a->rank,
                          (long long)output->rows[from], from, (long long)rows);
        for (int64_t i = 0; i < rows * t->columns && !r->problem[0]; i++, at++)
            if (reference_get(t->dtype, output->data, at) != value_of(r, t, from, begin + i))
                program_blame(r, "%s t%d on rank %d: element %lld of rank %d is wrong",
                              hvd_op_name((int)t->op), tensor, a->rank, (long long)i, from);
    }
    if (output->bytes != (size_t)at * hvd_dtype_size((int)t->dtype))
        program_blame(r, "t%d on rank %d: %zu bytes came", tensor, a->rank, output->bytes);
}

bool program_is_lost(struct program_run *r)
{
    if (r->die_at > 0 && hvd_sim_events(r->sim) >= r->die_at)
        r->is_lost = true;
    return r->is_lost;
}

bool program_may_fail(struct program_run *r, int rank, hvd_status_t st, const char *text)
{
    char name[24];

    if (!program_is_lost(r))
        return false;
    if (rank == r->victim)
        return st == HVD_ERR_SHUTDOWN || !r->leaves;
    /* Who leaves is followed by those that have nothing to do: any of them may be heard first. */
    for (int who = 0; who < r->options->n_ranks; who++) {
        snprintf(name, sizeof(name), "ank %d ", who);
        if ((who == r->victim || (r->leaves && r->is_down[who])) && strstr(text, name))
            return st == HVD_ERR_SHUTDOWN;
    }
    return false;
}

void program_judge(struct program_run *r, const struct program_actor *a, int tensor,
                   hvd_status_t st, const char *text, const struct horovod_output *output)
{
    const struct program_tensor *t = program_tensor_of(r, a->round, tensor);
    const hvd_status_t expected = t->is_odd_in_group ? HVD_ERR_MISMATCH : HVD_OK;
    const int place = program_place(r, t, a->rank);
    int64_t before = 0;

    if (st != HVD_OK && program_may_fail(r, a->rank, st, text))
        return;
    if (st != expected) {
        program_blame(r, "round %d: %s t%d on rank %d ended with %s: %s", a->round,
                      hvd_op_name((int)t->op), tensor, a->rank, hvd_status_str(st), text);
    } else if (st == HVD_ERR_MISMATCH && !text[0]) {
        program_blame(r, "t%d on rank %d: a mismatch without a reason", tensor, a->rank);
    } else if (st == HVD_OK && output) {
        judge_output(r, a, tensor, output);
    } else if (st == HVD_OK && t->op == HVD_REDUCESCATTER) {
        for (int other = 0; other < place; other++)
            before += share_of(r, t, other);
        judge_values(r, a, tensor, before * t->columns, share_of(r, t, place) * t->columns);
    } else if (st == HVD_OK) {
        judge_values(r, a, tensor, 0, t->rows * t->columns);
    }
}
