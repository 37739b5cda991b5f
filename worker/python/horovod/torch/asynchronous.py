"""The asynchronous forms of the collectives: each submits and returns a handle at once.

`synchronize(handle)` waits and returns the result. These are the methods of horovod.common.operations for tensors of
PyTorch, which may be on any device, of any strides, and empty. Only PyTorch also has sparse tensors.
"""
from functools import partial

import torch

from horovod.common import refusals
from horovod.common.basics import Average, Sum
from horovod.common.operations import Operations, SparseHandle, reduction
from horovod.common.process_sets import global_process_set
from horovod.torch.adapter import TorchAdapter, UnsupportedReduction, check_is_tensor, type_of  # noqa: F401

operations = Operations(TorchAdapter(), __name__)
allreduce_async = operations.allreduce_async
allreduce_async_ = operations.allreduce_async_
grouped_allreduce_async = operations.grouped_allreduce_async
grouped_allreduce_async_ = operations.grouped_allreduce_async_
allgather_async = operations.allgather_async
grouped_allgather_async = operations.grouped_allgather_async
broadcast_async = operations.broadcast_async
broadcast_async_ = operations.broadcast_async_
alltoall_async = operations.alltoall_async
reducescatter_async = operations.reducescatter_async
grouped_reducescatter_async = operations.grouped_reducescatter_async


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Submits the average or sum of sparse COO tensors of one shape; returns a function.

    A call of it waits and returns the sparse tensor, which is not coalesced: it concatenates the indices and values of all
    ranks. `synchronize` and `poll` accept the function as well.
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
    return SparseHandle(_gather_all(sent, names, process_set), finish)


def _gather_all(tensors, names, process_set):
    """Submits allgathers of tensors that belong together: if one is refused, refuses the rest, too."""
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
    """Returns the reduction of a sparse tensor that the arguments request, checked."""
    op = reduction(op, None, process_set)
    if op not in (Average, Sum):
        raise ValueError("Sparse tensors can be averaged and summed only.")
    check_is_tensor(tensor)
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"Tensor type {type_of(tensor)} is not a sparse COO tensor.")
    return op


def _sparse(shape, divisor, values, indices):
    """Returns the sum over the gathered (values, indices) divided by divisor, as a sparse tensor."""
    if divisor != 1:
        values = values / divisor if values.is_floating_point() else values.div(divisor, rounding_mode="trunc")
    return torch.sparse_coo_tensor(indices.t(), values, shape, check_invariants=False)
