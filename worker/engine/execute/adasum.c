/*
 * Adasum of a process set of 2^k ranks: vector halving, distance doubling. Runs in the progress
 * owner.
 *
 * After level l every group of 2^l neighbours has the sum of its members, divided into stretches,
 * one on each member. On the next level a rank and its partner, 2^l away, have the same stretch of
 * two sums. The lower rank keeps the first half, the other the second:
 *
 *     exchange   an alltoall in which only partners send, in parts of at most a chunk
 *     dots       an allgather of the contributions of each rank's half to the dots of each tensor;
 *                the ranks of both groups add them in rank order and get the same coefficients
 *     combine    here, without a transfer
 *
 * At the end every rank has 1 / 2^k of the result, and an allgather distributes it. The bits of the
 * result do not depend on the transport or on timing. Each tensor has its own coefficients, also in
 * a fused operation. The memory is kept for the next fused operation; a single tensor uses its
 * output as the work area.
 */

#include "worker/engine/execute/adasum.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/mover.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/staging.h"
#include "worker/reduce/adasum.h"
#include "worker/reduce/reduce.h"

#define DOTS 3

enum phase {
    EXCHANGE,
    GATHER_DOTS,
    GATHER_RESULT,
};

/* Elements [at, at + len) of the fused operation. */
struct stretch {
    int64_t at;
    int64_t len;
};

/* Memory that grows. */
struct room {
    void *data; /* owned */
    size_t bytes;
};

/* The memory, sized for the largest fused operation so far, and the progress of the present one. */
struct hvd_adasum {
    struct room mine;
    struct room theirs;
    struct room dots; /* doubles: this rank's dots of each tensor, then those of all ranks */
    int64_t *counts;  /* sent to each rank, received from each, gathered from each; owned */

    enum phase phase;
    int level;
    char *work; /* the vector; only the stretch is valid */
    struct stretch stretch;
    struct stretch away; /* the half that the partner receives */
    int64_t done;        /* exchanged elements of the halves */
    int64_t chunk;       /* maximum number of elements in one exchange */
};

void hvd_adasum_destroy(struct hvd_adasum *a)
{
    if (!a)
        return;
    hvd_free(a->mine.data);
    hvd_free(a->theirs.data);
    hvd_free(a->dots.data);
    hvd_free(a->counts);
    hvd_free(a);
}

/* --- Arithmetic of the halves ----------------------------------------------------------------- */

/* Returns the half of a stretch that a rank keeps on a level. */
static struct stretch keep(struct stretch s, int rank, int level)
{
    const int64_t first = s.len - s.len / 2;

    if ((rank >> level & 1) == 0)
        return (struct stretch){s.at, first};
    return (struct stretch){s.at + first, s.len - first};
}

/* Returns the stretch of the result that a rank has. */
static struct stretch share(int64_t count, int rank, int size)
{
    struct stretch s = {0, count};

    for (int level = 0; 1 << level < size; level++)
        s = keep(s, rank, level);
    return s;
}

/* Returns the elements of the longest half on a level, which is rank 0's. */
static int64_t longest(int64_t count, int level)
{
    const int64_t groups = (int64_t)2 << level;

    return count / groups + (count % groups != 0);
}

static int64_t at_most(int64_t n, int64_t max)
{
    return n < 0 ? 0 : n < max ? n : max;
}

/* --- Memory ----------------------------------------------------------------------------------- */

static bool make_room(struct room *room, size_t bytes)
{
    if (room->bytes >= bytes)
        return true;
    hvd_free(room->data);
    room->data = hvd_malloc(bytes, 1);
    room->bytes = room->data ? bytes : 0;
    return room->data;
}

static hvd_status_t reserve(struct hvd_set *set, const struct hvd_fused_op *f, struct hvd_err *err)
{
    const size_t n = (size_t)set->self.size;
    const size_t bytes = (size_t)f->work.count * hvd_dtype_size((int)f->request.dtype);
    const size_t dots = f->n_members * DOTS * (n + 1) * sizeof(double);
    struct hvd_adasum *a = set->own.adasum;

    if (!a)
        a = set->own.adasum = hvd_calloc(1, sizeof(*a));
    if (a && !a->counts)
        a->counts = hvd_malloc(3 * n, sizeof(*a->counts));
    if (a && a->counts && (!f->pieces || make_room(&a->mine, bytes)) &&
        make_room(&a->theirs, bytes) && make_room(&a->dots, dots))
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory: the Adasum of %zu bytes needs as much",
                    bytes);
}

/* --- The collectives -------------------------------------------------------------------------- */

/* Describes the exchange of the next part of the halves in f->move. */
static void set_exchange(const struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_adasum *a = set->own.adasum;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const int n = set->self.size;
    const int partner = set->self.rank ^ 1 << a->level;
    const int64_t sent = at_most(a->away.len - a->done, a->chunk);
    const int64_t received = at_most(a->stretch.len - a->done, a->chunk);

    memset(a->counts, 0, 2 * (size_t)n * sizeof(*a->counts));
    a->counts[partner] = sent;
    a->counts[n + partner] = received;
    a->phase = EXCHANGE;
    f->move = (struct hvd_collective){
        .op = HVD_ALLTOALL,
        .dtype = f->request.dtype,
        .reduce = HVD_SUM,
        .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
        .set = set->id,
        .input = a->work + (size_t)(a->away.at + (sent > 0 ? a->done : 0)) * width,
        .output = (char *)a->theirs.data + (size_t)(received > 0 ? a->done : 0) * width,
        .count = sent,
        .counts = a->counts,
        .received = a->counts + n};
}

static void begin_level(const struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_adasum *a = set->own.adasum;
    const struct stretch whole = a->stretch;

    a->stretch = keep(whole, set->self.rank, a->level);
    a->away = keep(whole, set->self.rank ^ 1 << a->level, a->level);
    a->done = 0;
    set_exchange(set, f);
}

/* Describes an allgather of `input` in f->move; counts[2n ...] must be filled in. */
static void set_gather(const struct hvd_set *set, struct hvd_fused_op *f, enum hvd_dtype dtype,
                       const void *input, void *output)
{
    struct hvd_adasum *a = set->own.adasum;
    const int64_t *counts = a->counts + 2 * set->self.size;

    f->move = (struct hvd_collective){.op = HVD_ALLGATHER,
                                      .dtype = dtype,
                                      .reduce = HVD_SUM,
                                      .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                                      .set = set->id,
                                      .input = input,
                                      .output = output,
                                      .count = counts[set->self.rank],
                                      .counts = counts};
}

/* Returns the part of a tensor that is in this rank's stretch. */
static struct stretch cut(const struct hvd_adasum *a, struct stretch tensor)
{
    const int64_t end = tensor.at + tensor.len;
    const int64_t stop = a->stretch.at + a->stretch.len;
    const int64_t from = tensor.at > a->stretch.at ? tensor.at : a->stretch.at;
    const int64_t to = end < stop ? end : stop;

    return (struct stretch){from, to > from ? to - from : 0};
}

/* Computes the contributions of both halves to the dots of each tensor. The first vector is
 * always that of the lower ranks, so that all ranks compute alike. */
static void begin_dots(const struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_adasum *a = set->own.adasum;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const bool is_upper = set->self.rank >> a->level & 1;
    const char *vector = a->theirs.data;
    double *dots = a->dots.data;
    struct stretch tensor = {0, 0};

    for (uint32_t i = 0; i < f->n_members; i++) {
        tensor.len = f->members[i].count;
        const struct stretch s = cut(a, tensor);
        const void *mine = a->work + (size_t)s.at * width;
        const void *theirs = vector + (size_t)(s.len > 0 ? s.at - a->stretch.at : 0) * width;
        hvd_adasum_dots(f->request.dtype, is_upper ? theirs : mine, is_upper ? mine : theirs, s.len,
                        dots + (size_t)i * DOTS);
        tensor.at += tensor.len;
    }
    for (int rank = 0; rank < set->self.size; rank++)
        a->counts[2 * set->self.size + rank] = (int64_t)f->n_members * DOTS;
    a->phase = GATHER_DOTS;
    set_gather(set, f, HVD_FLOAT64, dots, dots + (size_t)f->n_members * DOTS);
}

/* Adds up the dots of a tensor over both groups. */
static void add_dots(const struct hvd_set *set, const struct hvd_fused_op *f, uint32_t tensor,
                     double sums[DOTS])
{
    const struct hvd_adasum *a = set->own.adasum;
    const int n_group = 2 << a->level;
    const int first = set->self.rank / n_group * n_group;
    const size_t row = (size_t)f->n_members * DOTS;
    const double *dots = a->dots.data;

    for (int k = 0; k < DOTS; k++)
        sums[k] = 0;
    for (int rank = first; rank < first + n_group; rank++)
        for (size_t k = 0; k < DOTS; k++)
            sums[k] += dots[row * (size_t)(rank + 1) + tensor * DOTS + k];
}

static void combine(const struct hvd_set *set, const struct hvd_fused_op *f)
{
    const struct hvd_adasum *a = set->own.adasum;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const bool is_upper = set->self.rank >> a->level & 1;
    const char *vector = a->theirs.data;
    struct stretch tensor = {0, 0};
    double sums[DOTS];

    for (uint32_t i = 0; i < f->n_members; i++) {
        tensor.len = f->members[i].count;
        const struct stretch s = cut(a, tensor);
        tensor.at += tensor.len;
        if (s.len == 0)
            continue;
        add_dots(set, f, i, sums);
        const double dots[DOTS] = {sums[0], sums[is_upper ? 2 : 1], sums[is_upper ? 1 : 2]};
        hvd_adasum_combine(f->request.dtype, a->work + (size_t)s.at * width,
                           vector + (size_t)(s.at - a->stretch.at) * width, s.len, dots);
    }
}

static void begin_result(const struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_adasum *a = set->own.adasum;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const int n = set->self.size;

    for (int rank = 0; rank < n; rank++)
        a->counts[2 * n + rank] = share(f->work.count, rank, n).len;
    a->phase = GATHER_RESULT;
    set_gather(set, f, f->request.dtype, a->work + (size_t)a->stretch.at * width, a->theirs.data);
}

/* --- Input and output ------------------------------------------------------------------------- */

/* Returns the memory of a tensor: the caller's, or zeros on a joined rank. */
static struct hvd_piece piece_of(const struct hvd_fused_op *f, uint32_t i)
{
    const struct hvd_entry *entry = f->members[i].entry;

    if (f->pieces)
        return f->pieces[i];
    if (f->staging)
        return hvd_staging_piece(f, i);
    return (struct hvd_piece){.input = entry ? entry->input : f->zeros,
                              .output = entry ? entry->data : f->zeros,
                              .count = f->members[i].count};
}

static void take_in(struct hvd_adasum *a, const struct hvd_fused_op *f)
{
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const struct hvd_scaling scaling = {
        .prescale = f->request.prescale, .postscale = 1, .divisor = 1};
    size_t at = 0;

    a->work = f->pieces ? a->mine.data : piece_of(f, 0).output;
    for (uint32_t i = 0; i < f->n_members; i++) {
        const struct hvd_piece p = piece_of(f, i);
        hvd_reduce_prescale(f->request.dtype, &scaling, a->work + at, p.input, p.count);
        at += (size_t)p.count * width;
    }
}

/* Writes the result to the tensors. The gathered shares are in the order of the ranks, which is
 * not that of the elements. */
static void hand_out(const struct hvd_set *set, const struct hvd_fused_op *f)
{
    const struct hvd_adasum *a = set->own.adasum;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const struct hvd_scaling scaling = {
        .prescale = 1, .postscale = f->request.postscale, .divisor = 1};
    const char *from = a->theirs.data;

    for (int rank = 0; rank < set->self.size; rank++) {
        const struct stretch s = share(f->work.count, rank, set->self.size);
        memcpy(a->work + (size_t)s.at * width, from, (size_t)s.len * width);
        from += (size_t)s.len * width;
    }
    from = a->work;
    for (uint32_t i = 0; i < f->n_members; i++) {
        const struct hvd_piece p = piece_of(f, i);
        if (f->pieces)
            memcpy(p.output, from, (size_t)p.count * width);
        hvd_reduce_finish(f->request.dtype, &scaling, p.output, p.count);
        from += (size_t)p.count * width;
    }
}

/* Reads the inputs and describes the first collective in f->move. HVD_ERR_NOMEM. */
static hvd_status_t begin(const struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    const int64_t width = (int64_t)hvd_dtype_size((int)f->request.dtype);
    const int64_t chunk = e->options.adasum_chunk_bytes / width;
    hvd_status_t st = reserve(set, f, err);

    if (st != HVD_OK)
        return st;
    struct hvd_adasum *a = set->own.adasum;
    a->chunk = e->options.adasum_chunk_bytes == 0 ? INT64_MAX : chunk > 0 ? chunk : 1;
    a->level = 0;
    a->stretch = (struct stretch){0, f->work.count};
    take_in(a, f);
    begin_level(set, f);
    return HVD_OK;
}

/* Continues after a collective. Describes the next one in f->move and returns false, or returns
 * true when the outputs hold the result. */
static bool go_on(struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_adasum *a = set->own.adasum;

    switch (a->phase) {
    case EXCHANGE:
        if (longest(f->work.count, a->level) - a->done > a->chunk) { /* the same on every rank */
            a->done += a->chunk;
            set_exchange(set, f);
        } else {
            begin_dots(set, f);
        }
        return false;
    case GATHER_DOTS:
        combine(set, f);
        if (2 << a->level++ < set->self.size)
            begin_level(set, f);
        else
            begin_result(set, f);
        return false;
    case GATHER_RESULT:
        break;
    }
    hand_out(set, f);
    return true;
}

/* --- As a mover ------------------------------------------------------------------------------- */

static hvd_status_t prepare(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    hvd_status_t st = hvd_op_layout_check_adasum(set->self.size, err);

    if (st == HVD_OK)
        st = hvd_mover_host.prepare(e, set, f, err);
    f->is_prepared = false; /* f->move will describe other collectives */
    f->has_more = true;
    return st;
}

static hvd_status_t alone(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    return hvd_mover_host.alone(e, set, f, err);
}

static hvd_status_t start(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    hvd_op_trace_started(e, set, f);
    hvd_status_t st = f->is_second ? HVD_OK : begin(e, set, f, err);
    return st == HVD_OK ? e->transport->ops->start(e->transport, &f->move, err) : st;
}

static hvd_status_t advance(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            enum hvd_advance *next, struct hvd_err *err)
{
    (void)e;
    (void)err;
    f->is_second = true;
    f->has_more = !go_on(set, f);
    *next = f->has_more ? HVD_ADVANCE_NEXT : HVD_ADVANCE_DONE;
    return HVD_OK;
}

const struct hvd_mover hvd_adasum_mover = {.prepare = prepare,
                                           .alone = alone,
                                           .claim = hvd_mover_claim,
                                           .start = start,
                                           .test = hvd_mover_test,
                                           .advance = advance};
