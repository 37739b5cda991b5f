/*
 * The calls of collectives and messages, and the checks of their arguments.
 */
#include "tests/fake/gpu/nccl/nccl.h"

#include "tests/fake/gpu/nccl/arithmetic.h"

static hvd_nccl_result_t check_type(const struct nccl_part *part)
{
    const bool is_small = part->type >= HVD_NCCL_FLOAT8_E4M3;

    if (arithmetic_size(part->type) == 0)
        return nccl_fail(part->comm, HVD_NCCL_INVALID_ARGUMENT, "%s : invalid type %u",
                         nccl_name_of(part->kind), part->type);
    if (is_small && fake_option(FAKE_GPU_NCCL_VERSION) < 22400)
        return nccl_fail(part->comm, HVD_NCCL_INVALID_ARGUMENT, "%s : invalid type %u",
                         nccl_name_of(part->kind), part->type);
    if (is_small && fake_option(FAKE_GPU_CAPABILITY) < 90)
        return nccl_fail(part->comm, HVD_NCCL_INVALID_ARGUMENT, "FP8 needs sm90");
    return HVD_NCCL_SUCCESS;
}

/* Turns a handle of PreMulSum into the operation. */
static hvd_nccl_result_t resolve_op(struct nccl_part *part)
{
    const unsigned i = part->op - (HVD_NCCL_AVG + 1);

    if (part->op <= HVD_NCCL_AVG)
        return HVD_NCCL_SUCCESS;
    if (i >= NCCL_MAX_OPS || !part->comm->ops[i].is_used || part->comm->ops[i].type != part->type)
        return nccl_fail(part->comm, HVD_NCCL_INVALID_ARGUMENT, "%s : invalid reduction operation",
                         nccl_name_of(part->kind));
    part->scale = part->comm->ops[i];
    part->op = NCCL_PRE_MUL_SUM;
    return HVD_NCCL_SUCCESS;
}

static hvd_nccl_result_t check_part(struct nccl_part *part, struct CUstream_st *handle,
                                    enum fake_call call)
{
    hvd_nccl_result_t result = nccl_check(part->comm, call);

    if (result == 0)
        result = check_type(part);
    if (result == 0 && (part->root < 0 || part->root >= part->comm->n_ranks))
        result = nccl_fail(part->comm, HVD_NCCL_INVALID_ARGUMENT, "%s : invalid root %d",
                           nccl_name_of(part->kind), part->root);
    if (result == 0)
        result = resolve_op(part);
    if (result != 0)
        return result;
    part->stream = fake_stream_in(part->comm->context, handle);
    if (!part->stream)
        return nccl_fail(part->comm, HVD_NCCL_UNHANDLED_CUDA_ERROR, "invalid resource handle");
    if (part->stream->context != part->comm->context) {
        fake_report(FAKE_GPU_WRONG_CONTEXT,
                    "%s of communicator %d of device %d on stream %d of "
                    "device %d",
                    nccl_name_of(part->kind), part->comm->number, part->comm->context->device,
                    part->stream->number, part->stream->context->device);
        return nccl_fail(part->comm, HVD_NCCL_INVALID_USAGE, "stream of another device");
    }
    return part->comm->context->broken
               ? nccl_fail(part->comm, HVD_NCCL_UNHANDLED_CUDA_ERROR, "the context is broken")
               : HVD_NCCL_SUCCESS;
}

static hvd_nccl_result_t submit(enum fake_call call, struct nccl_part part,
                                struct CUstream_st *stream)
{
    hvd_nccl_result_t result = fake_begin(call);

    if (result == 0)
        result = check_part(&part, stream, call);
    if (result == 0 && (part.count > 0 || nccl_is_message(part.kind)))
        result = nccl_group_put(&part);
    return fake_end(result);
}

/* NCCL has so many parameters. NOLINTBEGIN(readability-function-size) */

hvd_nccl_result_t ncclAllReduce(const void *input, void *output, size_t count, hvd_nccl_type_t type,
                                hvd_nccl_op_t op, struct ncclComm *comm, struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_ALLREDUCE,
                                   .comm = comm,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .op = op};

    return submit(FAKE_CALL_ncclAllReduce, part, stream);
}

hvd_nccl_result_t ncclBroadcast(const void *input, void *output, size_t count, hvd_nccl_type_t type,
                                int root, struct ncclComm *comm, struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_BROADCAST,
                                   .comm = comm,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .root = root};

    return submit(FAKE_CALL_ncclBroadcast, part, stream);
}

hvd_nccl_result_t ncclReduce(const void *input, void *output, size_t count, hvd_nccl_type_t type,
                             hvd_nccl_op_t op, int root, struct ncclComm *comm,
                             struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_REDUCE,
                                   .comm = comm,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .op = op,
                                   .root = root};

    return submit(FAKE_CALL_ncclReduce, part, stream);
}

hvd_nccl_result_t ncclAllGather(const void *input, void *output, size_t count, hvd_nccl_type_t type,
                                struct ncclComm *comm, struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_ALLGATHER,
                                   .comm = comm,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .type = type};

    return submit(FAKE_CALL_ncclAllGather, part, stream);
}

hvd_nccl_result_t ncclReduceScatter(const void *input, void *output, size_t count,
                                    hvd_nccl_type_t type, hvd_nccl_op_t op, struct ncclComm *comm,
                                    struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_REDUCE_SCATTER,
                                   .comm = comm,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .op = op};

    return submit(FAKE_CALL_ncclReduceScatter, part, stream);
}

hvd_nccl_result_t ncclSend(const void *input, size_t count, hvd_nccl_type_t type, int peer,
                           struct ncclComm *comm, struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_SEND,
                                   .comm = comm,
                                   .input = input,
                                   .count = count,
                                   .type = type,
                                   .root = peer};

    return submit(FAKE_CALL_ncclSend, part, stream);
}

hvd_nccl_result_t ncclRecv(void *output, size_t count, hvd_nccl_type_t type, int peer,
                           struct ncclComm *comm, struct CUstream_st *stream)
{
    const struct nccl_part part = {.kind = NCCL_RECV,
                                   .comm = comm,
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .root = peer};

    return submit(FAKE_CALL_ncclRecv, part, stream);
}

/* NOLINTEND(readability-function-size) */
