/*
 * An alltoall moves twice: the ranks first exchange their numbers of rows, then the rows. Runs in
 * the progress owner.
 */
#include "worker/engine/execute/mover.h"

static hvd_status_t prepare(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_describe(set, f, err);

    (void)e;
    if (st == HVD_OK)
        st = hvd_op_layout_work(&f->request, NULL, set->self, NULL, &f->work, err);
    if (st == HVD_OK)
        st = hvd_mover_create_output(set, f, err);
    if (st != HVD_OK)
        return st;
    struct hvd_entry *entry = f->members[0].entry;
    f->has_more = true;
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

/* Describes the second collective, which moves the rows. */
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
    return hvd_mover_reserve(e, f, total, err);
}

static hvd_status_t alone(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_claim(e, set, f, err);

    if (st != HVD_OK)
        return st;
    hvd_mover_compute(f);
    st = prepare_rows(e, set, f, err);
    if (st == HVD_OK && f->work.moves_data)
        hvd_mover_compute(f);
    return st;
}

static hvd_status_t advance(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            enum hvd_advance *next, struct hvd_err *err)
{
    if (!f->has_more)
        return HVD_OK;
    f->has_more = false;
    f->is_second = true;
    hvd_status_t st = prepare_rows(e, set, f, err);
    *next = st == HVD_OK && f->work.moves_data ? HVD_ADVANCE_NEXT : HVD_ADVANCE_DONE;
    return st;
}

const struct hvd_mover hvd_alltoall_mover = {.prepare = prepare,
                                             .alone = alone,
                                             .claim = hvd_mover_claim,
                                             .start = hvd_mover_start,
                                             .test = hvd_mover_test,
                                             .advance = advance};
