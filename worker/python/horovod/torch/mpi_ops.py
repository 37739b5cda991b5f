"""The collectives of horovod.torch: the blocking forms, with gradients, beside the asynchronous ones.

Gradients follow Horovod's convention that the loss is averaged over the ranks. Counters name the
operations of a backward pass, so every rank runs the same backward passes in the same order.
Parameters and errors are those of horovod.torch.asynchronous. A failure after the submission raises
HorovodInternalError; the job continues unless the message states otherwise.
"""
from operator import attrgetter

import torch

from horovod import _core
from horovod.common.basics import (  # noqa: F401
    Adasum, Average, Max, Min, Product, Sum, basics as _basics, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
    gloo_built, gloo_enabled, is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, rank, rocm_built, size, start_timeline, stop_timeline)
from horovod.common.exceptions import HorovodInternalError  # noqa: F401 (part of the interface)
from horovod.common.operations import barrier, handle_average_backwards_compatibility, poll, synchronize  # noqa: F401
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set  # noqa: F401
from horovod.common.process_sets import _setup as _setup_process_sets  # noqa: F401 (forks import it)
from horovod.common.util import (check_installed_version, get_average_backwards_compatibility_fun,  # noqa: F401
                                 gpu_available, num_rank_is_power_2)
from horovod.torch import mpi_lib_v2 as mpi_lib  # noqa: F401
from horovod.torch.adapter import from_output, from_outputs
from horovod.torch.asynchronous import (  # noqa: F401
    allgather_async, allreduce_async, allreduce_async_, alltoall_async, broadcast_async, broadcast_async_,
    grouped_allgather_async, grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter_async, operations,
    reducescatter_async, sparse_allreduce_async)
from horovod.torch.compression import Compression, pack, unpack
from horovod.torch.outputs import (  # noqa: F401
    _allgather_async, _allreduce_async, _alltoall_async, _broadcast_async, _grouped_allgather_async,
    _grouped_allreduce_async, _grouped_reducescatter_async, _reducescatter_async)

_NULL = ""


def init(*args, **kwargs):
    """Joins the job: init(comm=None, process_sets=None) of horovod.common.basics."""
    return _basics.init(*args, **kwargs)


def shutdown(*args, **kwargs):
    """Leaves the job; pending operations raise HorovodInternalError when they are synchronized."""
    return _basics.shutdown(*args, **kwargs)


allreduce_ = operations.allreduce_
grouped_allreduce_ = operations.grouped_allreduce_
broadcast_ = operations.broadcast_

_requires_grad = attrgetter("requires_grad")


def _has_gradient(*tensors):
    """Returns whether a result of these tensors becomes part of the graph."""
    try:
        return torch.is_grad_enabled() and any(map(_requires_grad, tensors))
    except Exception:  # pylint: disable=broad-except  # no tensor, or one that does not answer: the submission refuses it
        return False


def _one_compressed(tensor, compression, word, name, process_set):
    """Returns (the tensor to send, the context for decompress). A failure makes the other ranks' call fail, too."""
    try:
        return compression.compress(tensor)
    except Exception as error:  # pylint: disable=broad-except
        raise operations.refused(error, word, (tensor,), name, process_set)


class HorovodAllreduce(torch.autograd.Function):
    """Allreduce; the gradient is the allreduce of the gradients with the same reduction and factors."""

    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):
        ctx.reduction = (average, None, op, prescale_factor, postscale_factor, process_set)
        return operations.allreduce(tensor, average, name, op, prescale_factor, postscale_factor, process_set)

    @staticmethod
    def backward(ctx, grad_output):
        average, name, op, prescale, postscale, process_set = ctx.reduction
        gradient = allreduce(grad_output, average, name, Compression.none, op, prescale, postscale, process_set)
        return gradient, None, None, None, None, None, None


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    """Returns the reduction of `tensor` over the ranks: a new tensor of its shape and type, with gradient.

    compression: the type in which it is sent (Compression.none, fp16, bf16).
    """
    sent, ctx = _one_compressed(tensor, compression, "allreduce", name, process_set)
    if _has_gradient(sent):
        result = HorovodAllreduce.apply(sent, average, name, op, prescale_factor, postscale_factor, process_set)
    else:
        result = operations.allreduce(sent, average, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(result, ctx)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """Grouped allreduce; the gradient is the grouped allreduce of the gradients."""

    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set: ProcessSet, *tensors):
        ctx.reduction = (average, None, op, prescale_factor, postscale_factor, process_set)
        return synchronize(
            grouped_allreduce_async(tensors, average, name, op, prescale_factor, postscale_factor, process_set))

    @staticmethod
    def backward(ctx, *grad_output):
        average, name, op, prescale, postscale, process_set = ctx.reduction
        gradients = grouped_allreduce(grad_output, average, name, Compression.none, op, prescale, postscale, process_set)
        return (None, None, None, None, None, None, *gradients)


def _compressed(tensors, compression, word, name, process_set):
    """Returns (a group's tensors to send; the context for decompress of each, or the common type that they had, or None)."""
    tensors = operations.group_of(tensors, word, name, process_set)
    if compression is Compression.none:
        return tensors, None
    try:
        packed = pack(tensors, compression)
        if packed is not None:
            return packed, tensors[0].dtype
        return zip(*map(compression.compress, tensors))
    except Exception as error:  # pylint: disable=broad-except
        raise operations.refused(error, word, tensors, name, process_set, len(tensors))


def _decompressed(results, contexts, compression):
    """Reverses _compressed for the results of a group; returns a list."""
    if contexts is None:
        return list(results)
    if isinstance(contexts, torch.dtype):
        return unpack(results, contexts)
    return [compression.decompress(result, ctx) for result, ctx in zip(results, contexts)]


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set):
    """Returns the reductions of `tensors`, done together: a list of new tensors, with gradients."""
    tensors = operations.group_of(tensors, "allreduce", name, process_set)
    packed = pack(tensors, compression)
    if packed is not None:  # packed is private memory
        return unpack(operations.group_reduced_in_place(packed, average, name, op, prescale_factor, postscale_factor, process_set),
                      tensors[0].dtype)
    sent, contexts = _compressed(tensors, compression, "allreduce", name, process_set)
    options = (average, name, op, prescale_factor, postscale_factor, process_set)
    if _has_gradient(*sent):
        results = HorovodGroupedAllreduce.apply(*options, *sent)
    else:
        results = synchronize(grouped_allreduce_async(sent, *options))
    return _decompressed(results, contexts, compression)


def _offset(output, process_set):
    """Returns the first row of an allgather's output that came from this rank."""
    return sum(output.rows_of(other) for other in range(process_set.rank()))


class HorovodAllgather(torch.autograd.Function):
    """Allgather; the gradient is this rank's rows of the average of the gradients."""

    @staticmethod
    def forward(ctx, tensor, name, process_set: ProcessSet):
        ctx.process_set = process_set

        def finish(outputs):
            ctx.rows = tensor.shape[0]
            ctx.offset = _offset(outputs[0], process_set)
            return from_output(outputs[0], tensor)

        return synchronize(operations.gather_async(tensor, name, process_set, finish))

    @staticmethod
    def backward(ctx, grad_output):
        gradient = allreduce(grad_output, op=Average, process_set=ctx.process_set)
        return gradient.narrow(0, ctx.offset, ctx.rows), None, None


def allgather(tensor, name=None, process_set=global_process_set):
    """Returns the ranks' tensors concatenated along the first dimension, which may differ; with gradient."""
    if _has_gradient(tensor):
        return HorovodAllgather.apply(tensor, name, process_set)
    return synchronize(allgather_async(tensor, name, process_set))


class HorovodGroupedAllgather(torch.autograd.Function):
    """Grouped allgather; gradients as those of HorovodAllgather, reduced together."""

    @staticmethod
    def forward(ctx, name, process_set: ProcessSet, *tensors):
        ctx.process_set = process_set

        def finish(outputs):
            ctx.places = [(_offset(output, process_set), tensor.shape[0]) for output, tensor in zip(outputs, tensors)]
            return from_outputs(outputs, tensors)

        return synchronize(operations.grouped_gather_async(tensors, name, process_set, finish))

    @staticmethod
    def backward(ctx, *grad_output):
        gradients = grouped_allreduce(grad_output, op=Average, process_set=ctx.process_set)
        return (None, None, *(gradient.narrow(0, *place) for gradient, place in zip(gradients, ctx.places)))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """Returns the allgathers of `tensors`, done together: a tuple of new tensors, with gradients."""
    tensors = operations.group_of(tensors, "allgather", name, process_set)
    if _has_gradient(*tensors):
        return HorovodGroupedAllgather.apply(name, process_set, *tensors)
    return synchronize(grouped_allgather_async(tensors, name, process_set))


class HorovodBroadcast(torch.autograd.Function):
    """Broadcast; the gradient is the average of the gradients on the root, and zeros on other ranks."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set: ProcessSet):
        ctx.is_root, ctx.process_set = rank() == root_rank, process_set
        return operations.broadcast(tensor, root_rank, name, process_set)

    @staticmethod
    def backward(ctx, grad_output):
        gradient = allreduce(grad_output, op=Average, process_set=ctx.process_set)
        return (gradient if ctx.is_root else torch.zeros_like(gradient)), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """Returns a new tensor with the values that `tensor` has on root_rank, a rank of the job; with gradient."""
    if _has_gradient(tensor):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)
    return operations.broadcast(tensor, root_rank, name, process_set)


def _owned(gradient):
    """Returns a gradient in PyTorch's memory: autograd gives it to other streams, and drops it by record_stream, which memory of
    the runtime on a GPU does not follow."""
    return gradient.clone() if gradient.is_cuda else gradient


class HorovodAlltoall(torch.autograd.Function):
    """Alltoall; the gradient's rows return to the ranks that sent the rows."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set: ProcessSet):
        output, received_splits = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.rows, ctx.received_splits, ctx.process_set = tensor.shape[0], received_splits, process_set
        if splits is None:
            return output
        ctx.mark_non_differentiable(received_splits)
        return output, received_splits

    @staticmethod
    def backward(ctx, grad_output, *dead_gradients):
        gradient, _ = alltoall(grad_output, ctx.received_splits, process_set=ctx.process_set)
        if gradient.shape[0] < ctx.rows:  # rows behind the sum of the splits were not sent
            unsent = gradient.new_zeros((ctx.rows - gradient.shape[0], *gradient.shape[1:]))
            return torch.cat([gradient, unsent]), None, None, None
        return _owned(gradient), None, None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Returns the rows that the ranks sent to this one, in rank order, with gradient; with splits (output, received splits).

    splits: how many rows go to each rank; without them the same number to each.
    """
    if _has_gradient(tensor):
        return HorovodAlltoall.apply(tensor, splits, name, process_set)
    output, received_splits = synchronize(alltoall_async(tensor, splits, name, process_set))
    return output if splits is None else (output, received_splits)


def _gradient_factors(op, process_set, prescale_factor, postscale_factor):
    """Returns the factors of a reducescatter's gradients. They apply one after the other as in Horovod, because each rounds."""
    return [factor for factor in (process_set.size() if op == Sum else 1, prescale_factor, postscale_factor) if factor != 1]


def _multiplied(gradient, factors):
    for factor in factors:
        gradient = gradient * factor
    return gradient


class HorovodReducescatter(torch.autograd.Function):
    """Reducescatter; the gradient is the allgather of the gradients, times the factors and, for Sum, the size."""

    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):
        ctx.process_set = process_set
        ctx.factors = _gradient_factors(op, process_set, prescale_factor, postscale_factor)
        return operations.reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor)

    @staticmethod
    def backward(ctx, grad_output):
        gradient = allgather(_multiplied(grad_output, ctx.factors), process_set=ctx.process_set)
        return _owned(gradient), None, None, None, None, None


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """Returns this rank's rows of the average or sum of the ranks' tensors, with gradient."""
    sent, ctx = _one_compressed(tensor, compression, "reducescatter", name, process_set)
    if _has_gradient(sent):
        result = HorovodReducescatter.apply(sent, name, op, process_set, prescale_factor, postscale_factor)
    else:
        result = operations.reducescatter(sent, name, op, process_set, prescale_factor, postscale_factor)
    return compression.decompress(result, ctx)


class HorovodGroupedReducescatter(torch.autograd.Function):
    """Grouped reducescatter; gradients as those of HorovodReducescatter, gathered together."""

    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):
        ctx.process_set = process_set
        ctx.factors = _gradient_factors(op, process_set, prescale_factor, postscale_factor)
        return synchronize(
            grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor))

    @staticmethod
    def backward(ctx, *grad_output):
        gradients = grouped_allgather([_multiplied(grad, ctx.factors) for grad in grad_output], process_set=ctx.process_set)
        return (None, None, None, None, None, *map(_owned, gradients))


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0):
    """Returns this rank's rows of the reductions of `tensors`, done together: a list of tensors, with gradients."""
    sent, contexts = _compressed(tensors, compression, "reducescatter", name, process_set)
    options = (name, op, process_set, prescale_factor, postscale_factor)
    if _has_gradient(*sent):
        results = HorovodGroupedReducescatter.apply(*options, *sent)
    else:
        results = synchronize(grouped_reducescatter_async(sent, *options))
    return _decompressed(results, contexts, compression)


def join(device=-1) -> int:
    """Joins: this rank has no more data. Waits until all ranks have joined, and returns the last one.

    Until then this rank adds zeros to the sums and averages of the others. `device` is accepted for
    Horovod's scripts, and has no effect.
    """
    return _core.join()
