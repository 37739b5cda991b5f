/*
 * The common parts of all movers, and the simplest mover: one collective of the transport on the
 * memory of the tensors. Runs in the progress owner.
 */
#include "worker/engine/execute/mover.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/sharing.h"
#include "worker/engine/execute/staging.h"
#include "worker/engine/output.h"
#include "worker/reduce/reduce.h"

static hvd_status_t no_memory(struct hvd_err *err, const struct hvd_fused_op *f, size_t bytes)
{
    return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory: tensor %s needs %zu bytes",
                    hvd_fused_op_name(f), bytes);
}

/* Allocates zeros for the tensors that this rank does not have. They receive the result too. */
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

/* Sets the memory of each member: as pieces, or as the single input and output. */
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

/* Sets the name for reports to that of the first tensor, which may be another one each time. */
static void set_name(struct hvd_fused_op *f)
{
    if (f->members[0].entry)
        f->request.name = f->members[0].entry->request.name;
}

hvd_status_t hvd_mover_describe(const struct hvd_set *set, struct hvd_fused_op *f,
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
    f->has_more = false;
    set_name(f);
    hvd_status_t st = make_zeros(f, err);
    if (st != HVD_OK)
        return st;
    set_memory(f);
    if (hvd_op_is_uneven(req->op) && !f->members[0].entry)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the plan has an %s for a rank that has joined",
                        hvd_op_name((int)req->op));
    return HVD_OK;
}

void hvd_mover_describe_again(struct hvd_fused_op *f)
{
    f->move._state = NULL;
    set_name(f);
    set_memory(f);
}

hvd_status_t hvd_mover_reserve(const struct hvd_engine *e, struct hvd_fused_op *f, int64_t total,
                               struct hvd_err *err)
{
    const size_t bytes = (size_t)total * hvd_dtype_size((int)f->request.dtype);
    struct horovod_output *output = f->members[0].entry->output;
    const struct hvd_completion *completion = &f->members[0].entry->completion;

    if (completion->allocate) {
        output->bytes = bytes;
        output->is_borrowed = true;
        output->data = completion->allocate(completion->context, output->n_rows, bytes);
        if (bytes > 0 && !output->data)
            return no_memory(err, f, bytes);
        if (bytes > 0 && !hvd_staging_accepts(e, f, output->data))
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "tensor %s: allocate returned memory that is not of %s",
                            hvd_fused_op_name(f), hvd_engine_device(e)->name);
    } else if (f->request.device != HVD_CPU) {
        hvd_status_t st = hvd_staging_reserve(e, output, bytes, err);
        if (st != HVD_OK)
            return HVD_WRAP(err, st, "tensor %s", hvd_fused_op_name(f));
    } else if (hvd_output_reserve(output, bytes) != HVD_OK)
        return no_memory(err, f, bytes);
    f->move.output = output->data;
    return HVD_OK;
}

hvd_status_t hvd_mover_create_output(const struct hvd_set *set, struct hvd_fused_op *f,
                                     struct hvd_err *err)
{
    struct hvd_entry *entry = f->members[0].entry;

    if (!entry || hvd_output_create(set->self.size, &entry->output) != HVD_OK)
        return no_memory(err, f, sizeof(struct horovod_output));
    return HVD_OK;
}

void hvd_mover_compute(const struct hvd_fused_op *f)
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

hvd_status_t hvd_mover_claim(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err)
{
    (void)e;
    return f->is_second ? HVD_OK : hvd_sharing_claim(set, f, err); /* a later one keeps the claim */
}

hvd_status_t hvd_mover_start(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                             struct hvd_err *err)
{
    hvd_op_trace_started(e, set, f);
    return e->transport->ops->start(e->transport, &f->move, err);
}

hvd_status_t hvd_mover_test(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    const hvd_status_t st = e->transport->ops->test(e->transport, &f->move, err);

    (void)set;
    if (st != HVD_ERR_UNAVAILABLE)
        return st;
    /* A rank is lost, which is no failure of this one. The transport's receive says which: the job
     * ends for that. */
    hvd_err_clear(err);
    return HVD_INPROGRESS;
}

/* --- One collective of the transport ---------------------------------------------------------- */

static hvd_status_t prepare_gather(const struct hvd_engine *e, const struct hvd_set *set,
                                   struct hvd_fused_op *f, struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_create_output(set, f, err);

    if (st != HVD_OK)
        return st;
    struct horovod_output *output = f->members[0].entry->output;
    st = hvd_op_layout_work(&f->request, f->by_rank, set->self, output->counts, &f->work, err);
    if (st != HVD_OK)
        return st;
    memcpy(output->rows, f->by_rank, (size_t)set->self.size * sizeof(int64_t));
    output->n_rows = f->work.total_rows;
    f->move.counts = output->counts;
    return hvd_mover_reserve(e, f, f->work.total, err);
}

static hvd_status_t prepare(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_describe(set, f, err);

    if (st != HVD_OK)
        return st;
    if (f->request.op == HVD_ALLGATHER)
        return prepare_gather(e, set, f, err);
    const int64_t count = f->work.count; /* of a fused operation: the sum over its tensors */
    st = hvd_op_layout_work(&f->request, NULL, set->self, f->by_rank, &f->work, err);
    if (f->n_members > 1) {
        f->work.count = count;
        f->work.moves_data = true;
    }
    f->move.counts = f->by_rank;
    f->is_prepared = st == HVD_OK && hvd_fused_op_is_cached(f) && hvd_op_keeps_shape(f->request.op);
    return st;
}

static hvd_status_t alone(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_claim(e, set, f, err);

    if (st == HVD_OK && f->work.moves_data)
        hvd_mover_compute(f);
    return st;
}

const struct hvd_mover hvd_mover_host = {.prepare = prepare,
                                         .alone = alone,
                                         .claim = hvd_mover_claim,
                                         .start = hvd_mover_start,
                                         .test = hvd_mover_test};

const struct hvd_mover *hvd_mover_of_host(const struct hvd_fused_op *f)
{
    if (f->request.op == HVD_ALLTOALL)
        return &hvd_alltoall_mover;
    return f->request.op == HVD_ALLREDUCE && f->request.reduce == HVD_ADASUM ? &hvd_adasum_mover
                                                                             : &hvd_mover_host;
}
