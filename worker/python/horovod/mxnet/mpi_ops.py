"""The collectives of horovod.mxnet. They return when the result is there, and no gradient passes through them.

`priority` is accepted for Horovod's scripts, and has no effect: the ranks agree on an order among what is submitted.
Parameters and errors are those of horovod.common.operations.
"""
from horovod.common.basics import (  # noqa: F401
    Adasum, Average, Max, Min, Product, Sum, basics as _basics, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built,
    gloo_enabled, is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank, rocm_built,
    size, start_timeline, stop_timeline)
from horovod.common.operations import handle_average_backwards_compatibility, synchronize  # noqa: F401
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set  # noqa: F401
from horovod.mxnet.adapter import operations

shutdown = _basics.shutdown


def init(*args, **kwargs):
    """Joins the job: init(comm=None, process_sets=None) of horovod.common.basics."""
    return _basics.init(*args, **kwargs)


def allreduce(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
              process_set=global_process_set, op=None):
    """Returns the reduction of `tensor` over the ranks, a new array."""
    del priority
    return operations.allreduce(tensor, average, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set, op=None):
    """Replaces `tensor` by its reduction over the ranks, and returns it."""
    del priority
    return operations.allreduce_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce(tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
                      process_set=global_process_set, op=None):
    """Returns the reductions of `tensors`, done together, as a list of new arrays. Returns no tensors as they are."""
    del priority
    if _is_empty(tensors):
        return tensors
    return list(synchronize(operations.grouped_allreduce_async(tensors, average, name, op, prescale_factor, postscale_factor,
                                                               process_set)))


def grouped_allreduce_(tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set, op=None):
    """Replaces `tensors` by their reductions, done together, and returns them."""
    del priority
    if not _is_empty(tensors):
        operations.grouped_allreduce_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    return tensors


def _is_empty(tensors):
    return isinstance(tensors, (list, tuple)) and not tensors


def allgather(tensor, name=None, priority=0, process_set=global_process_set):
    """Returns the ranks' arrays concatenated along the first dimension, which may differ."""
    del priority
    return synchronize(operations.allgather_async(tensor, name, process_set))


def grouped_allgather(tensors, name=None, priority=0, process_set=global_process_set):
    """Returns the allgathers of `tensors`, done together, as a list of new arrays."""
    del priority
    return list(synchronize(operations.grouped_allgather_async(tensors, name, process_set)))


def broadcast(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """Returns a new array with the values that `tensor` has on root_rank, a rank of the job."""
    del priority
    return operations.broadcast(tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """Replaces `tensor` by the values that it has on root_rank, and returns it."""
    del priority
    return operations.broadcast_(tensor, root_rank, name, process_set)


def alltoall(tensor, splits=None, name=None, priority=0, process_set=global_process_set):
    """Returns the rows that the ranks sent to this one, in rank order; with splits (rows, how many came from each rank).

    splits: how many rows go to each rank; without them the same number to each.
    """
    del priority
    received = synchronize(operations.alltoall_async(tensor, splits, name, process_set))
    return received[0] if splits is None else received


def reducescatter(tensor, op=Average, name=None, priority=0, process_set=global_process_set, prescale_factor=1.0,
                  postscale_factor=1.0):
    """Returns this rank's rows of the average or sum of the ranks' arrays."""
    del priority
    return operations.reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor)


def grouped_reducescatter(tensors, op=Average, name=None, priority=0, process_set=global_process_set, prescale_factor=1.0,
                          postscale_factor=1.0):
    """Returns this rank's rows of the reductions of `tensors`, done together, as a list."""
    del priority
    return list(synchronize(operations.grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor,
                                                                   postscale_factor)))
