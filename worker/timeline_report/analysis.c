/*
 * Computes where the time of a job went. It matches a collective between ranks by its tensor and by
 * how often the rank requested that tensor before. It aligns clocks by the moments of agreement,
 * which are the same on all ranks but for the delay of a message. A rank's offset is the median of
 * its differences to the first rank. Then
 *
 *     asked ──waiting for the last rank──> all have asked ──negotiating──> agreed ──> moving ──>
 * done
 *
 * If only the coordinator has a timeline, its ticks show which rank was last. Each moment of a rank
 * counts for one class, the most productive of those that apply.
 */
#include "worker/timeline_report/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ops(const void *left, const void *right)
{
    const struct hvd_tl_op *a = left;
    const struct hvd_tl_op *b = right;
    int order = compare(a->tensor, b->tensor);

    order = order ? order : compare(a->sequence, b->sequence);
    return order ? order : compare(a->rank, b->rank);
}

static int compare_ints(const void *left, const void *right)
{
    return compare(*(const int64_t *)left, *(const int64_t *)right);
}

static int compare_edges(const void *left, const void *right)
{
    const struct hvd_tl_edge *a = left;
    const struct hvd_tl_edge *b = right;
    int order = compare(a->at_ns, b->at_ns);

    return order ? order : compare(a->step, b->step);
}

static int compare_rows(const void *left, const void *right)
{
    const struct hvd_tl_row *a = left;
    const struct hvd_tl_row *b = right;
    const double x = a->waiting_ns + a->negotiating_ns + a->queued_ns + a->moving_ns;
    const double y = b->waiting_ns + b->negotiating_ns + b->queued_ns + b->moving_ns;

    return x < y ? 1 : x > y ? -1 : compare(a->tensor, b->tensor);
}

/* Counts how many of the ordered ops from the first on are the same collective. */
static size_t group_of(const struct hvd_tl_op *ops, size_t n)
{
    size_t k = 1;

    while (k < n && ops[k].tensor == ops[0].tensor && ops[k].sequence == ops[0].sequence)
        k++;
    return k;
}

/* --- Clocks ----------------------------------------------------------------------------------- */

/* Returns the offset that follows from the start times in the two timelines. */
static int64_t said_offset(const struct hvd_tl_model *m, size_t rank)
{
    const struct hvd_tl_rank *a = &m->ranks[0];
    const struct hvd_tl_rank *b = &m->ranks[rank];

    return a->epoch_us < 0 || b->epoch_us < 0 ? 0 : (b->epoch_us - a->epoch_us) * 1000;
}

/* Returns the offset of one rank; `found` has room for as many numbers as there are ops. */
static int64_t find_offset(const struct hvd_tl_model *m, size_t rank, int64_t *found)
{
    size_t n = 0;

    for (size_t i = 0, k; i < m->n_ops; i += k) {
        const struct hvd_tl_op *ops = &m->ops[i];

        k = group_of(ops, m->n_ops - i);
        for (size_t j = 1; j < k && ops[0].rank == 0; j++)
            if ((size_t)ops[j].rank == rank)
                found[n++] = ops[0].agreed_ns - ops[j].agreed_ns;
    }
    if (n == 0)
        return said_offset(m, rank);
    qsort(found, n, sizeof(*found), compare_ints);
    return found[n / 2];
}

static hvd_status_t find_offsets(const struct hvd_tl_model *m, struct hvd_tl_analysis *a)
{
    int64_t *found = hvd_calloc(m->n_ops + 1, sizeof(*found));

    if (!found)
        return HVD_ERR_NOMEM;
    for (size_t i = 1; i < m->n_ranks; i++)
        a->shares[i].offset_ns = find_offset(m, i, found);
    hvd_free(found);
    return HVD_OK;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* The rank that requested a collective last, and the time of its request by the first rank's clock.
 */
struct last {
    int64_t at_ns;
    int32_t rank; /* index of its timeline; n_ranks: it has none; -1: not known */
};

/* Returns the index of a rank's timeline; n_ranks if it has none. */
static int32_t timeline_of(const struct hvd_tl_model *m, int64_t rank)
{
    for (size_t i = 0; i < m->n_ranks; i++)
        if (m->ranks[i].rank == rank)
            return (int32_t)i;
    return (int32_t)m->n_ranks;
}

static struct last find_last(const struct hvd_tl_model *m, struct hvd_tl_analysis *a,
                             const struct hvd_tl_op *ops, size_t k)
{
    struct last last = {.at_ns = INT64_MIN, .rank = -1};
    int64_t low = INT64_MAX;
    int64_t high = INT64_MIN;

    for (size_t i = 0; i < k; i++) {
        const int64_t offset = a->shares[ops[i].rank].offset_ns;
        const int64_t agreed = ops[i].agreed_ns + offset;

        low = agreed < low ? agreed : low;
        high = agreed > high ? agreed : high;
        if (k > 1 && ops[i].asked_ns + offset > last.at_ns)
            last = (struct last){.at_ns = ops[i].asked_ns + offset, .rank = ops[i].rank};
        if (k == 1 && ops[i].last_tick >= 0 && ops[i].last_tick_ns > ops[i].first_tick_ns)
            last = (struct last){.at_ns = ops[i].last_tick_ns + offset,
                                 .rank = timeline_of(m, ops[i].last_tick)};
    }
    a->n_groups += last.rank >= 0;
    if (k > 1 && high - low > HVD_TL_SAME_MAX_NS) {
        a->n_odd++;
        last.rank = -1;
    }
    return last;
}

static hvd_status_t add_span(struct hvd_tl_rank *rank, struct hvd_tl_edge edge, int64_t to_ns)
{
    hvd_status_t st = HVD_OK;

    if (to_ns <= edge.at_ns)
        return HVD_OK;
    edge.step = 1;
    st = hvd_tl_model_add_edge(rank, edge);
    edge.step = -1;
    edge.at_ns = to_ns;
    return st == HVD_OK ? hvd_tl_model_add_edge(rank, edge) : st;
}

/* Adds one rank's part of a collective: the edges until the agreement, and the sums of its tensor.
 */
static hvd_status_t add_part(struct hvd_tl_model *m, struct hvd_tl_analysis *a,
                             const struct hvd_tl_op *op, struct last last)
{
    struct hvd_tl_row *row = &a->rows[op->tensor];
    int64_t all_ns = last.rank < 0 ? op->asked_ns : last.at_ns - a->shares[op->rank].offset_ns;
    hvd_status_t st;

    all_ns = all_ns < op->asked_ns ? op->asked_ns : all_ns;
    all_ns = all_ns > op->agreed_ns ? op->agreed_ns : all_ns;
    st = add_span(
        &m->ranks[op->rank],
        (struct hvd_tl_edge){.at_ns = op->asked_ns, .blame = last.rank, .class_ = HVD_TL_WAITING},
        all_ns);
    if (st == HVD_OK)
        st = add_span(
            &m->ranks[op->rank],
            (struct hvd_tl_edge){.at_ns = all_ns, .blame = -1, .class_ = HVD_TL_NEGOTIATING},
            op->agreed_ns);
    row->n++;
    row->waiting_ns += (double)(all_ns - op->asked_ns);
    row->negotiating_ns += (double)(op->agreed_ns - all_ns);
    row->queued_ns += (double)(op->moving_ns - op->agreed_ns);
    row->moving_ns += (double)(op->done_ns - op->moving_ns);
    row->n_sized += op->bytes >= 0;
    row->bytes += op->bytes > 0 ? (double)op->bytes : 0;
    return st;
}

static hvd_status_t add_groups(struct hvd_tl_model *m, struct hvd_tl_analysis *a)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0, k; i < m->n_ops && st == HVD_OK; i += k) {
        k = group_of(&m->ops[i], m->n_ops - i);
        const struct last last = find_last(m, a, &m->ops[i], k);

        if (last.rank >= 0)
            a->n_last[last.rank]++;
        for (size_t j = 0; j < k && st == HVD_OK; j++)
            st = add_part(m, a, &m->ops[i + j], last);
    }
    return st;
}

/* Returns when a collective ended, by the first rank's clock. */
static int64_t end_of(const struct hvd_tl_analysis *a, const struct hvd_tl_op *op)
{
    return op->done_ns + a->shares[op->rank].offset_ns;
}

/*
 * Finds the ranks whose last collectives ended first and last, and the time between. Ignores it if
 * both are the same collective: then one of the ranks, or its clock, was only late.
 */
static hvd_status_t find_ends(const struct hvd_tl_model *m, struct hvd_tl_analysis *a)
{
    const struct hvd_tl_op **lasts = hvd_calloc(m->n_ranks + 1, sizeof(struct hvd_tl_op *));
    const struct hvd_tl_op *first = NULL;
    const struct hvd_tl_op *last = NULL;

    if (!lasts)
        return HVD_ERR_NOMEM;
    for (size_t i = 0; i < m->n_ops; i++) {
        const struct hvd_tl_op **known = &lasts[m->ops[i].rank];

        *known = *known && end_of(a, *known) > end_of(a, &m->ops[i]) ? *known : &m->ops[i];
    }
    for (size_t i = 0; i < m->n_ranks; i++) {
        if (!lasts[i])
            continue;
        first = first && end_of(a, first) <= end_of(a, lasts[i]) ? first : lasts[i];
        last = last && end_of(a, last) >= end_of(a, lasts[i]) ? last : lasts[i];
    }
    hvd_free(lasts);
    if (!first || (first->tensor == last->tensor && first->sequence == last->sequence))
        return HVD_OK;
    a->ends_first = (size_t)first->rank;
    a->ends_last = (size_t)last->rank;
    a->ends_apart_ns = end_of(a, last) - end_of(a, first);
    return HVD_OK;
}

/* --- Steps ------------------------------------------------------------------------------------ */

/* An op by the time of its request. */
struct asked {
    int64_t at_ns;
    uint32_t tensor;
};

/* The steps of a rank. A step ends when a tensor repeats. */
struct steps {
    struct hvd_tl_rank *rank;
    struct asked *asked; /* room for all ops */
    size_t n;
    uint32_t *seen_in; /* by tensor: the number of the step, or 0 */
    int64_t *starts;   /* room for all ops; of the first rank */
    size_t n_starts;
};

/* Adds the time in which the program submitted a step's tensors, from one request to another. */
static hvd_status_t add_handing_out(struct steps *s, size_t from, size_t to)
{
    const struct hvd_tl_edge edge = {
        .at_ns = s->asked[from].at_ns, .blame = -1, .class_ = HVD_TL_HANDING_OUT};

    return add_span(s->rank, edge, s->asked[to].at_ns);
}

/* Divides the requests of a rank, in the order of time, into steps. */
static hvd_status_t cut_steps(struct steps *s)
{
    hvd_status_t st = HVD_OK;
    size_t first = 0;

    qsort(s->asked, s->n, sizeof(*s->asked), compare_ints);
    s->n_starts = 0;
    for (size_t i = 0; i < s->n && st == HVD_OK; i++) {
        uint32_t *seen = &s->seen_in[s->asked[i].tensor];

        if (i == 0 || *seen == s->n_starts) {
            if (i > 0)
                st = add_handing_out(s, first, i - 1);
            s->starts[s->n_starts++] = s->asked[i].at_ns;
            first = i;
        }
        *seen = (uint32_t)s->n_starts;
    }
    return st == HVD_OK && s->n > 0 ? add_handing_out(s, first, s->n - 1) : st;
}

/* Chooses the step of median length. */
static void choose_step(struct hvd_tl_analysis *a, const struct steps *s, int64_t *lengths)
{
    const size_t n = s->n_starts > 0 ? s->n_starts - 1 : 0;

    a->n_steps = (int64_t)s->n_starts;
    for (size_t i = 0; i < n; i++)
        lengths[i] = s->starts[i + 1] - s->starts[i];
    qsort(lengths, n, sizeof(*lengths), compare_ints);
    for (size_t i = n; i-- > 0;)
        if (s->starts[i + 1] - s->starts[i] == lengths[n / 2]) {
            a->step_from_ns = s->starts[i];
            a->step_to_ns = s->starts[i + 1];
            return;
        }
}

static hvd_status_t find_steps(struct hvd_tl_model *m, struct hvd_tl_analysis *a)
{
    struct steps s = {.asked = hvd_calloc(m->n_ops + 1, sizeof(*s.asked)),
                      .seen_in = hvd_calloc(m->n_tensors + 1, sizeof(*s.seen_in)),
                      .starts = hvd_calloc(m->n_ops + 1, sizeof(*s.starts))};
    int64_t *lengths = hvd_calloc(m->n_ops + 1, sizeof(*lengths));
    hvd_status_t st = s.asked && s.seen_in && s.starts && lengths ? HVD_OK : HVD_ERR_NOMEM;

    for (size_t i = 0; i < m->n_ranks && st == HVD_OK; i++) {
        s.rank = &m->ranks[i];
        s.n = 0;
        memset(s.seen_in, 0, m->n_tensors * sizeof(*s.seen_in));
        for (size_t k = 0; k < m->n_ops; k++)
            if ((size_t)m->ops[k].rank == i)
                s.asked[s.n++] = (struct asked){m->ops[k].asked_ns, m->ops[k].tensor};
        st = cut_steps(&s);
        if (i == 0)
            choose_step(a, &s, lengths);
    }
    hvd_free(s.asked);
    hvd_free(s.seen_in);
    hvd_free(s.starts);
    hvd_free(lengths);
    return st;
}

/* --- Sums ------------------------------------------------------------------------------------- */

/* The classes that apply at a moment of a rank. */
struct sweep {
    struct hvd_tl_analysis *a;
    size_t rank;
    int64_t n_open[HVD_TL_ALL];
    int64_t *n_blamed; /* by timeline; the last entry is for ranks without one */
    int64_t at_ns;
};

static uint8_t class_now(const struct sweep *s)
{
    for (int c = 0; c < HVD_TL_IDLE; c++)
        if (s->n_open[c] > 0)
            return (uint8_t)c;
    return HVD_TL_IDLE;
}

/* Adds the part of a stretch that lies within the typical step. */
static hvd_status_t add_stretch(struct sweep *s, struct hvd_tl_stretch stretch)
{
    struct hvd_tl_share *share = &s->a->shares[s->rank];
    struct hvd_tl_stretch *last = share->n_step ? &share->step[share->n_step - 1] : NULL;

    stretch.from_ns += share->offset_ns;
    stretch.to_ns += share->offset_ns;
    if (stretch.from_ns < s->a->step_from_ns)
        stretch.from_ns = s->a->step_from_ns;
    if (stretch.to_ns > s->a->step_to_ns)
        stretch.to_ns = s->a->step_to_ns;
    if (stretch.to_ns <= stretch.from_ns)
        return HVD_OK;
    if (last && last->to_ns == stretch.from_ns && last->class_ == stretch.class_ &&
        last->is_backward == stretch.is_backward) {
        last->to_ns = stretch.to_ns;
        return HVD_OK;
    }
    if (!share->step || share->n_step == share->_step_capacity) {
        const size_t capacity = share->_step_capacity ? 2 * share->_step_capacity : 64;
        struct hvd_tl_stretch *more = hvd_realloc(share->step, capacity, sizeof(*more));

        if (!more)
            return HVD_ERR_NOMEM;
        share->step = more;
        share->_step_capacity = capacity;
    }
    share->step[share->n_step++] = stretch;
    return HVD_OK;
}

/* Adds the time until to_ns to the sums of the classes that apply. */
static hvd_status_t account(struct sweep *s, int64_t to_ns)
{
    struct hvd_tl_analysis *a = s->a;
    struct hvd_tl_share *share = &a->shares[s->rank];
    const uint8_t class_ = class_now(s);
    const int64_t ns = to_ns - s->at_ns;
    const bool is_beside = s->n_open[a->has_backward ? HVD_TL_BACKWARD : HVD_TL_HANDING_OUT] > 0;
    const int64_t from_ns = s->at_ns;
    size_t most = 0;

    if (ns <= 0)
        return HVD_OK;
    share->ns[class_] += ns;
    if (class_ == HVD_TL_MOVING && is_beside)
        share->beside_ns += ns;
    if (class_ == HVD_TL_WAITING) {
        for (size_t i = 1; i <= a->n_ranks; i++)
            most = s->n_blamed[i] > s->n_blamed[most] ? i : most;
        a->waited_ns[s->rank * (a->n_ranks + 1) + most] += (double)ns;
    }
    s->at_ns = to_ns;
    return add_stretch(s, (struct hvd_tl_stretch){from_ns, to_ns, class_, is_beside});
}

static hvd_status_t sweep_rank(struct hvd_tl_model *m, struct sweep *s)
{
    struct hvd_tl_rank *rank = &m->ranks[s->rank];
    hvd_status_t st = HVD_OK;

    memset(s->n_open, 0, sizeof(s->n_open));
    memset(s->n_blamed, 0, (m->n_ranks + 1) * sizeof(*s->n_blamed));
    s->at_ns = rank->first_ns;
    if (rank->n_edges > 0)
        qsort(rank->edges, rank->n_edges, sizeof(*rank->edges), compare_edges);
    for (size_t i = 0; i < rank->n_edges && st == HVD_OK; i++) {
        const struct hvd_tl_edge *edge = &rank->edges[i];

        st = account(s, edge->at_ns);
        s->n_open[edge->class_] += edge->step;
        if (edge->class_ == HVD_TL_WAITING && edge->blame >= 0)
            s->n_blamed[edge->blame] += edge->step;
    }
    return st == HVD_OK ? account(s, rank->last_ns) : st;
}

static hvd_status_t sweep_all(struct hvd_tl_model *m, struct hvd_tl_analysis *a)
{
    struct sweep s = {.a = a, .n_blamed = hvd_calloc(m->n_ranks + 1, sizeof(int64_t))};
    hvd_status_t st = s.n_blamed ? HVD_OK : HVD_ERR_NOMEM;

    for (s.rank = 0; s.rank < m->n_ranks && st == HVD_OK; s.rank++)
        st = sweep_rank(m, &s);
    hvd_free(s.n_blamed);
    return st;
}

hvd_status_t hvd_tl_analysis_make(struct hvd_tl_model *model, struct hvd_tl_analysis *out)
{
    const size_t n = model->n_ranks;
    struct hvd_tl_analysis a = {.n_ranks = n,
                                .shares = hvd_calloc(n + 1, sizeof(*a.shares)),
                                .waited_ns = hvd_calloc((n + 1) * (n + 1), sizeof(*a.waited_ns)),
                                .n_last = hvd_calloc(n + 1, sizeof(*a.n_last)),
                                .rows = hvd_calloc(model->n_tensors + 1, sizeof(*a.rows)),
                                .n_rows = model->n_tensors};
    hvd_status_t st = a.shares && a.waited_ns && a.n_last && a.rows ? HVD_OK : HVD_ERR_NOMEM;

    if (st == HVD_OK)
        st = hvd_tl_model_sort(model);
    if (model->n_ops > 0)
        qsort(model->ops, model->n_ops, sizeof(*model->ops), compare_ops);
    for (size_t i = 0; i < a.n_rows && st == HVD_OK; i++)
        a.rows[i].tensor = (uint32_t)i;
    for (size_t i = 0; i < n; i++)
        a.has_backward = a.has_backward || model->ranks[i].has_backward;
    if (st == HVD_OK)
        st = find_offsets(model, &a);
    if (st == HVD_OK)
        st = add_groups(model, &a);
    if (st == HVD_OK)
        st = find_ends(model, &a);
    if (st == HVD_OK)
        st = find_steps(model, &a);
    if (st == HVD_OK)
        st = sweep_all(model, &a);
    if (st < 0) {
        hvd_tl_analysis_fini(&a);
        return st;
    }
    qsort(a.rows, a.n_rows, sizeof(*a.rows), compare_rows);
    while (a.n_rows > 0 && a.rows[a.n_rows - 1].n == 0)
        a.n_rows--;
    *out = a;
    return HVD_OK;
}

void hvd_tl_analysis_fini(struct hvd_tl_analysis *analysis)
{
    for (size_t i = 0; i < analysis->n_ranks && analysis->shares; i++)
        hvd_free(analysis->shares[i].step);
    hvd_free(analysis->shares);
    hvd_free(analysis->waited_ns);
    hvd_free(analysis->n_last);
    hvd_free(analysis->rows);
    *analysis = (struct hvd_tl_analysis){0};
}
