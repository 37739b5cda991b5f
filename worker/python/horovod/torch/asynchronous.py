"""The asynchronous forms of the collectives: each submits and returns a handle at once.

`synchronize(handle)` waits and returns the result. All ranks of the process set submit the same
names, in any order; a tensor without a name is named by a counter, so then the order of such calls
must be the same on all ranks.

Parameters that all have in common: `name`, unique among what is pending on this rank;
`process_set`, the ranks that take part; `op`, Average unless given; `prescale_factor` and
`postscale_factor`, what inputs and result are multiplied by. `average` is Horovod's older way to
say op. Tensors may be on any device, of any strides, and empty.

Raises ValueError for what is wrong on this rank; then nothing was submitted. Ranks that disagree
get HorovodInternalError from synchronize.
"""
from functools import partial
from operator import attrgetter

import torch

from horovod import _core
from horovod.common import refusals
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import global_process_set
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.torch import adapter
from horovod.torch.adapter import dense, keep, synchronize, written

_basics = HorovodBasics(__file__)

Average = _basics.Average
Sum = _basics.Sum
Adasum = _basics.Adasum
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)


class UnsupportedReduction(ValueError, RuntimeError):
    """The collective does not know that reduction; scripts for Horovod expect a RuntimeError."""


# What the extension raises for what it does not take
REFUSALS = (TypeError, ValueError, RuntimeError, BufferError)


def reduction(op, average, process_set):
    """The reduction that is meant, checked; op None means Average."""
    if average is not None:
        op = handle_average_backwards_compatibility(op, average)
    elif op is None:
        return Average
    if op == Adasum:
        size = process_set.size() or 1
        if size & (size - 1):
            raise NotImplementedError("Running Adasum with non-power of 2 ranks is not supported yet.")
    return op


def _factors(tensors, prescale, postscale):
    """(tensors, prescale, postscale) for the runtime, which knows no factor 0: then zeros are reduced instead."""
    if prescale and postscale:
        return tensors, prescale, postscale
    float(prescale), float(postscale)  # TypeError for what is no number
    return [torch.zeros_like(tensor) for tensor in tensors], 1.0, 1.0


def is_plain(tensor, prescale, postscale):
    """Whether the runtime takes the tensor as it is; else zeros or a copy are submitted in its place."""
    return prescale and postscale and dense(tensor) is tensor


def refused(error, word, tensors, name, process_set, n=0):
    """What to raise for a call of n tensors of a group, or one, that this rank refuses with an error.

    The other ranks would wait for it, so they are told first, unless the runtime has done so.
    """
    if isinstance(error, HorovodInternalError):  # not refused: it failed
        return error
    reason, place = explained(tensors, process_set, name)
    if not getattr(error, "is_told", False):
        text = refusals.reason_of(error if reason is None else reason)
        place = getattr(error, "place_in_group", place)
        if n > 1 and place is not None:
            text = f"tensor {place + 1} of {n}: {text}"
        refusals.announce(text, word, name, process_set, n)
    return error if reason is None else reason


def explained(tensors, process_set, name=None):
    """(an exception, which tensor) for tensors that cannot be sent and a process set that is not registered; or None, None."""
    for place, tensor in enumerate(tensors):
        try:
            adapter.check_supported(tensor, name)
        except Exception as reason:  # pylint: disable=broad-except  # PyTorch's own, of a tensor that does not answer
            return reason, place
    if process_set.process_set_id is None:
        return ValueError(f"{process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...)."), None
    return None, None


def group_of(tensors, word, name, process_set):
    """The tensors of a group as a tuple; ValueError when there are none, which fails the group of the other ranks."""
    if type(tensors) in (list, tuple) and tensors:
        return tuple(tensors)
    try:
        tensors = _all_of(tensors)
    except Exception as error:  # pylint: disable=broad-except  # also a generator's own
        refusals.tell(error, word, name, process_set, refusals.EMPTY_GROUP)
        raise
    return tensors


def _all_of(tensors):
    try:
        tensors = iter(tensors)
    except TypeError:
        raise ValueError(f"A group is a sequence of tensors, not {type(tensors).__qualname__}.") from None
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("A group needs at least one tensor.")
    return tensors


def _each(function, tensors):
    """What the function makes of each tensor of a group; an exception knows of which one it is."""
    made = []
    for tensor in tensors:
        try:
            made.append(function(tensor))
        except Exception as error:  # pylint: disable=broad-except
            error.place_in_group = len(made)
            raise
    return made


def _room_for_all(tensors):
    """Memory for results of a group; ValueError for what is no tensor."""
    try:
        return tuple(map(torch.empty_like, tensors))
    except TypeError:
        for tensor in tensors:
            adapter.check_is_tensor(tensor)
        raise


def _check_needs_copies(error, tensors):
    """Raises what the runtime has refused tensors with, unless it needs copies of some of them."""
    if (isinstance(error, HorovodInternalError) or getattr(error, "is_told", False)
            or all(dense(tensor) is tensor for tensor in tensors)):
        raise error


def _as_they_are(call, tensors, *arguments):
    """Calls the runtime for a group, without a look at each tensor; None where it needs copies of some."""
    try:
        return call(*arguments)
    except REFUSALS as error:
        _check_needs_copies(error, tensors)
    return None


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    """Submits the reduction of `tensor` over the ranks; synchronize gives a new tensor of its shape and type."""
    try:
        op = reduction(op, average, process_set)
        (tensor,), before, after = _factors((tensor,), prescale_factor, postscale_factor)
        source = dense(tensor)
        target = adapter.room_for(tensor, source)
        handle = _core.allreduce_async(source, target, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", (tensor,), name, process_set)
    return keep(handle, adapter.return_to(tensor, target))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    """Submits the reduction of `tensor` over the ranks; the result replaces it once synchronized."""
    try:
        if op is None or op == Adasum or average is not None:
            op = reduction(op, average, process_set)
        try:  # what the runtime does not take as it is, it refuses
            handle = _core.allreduce_async(tensor, tensor, name, op, prescale_factor, postscale_factor,
                                           process_set.process_set_id)
        except REFUSALS as error:
            if getattr(error, "is_told", False) or is_plain(tensor, prescale_factor, postscale_factor):
                raise
        else:
            written(tensor)
            return handle
        target = source = adapter.dense_in_place(tensor)
        if not (prescale_factor and postscale_factor):
            (source,), prescale_factor, postscale_factor = _factors((source,), prescale_factor, postscale_factor)
        handle = _core.allreduce_async(source, target, name, op, prescale_factor, postscale_factor,
                                       process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", (tensor,), name, process_set)
    return keep(handle, adapter.write_back(tensor, target))


def allreduced(tensor, average, name, op, prescale_factor, postscale_factor, process_set):
    """The reduction of `tensor`, waited for; without gradient."""
    try:
        op = reduction(op, average, process_set)
        (tensor,), before, after = _factors((tensor,), prescale_factor, postscale_factor)
        source = dense(tensor)
        target = adapter.room_for(tensor, source)
        _core.allreduce(source, target, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", (tensor,), name, process_set)
    return target if tensor.is_cpu else target.to(tensor.device)


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set):
    """Submits tensors that are reduced together; synchronize gives a tuple of new tensors."""
    tensors = group_of(tensors, "allreduce", name, process_set)
    try:
        op = reduction(op, average, process_set)
        if prescale_factor and postscale_factor:
            handle = _as_they_are(_core.grouped_allreduce_async, tensors, tensors, _room_for_all(tensors),
                                  name, op, prescale_factor, postscale_factor, process_set.process_set_id)
            if handle is not None:
                return handle
        tensors, before, after = _factors(tensors, prescale_factor, postscale_factor)
        sources = _each(dense, tensors)
        targets = [adapter.room_for(tensor, source) for tensor, source in zip(tensors, sources)]
        handle = _core.grouped_allreduce_async(sources, targets, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", tensors, name, process_set, len(tensors))
    return keep(handle, adapter.all_of([adapter.return_to(*pair) for pair in zip(tensors, targets)]))


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set):
    """Submits tensors that are reduced together; the results replace them once synchronized."""
    tensors = group_of(tensors, "allreduce", name, process_set)
    try:
        if op is None or op == Adasum or average is not None:
            op = reduction(op, average, process_set)
        if prescale_factor and postscale_factor:
            try:  # as _as_they_are, a call less
                handle = _core.grouped_allreduce_async(tensors, tensors, name, op, prescale_factor, postscale_factor,
                                                       process_set.process_set_id)
            except REFUSALS as error:
                _check_needs_copies(error, tensors)
            else:
                adapter.all_written(tensors)
                return handle
        targets = _each(adapter.dense_in_place, tensors)
        sources, before, after = targets, prescale_factor, postscale_factor
        if not (before and after):
            sources, before, after = _factors(targets, before, after)
        handle = _core.grouped_allreduce_async(sources, targets, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", tensors, name, process_set, len(tensors))
    return keep(handle, adapter.all_of([adapter.write_back(*pair) for pair in zip(tensors, targets)]))


def group_reduced_in_place(tensors, average, name, op, prescale_factor, postscale_factor, process_set):
    """The reductions of tensors that only the caller has, in their memory, waited for."""
    if not (prescale_factor and postscale_factor):
        return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))
    try:
        if op is None or op == Adasum or average is not None:
            op = reduction(op, average, process_set)
        handle = _core.grouped_allreduce_async(tensors, tensors, name, op, prescale_factor, postscale_factor,
                                               process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", tensors, name, process_set, len(tensors))
    return _core.wait(handle)


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Submits the average or sum of sparse COO tensors of one shape; returns a function.

    Called, it waits and returns the sparse tensor, which is not coalesced: indices and values of all
    ranks stand behind each other. `synchronize` and `poll` take the function as well.
    """
    names = [None if name is None else f"{name}.{part}" for part in ("values", "indices")]
    try:
        op = _sparse_reduction(tensor, op, process_set)
        sent = tensor._values(), tensor._indices().t()
        finish = partial(_sparse, tensor.shape, process_set.size() if op == Average else 1)
    except Exception as error:  # pylint: disable=broad-except
        for part in names:
            refusals.tell(error, "allgather", part, process_set)
        raise
    return adapter.SparseHandle(_gather_all(sent, names, process_set), finish)


def _gather_all(tensors, names, process_set):
    """Submits allgathers of tensors that mean something together only: with one of them the rest is refused."""
    pending = []
    for tensor, name in zip(tensors, names):
        try:
            pending.append(allgather_async(tensor, name, process_set))
        except Exception as error:  # pylint: disable=broad-except
            for other in names[len(pending) + 1:]:
                refusals.announce(refusals.reason_of(error), "allgather", other, process_set)
            raise
    return pending


def _sparse_reduction(tensor, op, process_set):
    """The reduction of a sparse tensor that is meant, checked."""
    op = reduction(op, None, process_set)
    if op not in (Average, Sum):
        raise ValueError("Sparse tensors can be averaged and summed only.")
    adapter.check_is_tensor(tensor)
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"Tensor type {adapter.type_of(tensor)} is not a sparse COO tensor.")
    return op


def _sparse(shape, divisor, values, indices):
    """The sum over the gathered (values, indices) divided by divisor, as a sparse tensor."""
    if divisor != 1:
        values = values / divisor if values.is_floating_point() else values.div(divisor, rounding_mode="trunc")
    return torch.sparse_coo_tensor(indices.t(), values, shape, check_invariants=False)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Submits the concatenation of the ranks' tensors along the first dimension, which may differ between them."""
    return gather_async(tensor, name, process_set, lambda outputs: adapter.from_output(outputs[0], tensor))


def gather_async(tensor, name, process_set, finish):
    """Submits an allgather; synchronize gives finish(the runtime's outputs)."""
    try:
        handle = _core.allgather_async(dense(tensor), name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allgather", (tensor,), name, process_set)
    return keep(handle, finish)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Submits tensors that are gathered together; synchronize gives a tuple of tensors."""
    tensors = group_of(tensors, "allgather", name, process_set)
    return grouped_gather_async(tensors, name, process_set, partial(adapter.from_outputs, likes=tensors))


def grouped_gather_async(tensors, name, process_set, finish):
    """Submits a grouped allgather; synchronize gives finish(the runtime's outputs)."""
    try:
        try:
            handle = _core.grouped_allgather_async(tensors, name, process_set.process_set_id)
        except REFUSALS as error:
            _check_needs_copies(error, tensors)
            handle = _core.grouped_allgather_async(_each(dense, tensors), name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allgather", tensors, name, process_set, len(tensors))
    return keep(handle, finish)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Submits the sending of root_rank's tensor to all; synchronize gives a new tensor of the same shape and type.

    root_rank is a rank of the job, also in a process set.
    """
    try:
        source = dense(tensor)
        target = adapter.room_for(tensor, source)
        handle = _core.broadcast_async(source, target, root_rank, name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "broadcast", (tensor,), name, process_set)
    return keep(handle, adapter.return_to(tensor, target))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Submits the sending of root_rank's tensor to all; it replaces `tensor` once synchronized."""
    try:
        target = adapter.dense_in_place(tensor)
        handle = _core.broadcast_async(target, target, root_rank, name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "broadcast", (tensor,), name, process_set)
    return keep(handle, adapter.write_back(tensor, target))


def broadcasted(tensor, root_rank, name, process_set):
    """root_rank's tensor, waited for; without gradient."""
    try:
        source = dense(tensor)
        target = adapter.room_for(tensor, source)
        _core.broadcast(source, target, root_rank, name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "broadcast", (tensor,), name, process_set)
    return target if tensor.is_cpu else target.to(tensor.device)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Submits the sending of splits[r] rows of `tensor` to each rank r of the process set.

    splits: integers, as a tensor of one dimension or any sequence; without them every rank gets the
    same number of rows. synchronize gives (what was received, in rank order; how many rows came from
    each rank, of the type of splits, else int32).
    """
    try:
        counts = _split_counts(splits)
        handle = _core.alltoall_async(dense(tensor), counts, name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "alltoall", (tensor,), name, process_set)
    return keep(handle, partial(_exchanged, tensor, splits, process_set.size()))


def _split_counts(splits):
    """splits as a list of integers, or None for equal parts."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        try:
            splits = torch.tensor(splits, dtype=None if len(splits) else torch.int64)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"alltoall expects splits to be integers, one for each rank, not {splits!r}.") from None
    if splits.dim() != 1:
        raise ValueError("alltoall expects a 1D splits tensor")
    if splits.is_floating_point() or splits.is_complex() or splits.dtype == torch.bool:
        raise ValueError("alltoall expects splits to contain integer elements.")
    return splits.tolist() or None


def _exchanged(tensor, splits, size, outputs):
    """(received rows, rows received from each rank) of an alltoall."""
    received = [outputs[0].rows_of(rank) for rank in range(size)]
    if isinstance(splits, torch.Tensor):
        received = torch.tensor(received, dtype=splits.dtype, device=splits.device)
    else:
        received = torch.tensor(received, dtype=torch.int32)
    return adapter.from_output(outputs[0], tensor), received


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """Submits the average or sum of the ranks' tensors; synchronize gives this rank's part of the rows.

    Of N rows over n ranks each gets N / n, and the first N % n ranks one more.
    """
    try:
        (tensor,), before, after = _factors((tensor,), prescale_factor, postscale_factor)
        source = dense(tensor)
        target = _rows_for(source, process_set)
        handle = _scatter(_core.reducescatter_async, source, target, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "reducescatter", (tensor,), name, process_set)
    return keep(handle, adapter.return_to(tensor, target))


def scattered(tensor, name, op, process_set, prescale_factor, postscale_factor):
    """This rank's rows of the reduction of `tensor`, waited for; without gradient."""
    try:
        (tensor,), before, after = _factors((tensor,), prescale_factor, postscale_factor)
        source = dense(tensor)
        target = _rows_for(source, process_set)
        _scatter(_core.reducescatter, source, target, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "reducescatter", (tensor,), name, process_set)
    return target if tensor.is_cpu else target.to(tensor.device)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0):
    """Submits tensors that are reduced and scattered together; synchronize gives a tuple of tensors."""
    tensors = group_of(tensors, "reducescatter", name, process_set)
    try:
        if prescale_factor and postscale_factor and process_set.included():
            handle = _as_they_are(partial(_scatter, _core.grouped_reducescatter_async), tensors, tensors,
                                  _rows_for_all(tensors, process_set), name, op, prescale_factor, postscale_factor,
                                  process_set.process_set_id)
            if handle is not None:
                return handle
        tensors, before, after = _factors(tensors, prescale_factor, postscale_factor)
        sources = _each(dense, tensors)
        targets = _each(partial(_rows_for, process_set=process_set), sources)
        handle = _scatter(_core.grouped_reducescatter_async, sources, targets, name, op, before, after, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "reducescatter", tensors, name, process_set, len(tensors))
    return keep(handle, adapter.all_of([adapter.return_to(*pair) for pair in zip(tensors, targets)]))


def _scatter(call, source, target, name, op, before, after, set_id):
    """Calls the runtime for what reduces and scatters, which knows two reductions."""
    try:
        return call(source, target, name, op, before, after, set_id)
    except ValueError as refusal:
        if op in (Average, Sum):
            raise
        unsupported = UnsupportedReduction(str(refusal))
        unsupported.is_told = getattr(refusal, "is_told", False)
        raise unsupported from None


def _rows_for_all(tensors, process_set):
    """The same as _rows_for for a group, once for each shape; ValueError for what is no tensor."""
    rank, size = process_set.rank(), process_set.size()
    try:
        shapes = tuple(map(_shape_of, tensors))
        scattered_shapes = {shape: (_core.reducescatter_rows(shape[0], rank, size), *shape[1:]) for shape in set(shapes)}
        return tuple(map(torch.Tensor.new_empty, tensors, map(scattered_shapes.__getitem__, shapes)))
    except (AttributeError, TypeError, IndexError):  # no tensor, or one without dimensions, which the runtime refuses
        for tensor in tensors:
            adapter.check_is_tensor(tensor)
        return tuple(_rows_for(tensor, process_set) for tensor in tensors)


_shape_of = attrgetter("shape")


def _rows_for(tensor, process_set):
    """Memory for this rank's part of the rows of `tensor`; what has no rows is left to the runtime to refuse."""
    if tensor.dim() == 0 or not process_set.included():
        return torch.empty_like(tensor)
    rows = _core.reducescatter_rows(tensor.shape[0], process_set.rank(), process_set.size())
    return tensor.new_empty((rows, *tensor.shape[1:]))
