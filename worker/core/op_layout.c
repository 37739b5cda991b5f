/*
 * Computes this rank's work for an agreed tensor: element counts, sizes of the output, and whether
 * any data must move. Pure arithmetic with overflow checks. It is also the last guard against a
 * plan that does not fit what this rank submitted.
 */
#include "worker/core/op_layout.h"

#include <inttypes.h>
#include <string.h>

/* Fills counts and adds up the output. False when the output does not fit the address space. */
static bool add_rows(const int64_t *rows, int64_t row_elements, int size, int64_t *counts,
                     struct hvd_work *work)
{
    int64_t bytes;

    for (int i = 0; i < size; i++)
        if (__builtin_mul_overflow(rows[i], row_elements, &counts[i]) ||
            __builtin_add_overflow(work->total, counts[i], &work->total) ||
            __builtin_add_overflow(work->total_rows, rows[i], &work->total_rows))
            return false;
    return !__builtin_mul_overflow(work->total, (int64_t)8, &bytes);
}

static hvd_status_t plan_gather(const struct hvd_request *req, const int64_t *rows,
                                struct hvd_self self, int64_t *counts, struct hvd_work *work,
                                struct hvd_err *err)
{
    int64_t row_elements = 1;

    if (!rows || rows[self.rank] != req->shape[0])
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "the plan has other rows for tensor %.*s than this rank submitted",
                        (int)req->name.len, req->name.data);
    if (!hvd_shape_count(req->shape + 1, req->ndim - 1, &row_elements) ||
        !add_rows(rows, row_elements, self.size, counts, work))
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0,
                        "the gathered tensor %.*s has more elements than memory can",
                        (int)req->name.len, req->name.data);
    work->moves_data = work->total > 0;
    return HVD_OK;
}

static void plan_scatter(const struct hvd_request *req, struct hvd_self self, int64_t *counts,
                         struct hvd_work *work)
{
    const int64_t row_elements = hvd_request_row_elements(req);

    for (int i = 0; i < self.size; i++)
        counts[i] = hvd_rows_of(req->shape[0], i, self.size) * row_elements;
    work->total_rows = hvd_rows_of(req->shape[0], self.rank, self.size);
    work->total = counts[self.rank];
    work->moves_data = work->count > 0;
}

hvd_status_t hvd_op_layout_work(const struct hvd_request *req, const int64_t *rows,
                                struct hvd_self self, int64_t *counts, struct hvd_work *work,
                                struct hvd_err *err)
{
    struct hvd_work w = {0};
    hvd_status_t st = HVD_OK;

    if (!hvd_shape_count(req->shape, req->ndim, &w.count))
        return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0, "tensor %.*s is too large", (int)req->name.len,
                        req->name.data);
    if (req->ndim == 0 && (hvd_op_is_uneven(req->op) || req->op == HVD_REDUCESCATTER))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the plan has tensor %.*s without dimensions",
                        (int)req->name.len, req->name.data);
    if (req->op == HVD_ALLGATHER) {
        st = plan_gather(req, rows, self, counts, &w, err);
    } else if (req->op == HVD_REDUCESCATTER) {
        plan_scatter(req, self, counts, &w);
    } else if (req->op == HVD_ALLTOALL) {
        w.moves_data = hvd_request_row_elements(req) > 0;
    } else {
        w.total = w.count;
        w.moves_data = hvd_op_keeps_shape(req->op) && w.count > 0;
    }
    if (st == HVD_OK)
        *work = w;
    return st;
}

hvd_status_t hvd_op_layout_check_adasum(int size, struct hvd_err *err)
{
    if ((size & (size - 1)) == 0)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "Running Adasum with non-power of 2 ranks is not supported yet. (%d ranks)",
                    size);
}

hvd_status_t hvd_op_layout_splits(const struct hvd_request *req, const int64_t *given, int n_given,
                                  int size, int64_t *splits, struct hvd_err *err)
{
    const int64_t rows = req->ndim > 0 ? req->shape[0] : 0;
    int64_t sum = 0;

    if (!given) {
        if (rows % size != 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "splits not provided, but first dimension of tensor is not an even "
                            "multiple of the number of workers.");
        for (int i = 0; i < size; i++)
            splits[i] = rows / size;
        return HVD_OK;
    }
    if (n_given != size)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "Number of entries in splits does not equal number of workers. (%d, %d)",
                        n_given, size);
    for (int i = 0; i < size; i++) {
        if (given[i] < 0)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the split for rank %d is %" PRId64, i,
                            given[i]);
        if (given[i] > rows - sum)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "Sum of splits entries is greater than the first dimension of tensor.");
        sum += given[i];
    }
    memcpy(splits, given, (size_t)size * sizeof(*splits));
    return HVD_OK;
}
