/*
 * The collectives of an allreduce: one over all ranks of the set, or the three steps of the torus,
 * of which the second one may be in host memory. Runs in the launcher; calls of NCCL are inside of
 * a group.
 */
#include "worker/device/cuda/cuda_internal.h"
#include "worker/device/cuda/route.h"

static hvd_status_t nccl(const struct hvd_cuda_reduction *r, hvd_nccl_result_t result,
                         const char *what, struct hvd_err *err)
{
    return result == HVD_NCCL_SUCCESS
               ? HVD_OK
               : hvd_cuda_library_nccl_failure(r->g->library, result, what, err);
}

/* Makes NCCL's operation that multiplies by 1 / size before the sum, once for each type. */
static hvd_status_t make_average(struct hvd_cuda_reduction *r, enum hvd_dtype dtype,
                                 struct hvd_err *err)
{
    hvd_nccl_op_t *made = &r->set->averages[dtype];
    unsigned char factor[sizeof(double)];
    hvd_status_t st = HVD_OK;

    hvd_torus_factor(dtype, r->set->size, factor);
    if (*made == 0)
        st = nccl(r,
                  r->g->library->nccl.ncclRedOpCreatePreMulSum(made, factor, r->type,
                                                               HVD_NCCL_SCALAR_HOST, r->set->local),
                  "ncclRedOpCreatePreMulSum", err);
    r->op = *made;
    return st;
}

hvd_status_t hvd_cuda_reduction_init(struct hvd_cuda_reduction *r, const struct hvd_collective *c,
                                     enum hvd_device_work_kind kind, struct hvd_err *err)
{
    const bool is_averaged = r->op == HVD_NCCL_AVG;

    r->width = hvd_dtype_size((int)c->dtype);
    r->cross_op = is_averaged ? HVD_NCCL_SUM : r->op;
    r->has_torus =
        r->set->cross && hvd_torus_moves((size_t)c->count * r->width, c->dtype, is_averaged);
    if (kind == HVD_DEVICE_GATHER)
        r->step = HVD_CUDA_REDUCE_RESTORE;
    else if (kind == HVD_DEVICE_SCATTER || r->has_torus)
        r->step = HVD_CUDA_REDUCE_LOCAL;
    else
        r->step = HVD_CUDA_REDUCE_FLAT;
    return r->step == HVD_CUDA_REDUCE_LOCAL && is_averaged ? make_average(r, c->dtype, err)
                                                           : HVD_OK;
}

static hvd_status_t reduce_local(const struct hvd_cuda_reduction *r, const char *input,
                                 char *output, struct hvd_torus_share share, struct hvd_err *err)
{
    const struct hvd_nccl_api *n = &r->g->library->nccl;
    const struct hvd_cuda_set *set = r->set;
    const int last = set->torus.local_size - 1;
    const size_t bytes = share.chunk * r->width;
    const size_t rest_at = (size_t)set->torus.local_size * bytes;
    hvd_status_t st = HVD_OK;

    if (share.chunk > 0)
        st = nccl(r,
                  n->ncclReduceScatter(input, output + (size_t)set->torus.local_rank * bytes,
                                       share.chunk, r->type, r->op, set->local, set->move.stream),
                  "ncclReduceScatter", err);
    if (share.rest > 0 && st == HVD_OK)
        st = nccl(r,
                  n->ncclReduce(input + rest_at, output + rest_at, share.rest, r->type, r->op, last,
                                set->local, set->move.stream),
                  "ncclReduce", err);
    return st;
}

static hvd_status_t reduce_cross(const struct hvd_cuda_reduction *r, char *output,
                                 struct hvd_torus_share share, struct hvd_err *err)
{
    const struct hvd_cuda_set *set = r->set;
    const size_t count = hvd_torus_part(share, &set->torus);
    char *own = output + (size_t)set->torus.local_rank * share.chunk * r->width;

    return count == 0
               ? HVD_OK
               : nccl(r,
                      r->g->library->nccl.ncclAllReduce(own, own, count, r->type, r->cross_op,
                                                        set->cross, set->move.stream),
                      "ncclAllReduce", err);
}

static hvd_status_t gather_local(const struct hvd_cuda_reduction *r, char *output,
                                 struct hvd_torus_share share, struct hvd_err *err)
{
    const struct hvd_nccl_api *n = &r->g->library->nccl;
    const struct hvd_cuda_set *set = r->set;
    const int last = set->torus.local_size - 1;
    const size_t bytes = share.chunk * r->width;
    char *rest = output + (size_t)set->torus.local_size * bytes;
    hvd_status_t st = HVD_OK;

    if (share.chunk > 0)
        st = nccl(r,
                  n->ncclAllGather(output + (size_t)set->torus.local_rank * bytes, output,
                                   share.chunk, r->type, set->local, set->move.stream),
                  "ncclAllGather", err);
    if (share.rest > 0 && st == HVD_OK)
        st = nccl(
            r,
            n->ncclBroadcast(rest, rest, share.rest, r->type, last, set->local, set->move.stream),
            "ncclBroadcast", err);
    return st;
}

/* Copies this rank's part of a message to host memory, or back. */
static hvd_status_t copy_part(struct hvd_cuda_reduction *r, char *output,
                              struct hvd_torus_share share, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &r->g->library->cu;
    const struct hvd_cuda_set *set = r->set;
    const size_t bytes = hvd_torus_part(share, &set->torus) * r->width;
    const hvd_cu_ptr_t at =
        (hvd_cu_ptr_t)(uintptr_t)output + (size_t)set->torus.local_rank * share.chunk * r->width;
    char *host = r->host;

    r->host += bytes;
    if (bytes == 0)
        return HVD_OK;
    if (r->step == HVD_CUDA_REDUCE_SAVE)
        return hvd_cuda_check(r->g, cu->cuMemcpyDtoHAsync_v2(host, at, bytes, set->move.stream),
                              "cuMemcpyDtoHAsync", err);
    return hvd_cuda_check(r->g, cu->cuMemcpyHtoDAsync_v2(at, host, bytes, set->move.stream),
                          "cuMemcpyHtoDAsync", err);
}

hvd_status_t hvd_cuda_reduce(struct hvd_cuda_reduction *r, const void *input, void *output,
                             size_t count, struct hvd_err *err)
{
    const struct hvd_cuda_set *set = r->set;

    if (r->step == HVD_CUDA_REDUCE_FLAT)
        return nccl(r,
                    r->g->library->nccl.ncclAllReduce(input, output, count, r->type, r->op,
                                                      set->comm, set->move.stream),
                    "ncclAllReduce", err);
    const struct hvd_torus_share share = hvd_torus_share_of(count, r->width, set->torus.local_size);
    switch (r->step) {
    case HVD_CUDA_REDUCE_LOCAL:
        return reduce_local(r, input, output, share, err);
    case HVD_CUDA_REDUCE_CROSS:
        return reduce_cross(r, output, share, err);
    case HVD_CUDA_REDUCE_GATHER:
        return gather_local(r, output, share, err);
    default:
        return copy_part(r, output, share, err);
    }
}
