/*
 * Compares the requests of two ranks for one name, and writes the message that every rank gets when
 * they differ. The messages start with Horovod's texts, which users search for. The ranks and what
 * they requested follow. Pure.
 */
#include "worker/core/mismatch.h"

#include <inttypes.h>

#include "base/text.h"

static void put_shape(struct hvd_text *c, const struct hvd_request *req)
{
    hvd_text_add(c, "[");
    for (int i = 0; i < req->ndim; i++)
        hvd_text_add(c, i ? ", %" PRId64 : "%" PRId64, req->shape[i]);
    hvd_text_add(c, "]");
}

/* Returns the first dimension, at or after `from`, in which the shapes differ; -1 when none
 * does. */
static int differing_dimension(const struct hvd_request *a, const struct hvd_request *b, int from)
{
    for (int i = from; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return i;
    return -1;
}

static bool gather_shapes_differ(const struct hvd_request *a, const struct hvd_request *b,
                                 struct hvd_text *c)
{
    const char *op = hvd_op_name((int)a->op);

    if (a->ndim != b->ndim) {
        hvd_text_add(
            c,
            "Mismatched %s tensor shapes: One rank sent a tensor of rank %d, but another rank sent "
            "a tensor of rank %d.",
            op, a->ndim, b->ndim);
        return true;
    }
    int d = differing_dimension(a, b, 1);
    if (d < 0)
        return false;
    hvd_text_add(
        c,
        "Mismatched %s tensor shapes: One rank sent a tensor with dimension %d equal to %" PRId64
        ", but another rank sent a tensor with dimension %d equal to %" PRId64 ".",
        op, d, a->shape[d], d, b->shape[d]);
    return true;
}

static bool shapes_differ(const struct hvd_request *a, const struct hvd_request *b,
                          struct hvd_text *c)
{
    if (a->ndim == b->ndim && differing_dimension(a, b, 0) < 0)
        return false;
    hvd_text_add(c, "Mismatched %s tensor shapes: One rank sent a tensor of shape ",
                 hvd_op_name((int)a->op));
    put_shape(c, a);
    hvd_text_add(c, ", but another rank sent a tensor of shape ");
    put_shape(c, b);
    hvd_text_add(c, ".");
    return true;
}

static bool factors_differ(const struct hvd_request *a, const struct hvd_request *b)
{
    return !hvd_factor_equal(a->prescale, b->prescale) ||
           !hvd_factor_equal(a->postscale, b->postscale);
}

/* Compares where the data comes from and where it lies. */
static int compare_devices(const struct hvd_request *a, const struct hvd_request *b,
                           struct hvd_text *c)
{
    static const char *const devices[] = {[HVD_CPU] = "CPU", [HVD_GPU] = "GPU"};

    if (a->op == HVD_BROADCAST && a->root != b->root) {
        hvd_text_add(
            c,
            "Mismatched BROADCAST root ranks: One rank specified root rank %d, but another rank "
            "specified root rank %d.",
            a->root, b->root);
        return 11;
    }
    if (a->device != b->device) {
        hvd_text_add(
            c,
            "Mismatched %s CPU/GPU device selection: One rank specified device %s, but another "
            "rank specified device %s.",
            hvd_op_name((int)a->op), devices[a->device], devices[b->device]);
        return 12;
    }
    return 0;
}

static int compare(const struct hvd_request *a, const struct hvd_request *b, struct hvd_text *c)
{
    if (a->dtype != b->dtype) {
        hvd_text_add(c,
                     "Mismatched data types: One rank had type %s, but another rank had type %s.",
                     hvd_dtype_name((int)a->dtype), hvd_dtype_name((int)b->dtype));
        return 1;
    }
    if (a->op != b->op) {
        hvd_text_add(c, "Mismatched operations: One rank did an %s, but another rank did an %s.",
                     hvd_op_name((int)a->op), hvd_op_name((int)b->op));
        return 2;
    }
    if (!hvd_op_is_uneven(a->op) && shapes_differ(a, b, c))
        return 3;
    if (factors_differ(a, b)) {
        hvd_text_add(
            c,
            "Mismatched prescale and/or postscale factors: One rank sent factors (%g, %g), but "
            "another rank sent factors (%g, %g).",
            a->prescale, a->postscale, b->prescale, b->postscale);
        return 4;
    }
    if (a->reduce != b->reduce) {
        hvd_text_add(
            c,
            "Mismatched reduction operation: One rank sent reduction op %s, but another rank sent "
            "reduction op %s.",
            hvd_reduce_name((int)a->reduce), hvd_reduce_name((int)b->reduce));
        return 5;
    }
    if (hvd_op_is_uneven(a->op) && gather_shapes_differ(a, b, c))
        return 8;
    return compare_devices(a, b, c);
}

int hvd_mismatch_unsupported(const struct hvd_request *req, bool any_joined, char *text,
                             size_t size)
{
    const char *op = hvd_op_name((int)req->op);
    struct hvd_text c = hvd_text_in(text, size);

    if (any_joined && req->op == HVD_ALLGATHER) {
        hvd_text_add(
            &c, "Allgather is not supported with Join at this time. Specify sparse_to_dense=True "
                "if using DistributedOptimizer");
        return 6;
    }
    if (any_joined && req->op == HVD_ALLTOALL) {
        hvd_text_add(&c, "Alltoall is not supported with Join at this time.");
        return 6;
    }
    if (any_joined && req->op == HVD_ALLREDUCE && req->reduce != HVD_SUM &&
        req->reduce != HVD_AVERAGE && req->reduce != HVD_ADASUM) {
        hvd_text_add(&c,
                     "Allreduce with %s is not supported with Join: zeros would change the result.",
                     hvd_reduce_name((int)req->reduce));
        return 6;
    }
    if (req->ndim == 0 && (hvd_op_is_uneven(req->op) || req->op == HVD_REDUCESCATTER)) {
        hvd_text_add(&c, "Process-set rank zero tried to %s a rank-zero tensor.", op);
        return 7;
    }
    if (any_joined && req->op == HVD_REDUCESCATTER) {
        hvd_text_add(&c, "Reducescatter is not supported with Join at this time.");
        return 9;
    }
    if (any_joined && req->op == HVD_BROADCAST) {
        hvd_text_add(&c, "Broadcast is not supported with Join at this time.");
        return 11;
    }
    return 0;
}

int hvd_mismatch(struct hvd_request_of_rank one, struct hvd_request_of_rank other, char *text,
                 size_t size)
{
    struct hvd_text c = hvd_text_in(text, size);
    int check = compare(one.req, other.req, &c);

    if (check != 0)
        hvd_text_add(&c, " (tensor %.*s: rank %d, then rank %d)",
                     one.req->name.len > 200 ? 200 : (int)one.req->name.len, one.req->name.data,
                     one.rank, other.rank);
    return check;
}
