"""The functions below the collectives in Horovod's mpi_ops, which take the output as an argument.

Forks of its optimizer call them. Each returns a handle; synchronize() returns the output, resized to the result if
necessary. They refuse wrong arguments as the other functions do.
"""
import torch

from horovod import _core
from horovod.common.operations import Adasum, all_of, keep, reduction
from horovod.torch.adapter import dense, dense_in_place, from_output, split_counts, write_back
from horovod.torch.asynchronous import operations

group_of, refused = operations.group_of, operations.refused


def _taken(output, result):
    """Copies the result to the output, which gets its shape."""
    with torch.no_grad():
        if output.shape != result.shape:
            output.resize_(result.shape)
        return output.copy_(result)


def _allreduce_async(tensor, output, name, op, prescale_factor, postscale_factor, process_set):
    try:
        if op == Adasum:
            reduction(op, None, process_set)
        target = dense_in_place(output)
        handle = _core.allreduce_async(dense(tensor), target, name, op, prescale_factor, postscale_factor,
                                       process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", (tensor, output), name, process_set)
    return keep(handle, write_back(output, target))


def _grouped_allreduce_async(tensors, outputs, name, op, prescale_factor, postscale_factor, process_set):
    tensors = group_of(tensors, "allreduce", name, process_set)
    try:
        if op == Adasum:
            reduction(op, None, process_set)
        targets = [dense_in_place(output) for output in outputs]
        handle = _core.grouped_allreduce_async([dense(tensor) for tensor in tensors], targets, name, op, prescale_factor,
                                               postscale_factor, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", tensors, name, process_set, len(tensors))
    return keep(handle, all_of([write_back(*pair) for pair in zip(outputs, targets)]))


def _allgather_async(tensor, output, name, process_set):
    try:
        handle = _core.allgather_async(dense(tensor), name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allgather", (tensor,), name, process_set)
    return keep(handle, lambda results: _taken(output, from_output(results[0], tensor)))


def _grouped_allgather_async(tensors, outputs, name, process_set):
    tensors = group_of(tensors, "allgather", name, process_set)
    try:
        handle = _core.grouped_allgather_async([dense(tensor) for tensor in tensors], name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allgather", tensors, name, process_set, len(tensors))
    return keep(handle, lambda results: tuple(_taken(output, from_output(result, tensor))
                                              for output, result, tensor in zip(outputs, results, tensors)))


def _broadcast_async(tensor, output, root_rank, name, process_set):
    try:
        target = dense_in_place(output)
        handle = _core.broadcast_async(dense(tensor), target, root_rank, name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "broadcast", (tensor, output), name, process_set)
    return keep(handle, write_back(output, target))


def _alltoall_async(tensor, splits, output, output_received_splits, name, process_set):
    try:
        handle = _core.alltoall_async(dense(tensor), split_counts(splits), name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "alltoall", (tensor,), name, process_set)

    def finish(results):
        received = torch.tensor([results[0].rows_of(rank) for rank in range(process_set.size())],
                                dtype=output_received_splits.dtype)
        return (_taken(output, from_output(results[0], tensor)), _taken(output_received_splits, received))

    return keep(handle, finish)


def _reducescatter_async(tensor, output, name, op, process_set, prescale_factor, postscale_factor):
    try:
        source = dense(tensor)
        target = operations.rows_for(source, process_set)
        handle = _core.reducescatter_async(source, target, name, op, prescale_factor, postscale_factor,
                                           process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(operations.scatter_error(error, op), "reducescatter", (tensor,), name, process_set)
    return keep(handle, lambda _: _taken(output, target))


def _grouped_reducescatter_async(tensors, outputs, name, op, process_set, prescale_factor, postscale_factor):
    tensors = group_of(tensors, "reducescatter", name, process_set)
    try:
        sources = [dense(tensor) for tensor in tensors]
        targets = [operations.rows_for(source, process_set) for source in sources]
        handle = _core.grouped_reducescatter_async(sources, targets, name, op, prescale_factor, postscale_factor,
                                                   process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(operations.scatter_error(error, op), "reducescatter", tensors, name, process_set, len(tensors))
    return keep(handle, lambda _: tuple(map(_taken, outputs, targets)))
