"""The functions that lie below the collectives in Horovod's mpi_ops: they take the output as an argument.

Forks of its optimizer call them. Each returns a handle; synchronize() gives the output, which is made as large as the
result where it is not. What is wrong is refused as it is by the others.
"""
import torch

from horovod import _core
from horovod.torch import adapter
from horovod.torch.asynchronous import Adasum, _rows_for, _scatter, _split_counts, group_of, reduction, refused
from horovod.torch.adapter import dense, keep


def _taken(output, result):
    """The result in the output, which gets its shape."""
    with torch.no_grad():
        if output.shape != result.shape:
            output.resize_(result.shape)
        return output.copy_(result)


def _target(output):
    return adapter.dense_in_place(output)


def _allreduce_async(tensor, output, name, op, prescale_factor, postscale_factor, process_set):
    try:
        if op == Adasum:
            reduction(op, None, process_set)
        target = _target(output)
        handle = _core.allreduce_async(dense(tensor), target, name, op, prescale_factor, postscale_factor,
                                       process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", (tensor, output), name, process_set)
    return keep(handle, adapter.write_back(output, target))


def _grouped_allreduce_async(tensors, outputs, name, op, prescale_factor, postscale_factor, process_set):
    tensors = group_of(tensors, "allreduce", name, process_set)
    try:
        if op == Adasum:
            reduction(op, None, process_set)
        targets = [_target(output) for output in outputs]
        handle = _core.grouped_allreduce_async([dense(tensor) for tensor in tensors], targets, name, op, prescale_factor,
                                               postscale_factor, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", tensors, name, process_set, len(tensors))
    return keep(handle, adapter.all_of([adapter.write_back(*pair) for pair in zip(outputs, targets)]))


def _allgather_async(tensor, output, name, process_set):
    try:
        handle = _core.allgather_async(dense(tensor), name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allgather", (tensor,), name, process_set)
    return keep(handle, lambda results: _taken(output, adapter.from_output(results[0], tensor)))


def _grouped_allgather_async(tensors, outputs, name, process_set):
    tensors = group_of(tensors, "allgather", name, process_set)
    try:
        handle = _core.grouped_allgather_async([dense(tensor) for tensor in tensors], name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allgather", tensors, name, process_set, len(tensors))
    return keep(handle, lambda results: tuple(_taken(output, adapter.from_output(result, tensor))
                                              for output, result, tensor in zip(outputs, results, tensors)))


def _broadcast_async(tensor, output, root_rank, name, process_set):
    try:
        target = _target(output)
        handle = _core.broadcast_async(dense(tensor), target, root_rank, name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "broadcast", (tensor, output), name, process_set)
    return keep(handle, adapter.write_back(output, target))


def _alltoall_async(tensor, splits, output, output_received_splits, name, process_set):
    try:
        handle = _core.alltoall_async(dense(tensor), _split_counts(splits), name, process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "alltoall", (tensor,), name, process_set)

    def finish(results):
        received = torch.tensor([results[0].rows_of(rank) for rank in range(process_set.size())],
                                dtype=output_received_splits.dtype)
        return (_taken(output, adapter.from_output(results[0], tensor)), _taken(output_received_splits, received))

    return keep(handle, finish)


def _reducescatter_async(tensor, output, name, op, process_set, prescale_factor, postscale_factor):
    try:
        source = dense(tensor)
        target = _rows_for(source, process_set)
        handle = _scatter(_core.reducescatter_async, source, target, name, op, prescale_factor, postscale_factor,
                          process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "reducescatter", (tensor,), name, process_set)
    return keep(handle, lambda _: _taken(output, target))


def _grouped_reducescatter_async(tensors, outputs, name, op, process_set, prescale_factor, postscale_factor):
    tensors = group_of(tensors, "reducescatter", name, process_set)
    try:
        sources = [dense(tensor) for tensor in tensors]
        targets = [_rows_for(source, process_set) for source in sources]
        handle = _scatter(_core.grouped_reducescatter_async, sources, targets, name, op, prescale_factor, postscale_factor,
                          process_set.process_set_id)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "reducescatter", tensors, name, process_set, len(tensors))
    return keep(handle, lambda _: tuple(map(_taken, outputs, targets)))
