/*
 * One collective from the plan to its result: memory for what the library returns, the description
 * for the transport, start, test, finish. The progress owner's. Collectives of a set start in the
 * agreed order; they finish as they like.
 */
#include "worker/engine/execute/fused_op.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/adasum.h"
#include "worker/engine/execute/exec_plan.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/sharing.h"
#include "worker/engine/execute/staging.h"
#include "worker/engine/execute/tune.h"
#include "worker/reduce/reduce.h"

const char *hvd_fused_op_name(const struct hvd_fused_op *f)
{
    return f->members[0].entry ? f->members[0].entry->name : "of other ranks";
}

/* What the end of a fused operation means to others than its tensors. */
static void wind_up(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                    hvd_status_t status)
{
    if (f->staging)
        hvd_staging_end(set, f);
    if (e->options.autotune && status == HVD_OK)
        hvd_tune_landed(e, set, f);
}

/* Allreduces that went well while nobody records events: counted together. Holds mu. */
static void finish_together(struct hvd_engine *e, const struct hvd_fused_op *f)
{
    int64_t count = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_entry *entry = f->members[i].entry;
        hvd_fused_op_fetch(f, i);
        if (!entry)
            continue;
        count += f->members[i].count;
        n++;
        hvd_entry_publish(entry);
    }
    hvd_telemetry_done_many(e->options.telemetry, (int)f->request.op, n,
                            (uint64_t)count * hvd_dtype_size((int)f->request.dtype));
    hvd_add(&e->n_outstanding, 0 - (size_t)n);
}

/* Publishes how all tensors of a fused operation ended. Holds mu. */
static void finish_entries(struct hvd_engine *e, const struct hvd_fused_op *f, hvd_status_t status,
                           const char *message)
{
    const unsigned on = e->options.telemetry ? hvd_telemetry_on(e->options.telemetry) : 0;

    if (status == HVD_OK && f->request.op == HVD_ALLREDUCE &&
        (!on || (!(on & HVD_TELEMETRY_RECORDER) && hvd_fused_op_is_cached(f)))) {
        if (on)
            hvd_op_trace_ended(e, f);
        finish_together(e, f);
        return;
    }
    for (uint32_t i = 0; i < f->n_members; i++)
        if (f->members[i].entry)
            hvd_entry_finish(e, f->members[i].entry, status, message);
}

/* Publishes how all tensors of a fused operation ended, and lets go of it. */
static inline void finish(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          hvd_status_t status, const char *message)
{
    if (status == HVD_OK && f->members[0].entry && f->members[0].entry->is_own) {
        status = f->members[0].entry->status;
        message = f->members[0].entry->agreement->text(status);
    }
    if (f->copies && status == HVD_OK)
        hvd_sharing_write_back(f);
    hvd_sharing_release(set, f);
    hvd_free(f->zeros);
    f->zeros = NULL;
    hvd_free(f->splits);
    f->splits = NULL;
    if (f->staging || e->options.autotune)
        wind_up(e, set, f, status);
    pthread_mutex_lock(&e->mu);
    finish_entries(e, f, status, message);
    pthread_mutex_unlock(&e->mu);
    hvd_exec_plan_release(set, f->exec_plan);
}

static hvd_status_t no_memory(struct hvd_err *err, const struct hvd_fused_op *f, size_t bytes)
{
    return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory: tensor %s needs %zu bytes",
                    hvd_fused_op_name(f), bytes);
}

/* Zeros in place of the tensors that this rank does not have; they receive the result too. */
static hvd_status_t make_zeros(struct hvd_fused_op *f, struct hvd_err *err)
{
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    size_t bytes = 0;

    if (f->request.device != HVD_CPU)
        return HVD_OK;
    for (uint32_t i = 0; i < f->n_members; i++)
        if (!f->members[i].entry)
            bytes += (size_t)f->members[i].count * width;
    if (bytes == 0)
        return HVD_OK;
    f->zeros = hvd_calloc(bytes, 1);
    return f->zeros ? HVD_OK : no_memory(err, f, bytes);
}

/* The memory of each member, as pieces or as the one input and output. */
static void set_memory(struct hvd_fused_op *f)
{
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    char *zeros = f->zeros;

    for (uint32_t i = 0; i < f->n_members; i++) {
        const struct hvd_member *m = &f->members[i];
        hvd_fused_op_fetch(f, i);
        struct hvd_piece piece = {.input = zeros, .output = zeros, .count = m->count};
        if (m->entry) {
            piece.input = m->entry->input;
            piece.output = m->entry->data;
        } else if (zeros) {
            zeros += (size_t)m->count * width;
        }
        if (f->pieces) {
            f->pieces[i] = piece;
        } else {
            f->move.input = piece.input;
            f->move.output = piece.output;
        }
    }
    f->move.pieces = f->pieces;
    f->move.n_pieces = f->pieces ? (int)f->n_members : 0;
}

/* Memory for a result whose size is known now. */
static hvd_status_t reserve(const struct hvd_engine *e, struct hvd_fused_op *f, int64_t total,
                            struct hvd_err *err)
{
    const size_t bytes = (size_t)total * hvd_dtype_size((int)f->request.dtype);
    struct horovod_output *output = f->members[0].entry->output;

    if (f->request.device != HVD_CPU) {
        hvd_status_t st = hvd_staging_reserve(e, output, bytes, err);
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
    } else if (hvd_output_reserve(output, bytes) != HVD_OK)
        return no_memory(err, f, bytes);
    f->move.output = output->data;
    return HVD_OK;
}

static hvd_status_t prepare_gather(const struct hvd_engine *e, const struct hvd_set *set,
                                   struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_entry *entry = f->members[0].entry;

    if (!entry || hvd_output_create(set->self.size, &entry->output) != HVD_OK)
        return no_memory(err, f, sizeof(struct horovod_output));
    hvd_status_t st = hvd_op_layout_work(&f->request, f->by_rank, set->self, entry->output->counts,
                                         &f->work, err);
    if (st != HVD_OK)
        return st;
    memcpy(entry->output->rows, f->by_rank, (size_t)set->self.size * sizeof(int64_t));
    entry->output->n_rows = f->work.total_rows;
    f->move.counts = entry->output->counts;
    return reserve(e, f, f->work.total, err);
}

/* First the ranks tell each other how many rows come. */
static hvd_status_t prepare_splits(const struct hvd_set *set, struct hvd_fused_op *f,
                                   struct hvd_err *err)
{
    struct hvd_entry *entry = f->members[0].entry;
    hvd_status_t st = hvd_op_layout_work(&f->request, NULL, set->self, NULL, &f->work, err);

    if (st == HVD_OK && (!entry || hvd_output_create(set->self.size, &entry->output) != HVD_OK))
        st = no_memory(err, f, sizeof(struct horovod_output));
    if (st != HVD_OK)
        return st;
    f->splits = entry->splits;
    entry->splits = NULL;
    f->move.dtype = HVD_INT64;
    f->move.input = f->splits;
    f->move.output = entry->output->rows;
    f->move.count = set->self.size;
    f->move.counts = set->ones;
    f->move.received = set->ones;
    f->work.moves_data = true;
    return HVD_OK;
}

/* Then the rows move. */
static hvd_status_t prepare_rows(const struct hvd_engine *e, const struct hvd_set *set,
                                 struct hvd_fused_op *f, struct hvd_err *err)
{
    struct horovod_output *output = f->members[0].entry->output;
    const int64_t row = hvd_request_row_elements(&f->request);
    int64_t *counts = f->splits + set->self.size;
    int64_t total = 0;

    output->n_rows = 0;
    for (int i = 0; i < set->self.size; i++) {
        counts[i] = f->splits[i] * row;
        if (output->rows[i] < 0 ||
            __builtin_mul_overflow(output->rows[i], row, &output->counts[i]) ||
            __builtin_add_overflow(total, output->counts[i], &total) || total > INT64_MAX / 8)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "tensor %s receives more than memory can",
                            hvd_fused_op_name(f));
        output->n_rows += output->rows[i];
    }
    f->move.dtype = f->request.dtype;
    f->move.input = f->members[0].entry->input;
    f->move.count = 0;
    for (int i = 0; i < set->self.size; i++)
        f->move.count += counts[i];
    f->move.counts = counts;
    f->move.received = output->counts;
    f->work.moves_data = row > 0;
    return reserve(e, f, total, err);
}

/* The name that the fused operation is told by: of its first tensor, as it is this time. */
static void set_name(struct hvd_fused_op *f)
{
    if (f->members[0].entry)
        f->request.name = f->members[0].entry->request.name;
}

static hvd_status_t prepare(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    const struct hvd_request *req = &f->request;
    const bool is_average = req->reduce == HVD_AVERAGE;

    f->move = (struct hvd_collective){
        .op = req->op,
        .dtype = req->dtype,
        .reduce = is_average ? HVD_SUM : req->reduce,
        .scaling = {.prescale = req->prescale,
                    .postscale = req->postscale,
                    .divisor = is_average ? set->self.size : 1},
        .root = req->op == HVD_BROADCAST ? hvd_set_rank_of(set, req->root) : 0,
        .set = set->id,
        .count = f->work.count,
    };
    f->is_second = false;
    f->has_more = req->op == HVD_ALLTOALL || hvd_adasum_is(f);
    set_name(f);
    hvd_status_t st = make_zeros(f, err);
    if (st != HVD_OK)
        return st;
    set_memory(f);
    if (hvd_adasum_is(f))
        st = hvd_op_layout_check_adasum(set->self.size, err);
    if (st != HVD_OK)
        return st;
    if (hvd_op_is_uneven(req->op) && !f->members[0].entry)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the plan has an %s for a rank that has joined",
                        hvd_op_name((int)req->op));
    if (req->op == HVD_ALLGATHER)
        return prepare_gather(e, set, f, err);
    if (req->op == HVD_ALLTOALL)
        return prepare_splits(set, f, err);
    const int64_t count = f->work.count; /* of a fused operation: the sum */
    st = hvd_op_layout_work(req, NULL, set->self, f->by_rank, &f->work, err);
    if (f->n_members > 1) {
        f->work.count = count;
        f->work.moves_data = true;
    }
    f->move.counts = f->by_rank;
    f->is_prepared = st == HVD_OK && hvd_fused_op_is_cached(f) && hvd_op_keeps_shape(req->op) &&
                     req->device == HVD_CPU && !hvd_adasum_is(f);
    return st;
}

/* A fused operation of cached tensors, as it was prepared before. All of them are there. */
static void prepare_again(struct hvd_fused_op *f)
{
    f->move._state = NULL;
    set_name(f);
    set_memory(f);
}

/* A set of one rank: the result is the input, scaled. */
static void compute_alone(const struct hvd_fused_op *f)
{
    const struct hvd_collective *c = &f->move;
    const struct hvd_piece whole = {.input = c->input, .output = c->output, .count = c->count};
    const bool is_scaled = (c->op == HVD_ALLREDUCE || c->op == HVD_REDUCESCATTER) &&
                           !hvd_scale_is_identity(&c->scaling);

    for (int i = 0; i < (c->n_pieces ? c->n_pieces : 1); i++) {
        const struct hvd_piece *p = c->n_pieces ? &c->pieces[i] : &whole;
        if (is_scaled) {
            hvd_reduce_prescale(c->dtype, &c->scaling, p->output, p->input, p->count);
            hvd_reduce_finish(c->dtype, &c->scaling, p->output, p->count);
        } else if (p->output != p->input && p->input && p->count > 0) {
            memcpy(p->output, p->input, (size_t)p->count * hvd_dtype_size((int)c->dtype));
        }
    }
}

/* A fused operation has landed. An agreement about process sets is acted upon first. On failure it
 * is not finished. */
static hvd_status_t complete(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err)
{
    struct hvd_entry *entry = f->members[0].entry;
    hvd_status_t st = entry && entry->is_own ? entry->agreement->follow(e, entry, err) : HVD_OK;

    if (st == HVD_OK) {
        finish(e, set, f, HVD_OK, NULL);
        return HVD_OK;
    }
    entry->is_own = false; /* its status is that of any other */
    return st;
}

/* Starts behind what was agreed before. */
static void line_up(struct hvd_set *set, struct hvd_fused_op *f)
{
    f->next = NULL;
    if (set->todo)
        set->todo_last->next = f;
    else
        set->todo = f;
    set->todo_last = f;
}

/* A set of one rank: everything at once, but on the device, where its stream keeps the order. So no
 * other fused operation has memory of the host, and the claim is never HVD_INPROGRESS. */
static hvd_status_t perform_alone(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                  struct hvd_err *err)
{
    hvd_status_t st = f->staging ? HVD_OK : hvd_sharing_claim(set, f, err);

    if (st != HVD_OK)
        return st;
    if (f->work.moves_data && (!f->staging || f->request.op == HVD_ALLTOALL))
        compute_alone(f);
    if (f->request.op == HVD_ALLTOALL) {
        st = prepare_rows(e, set, f, err);
        if (st == HVD_OK && f->work.moves_data && !f->staging)
            compute_alone(f);
    }
    if (st == HVD_OK && f->staging && f->work.moves_data) {
        f->has_more = false;
        line_up(set, f);
        return HVD_OK;
    }
    return st == HVD_OK ? complete(e, set, f, err) : st;
}

/* A fused operation that is prepared goes on its way. */
static hvd_status_t depart(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    if (set->self.size == 1)
        return perform_alone(e, set, f, err);
    if (!f->work.moves_data) {
        finish(e, set, f, HVD_OK, NULL);
        return HVD_OK;
    }
    line_up(set, f);
    return HVD_OK;
}

hvd_status_t hvd_fused_op_begin(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err)
{
    struct hvd_err why;

    f->since_ns = e->now_ns;
    if (f->is_prepared && f->exec_plan->is_whole) {
        prepare_again(f);
        return depart(e, set, f, err);
    }
    hvd_err_clear(&why);
    hvd_status_t st = prepare(e, set, f, &why);
    if (st == HVD_ERR_TOO_LARGE) { /* the same everywhere: this tensor's failure */
        finish(e, set, f, st, why.msg);
        return HVD_OK;
    }
    if (st == HVD_OK && f->request.device != HVD_CPU)
        st = hvd_staging_begin(e, set, f, &why);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "%s", why.msg);
    return depart(e, set, f, err);
}

/* The memory of a fused operation of the host; HVD_INPROGRESS while another one moves it. A second
 * phase has it already. */
static hvd_status_t claim(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    return f->is_second ? HVD_OK : hvd_sharing_claim(set, f, err);
}

static hvd_status_t start_todo(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                               struct hvd_err *err)
{
    while (set->n_moving < HVD_MOVING_MAX && set->todo && !set->is_held) {
        struct hvd_fused_op *f = set->todo;
        hvd_status_t st = f->staging ? hvd_staging_board(e, set, f, err) : claim(set, f, err);
        if (st == HVD_INPROGRESS)
            return HVD_OK;
        const bool asks = f->has_more && hvd_staging_exchanges(f);
        if (!asks)
            hvd_op_trace_started(e, set, f);
        if (st == HVD_OK && f->has_more && !f->is_second && !asks && hvd_adasum_is(f))
            st = hvd_adasum_begin(e, set, f, err);
        if (st == HVD_OK && !hvd_staging_is_landing(f))
            st = e->transport->ops->start(e->transport, &f->move, err);
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
        set->todo = f->next;
        set->moving[set->n_moving++] = f;
        set->is_held = f->has_more;
        *progressed = true;
    }
    return HVD_OK;
}

/* Starts before anything else of the set. */
static void push_in(struct hvd_set *set, struct hvd_fused_op *f)
{
    f->next = set->todo;
    if (!set->todo)
        set->todo_last = f;
    set->todo = f;
}

/* The data has moved, all of it, for a fused operation of the device: what is of the device goes
 * back there. On failure it is not finished; what is landing then ends with the job. */
static hvd_status_t unload(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    set->moving[set->n_moving++] = f; /* it was among them just now */
    hvd_status_t st = hvd_staging_unload(e, set, f, err);
    return st == HVD_OK ? st : HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
}

/* All of a fused operation's data has moved. Failure: as above. */
static inline hvd_status_t land(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err)
{
    if (f->staging && !hvd_staging_is_landing(f) && f->work.moves_data)
        return unload(e, set, f, err);
    return complete(e, set, f, err);
}

/* A phase has ended: the next one moves before anything else of the set. An alltoall knows its
 * splits now, its rows follow. */
static hvd_status_t go_on(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    bool is_landed = false;

    if (hvd_staging_exchanges(f)) {
        set->is_held = false;
        hvd_status_t answered = hvd_staging_answer(e, set, f, err);
        if (answered == HVD_OK)
            push_in(set, f);
        return answered;
    }
    f->is_second = true;
    if (hvd_adasum_is(f)) {
        is_landed = hvd_adasum_advance(set, f);
    } else {
        f->has_more = false;
        st = prepare_rows(e, set, f, err);
    }
    set->is_held = false;
    if (st != HVD_OK)
        return st;
    if (!f->work.moves_data || is_landed)
        return land(e, set, f, err);
    push_in(set, f);
    return HVD_OK;
}

hvd_status_t hvd_fused_op_progress(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                   struct hvd_err *err)
{
    hvd_status_t st = start_todo(e, set, progressed, err);

    for (int i = 0; i < set->n_moving && st == HVD_OK;) {
        struct hvd_fused_op *f = set->moving[i];
        if (hvd_staging_is_landing(f))
            st = hvd_staging_test(e, f, err);
        else
            st = e->transport->ops->test(e->transport, &f->move, err);
        if (st == HVD_INPROGRESS) {
            st = HVD_OK;
            i++;
            continue;
        }
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
        *progressed = true;
        set->n_landed++;
        set->moving[i] = set->moving[--set->n_moving];
        if (f->has_more)
            st = go_on(e, set, f, err);
        else
            st = land(e, set, f, err);
        /* Nothing moves any more, so it ends here and not with the job. */
        if (st != HVD_OK && !hvd_staging_is_landing(f))
            finish(e, set, f, HVD_ERR_SHUTDOWN, err->msg);
    }
    return st;
}
