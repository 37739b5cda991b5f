/*
 * From an agreed step to the work of this rank: element counts, sizes of the output, and whether
 * anything has to move at all. Pure arithmetic with overflow checks; it is also the last guard
 * against a plan that does not fit what this rank submitted.
 */
#include "worker/core/plan.h"

#include <inttypes.h>

/* Fills rows and counts; adds up the output. */
static hvd_status_t lay_out_rows(const struct hvd_request *req, const struct hvd_step *step,
                                 struct hvd_place place, int64_t *rows_counts[2],
                                 struct hvd_work *work)
{
    int64_t row_elements = 1;
    int64_t bytes;

    if (!hvd_shape_count(req->shape + 1, req->ndim - 1, &row_elements))
        return HVD_ERR_TOO_LARGE;
    for (int i = 0; i < place.size; i++) {
        int64_t rows = hvd_step_row(step, (uint32_t)i);
        int64_t count;
        if (__builtin_mul_overflow(rows, row_elements, &count) ||
            __builtin_add_overflow(work->total, count, &work->total) ||
            __builtin_add_overflow(work->total_rows, rows, &work->total_rows))
            return HVD_ERR_TOO_LARGE;
        rows_counts[0][i] = rows;
        rows_counts[1][i] = count;
    }
    return __builtin_mul_overflow(work->total, (int64_t)8, &bytes) ? HVD_ERR_TOO_LARGE : HVD_OK;
}

hvd_status_t hvd_plan_work(const struct hvd_request *req, const struct hvd_step *step,
                           struct hvd_place place, int64_t *rows_counts[2], struct hvd_work *work,
                           struct hvd_err *err)
{
    struct hvd_work w = {0};

    if (step->kind != (int)req->op)
        return HVD_FAIL(
            err, HVD_ERR_INVALID, 0, "the plan has an %s for tensor %.*s, which is an %s",
            hvd_op_name(step->kind), (int)req->name.len, req->name.data, hvd_op_name((int)req->op));
    if (!hvd_shape_count(req->shape, req->ndim, &w.count))
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "tensor %.*s is too large", (int)req->name.len,
                        req->name.data);
    if (req->op != HVD_ALLGATHER) {
        w.total = w.count;
        w.moves_data = req->op != HVD_BARRIER && w.count > 0;
        *work = w;
        return HVD_OK;
    }
    if (step->n_rows != (uint32_t)place.size ||
        hvd_step_row(step, (uint32_t)place.rank) != req->shape[0])
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "the plan has other rows for tensor %.*s than this rank submitted",
                        (int)req->name.len, req->name.data);
    if (lay_out_rows(req, step, place, rows_counts, &w) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0,
                        "the gathered tensor %.*s has more elements than memory can",
                        (int)req->name.len, req->name.data);
    w.moves_data = w.total > 0;
    *work = w;
    return HVD_OK;
}
