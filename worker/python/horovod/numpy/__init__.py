"""The collectives for arrays, without a framework: `import horovod.numpy as hvd`.

An array is any object with accessible memory: of NumPy, of the standard library (array, bytearray, memoryview), or by
DLPack. Results are NumPy arrays if NumPy is installed, else memoryviews. Functions that end in `_` write to their
array; those with `_async` return a handle for synchronize().
"""
from horovod import _core
from horovod.common.basics import (  # noqa: F401
    Adasum, Average, Max, Min, Product, Sum, cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank,
    local_size, mpi_threads_supported, rank, shutdown, size, start_timeline, stop_timeline)
from horovod.common.exceptions import HorovodInternalError  # noqa: F401
from horovod.common.operations import Operations as _Operations
from horovod.common.operations import barrier  # noqa: F401
from horovod.common.process_sets import (  # noqa: F401
    ProcessSet, add_process_set, global_process_set, remove_process_set)
from horovod.numpy.adapter import ArrayAdapter as _ArrayAdapter

operations = _Operations(_ArrayAdapter(), __name__)


def synchronize(handle):
    """Waits for a handle and returns its result. Raises HorovodInternalError if the collective failed."""
    return _core.wait(handle)


def poll(handle):
    """Returns whether synchronize() would return at once."""
    return _core.poll(handle)


def allreduce_async(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    """See allreduce."""
    return operations.allreduce_async(array, None, name, op, prescale_factor, postscale_factor, process_set)


def allreduce(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Returns the reduction of the arrays of all ranks, element by element."""
    return operations.allreduce(array, None, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_async_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    """See allreduce_."""
    try:  # the extension takes the array unchanged, or refuses it
        return _core.allreduce_async(array, array, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        raise operations.refused(error, "allreduce", (array,), name, process_set)


def allreduce_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """allreduce in place."""
    try:
        return _core.allreduce(array, array, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        raise operations.refused(error, "allreduce", (array,), name, process_set)


def grouped_allreduce_async(arrays, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set):
    """See grouped_allreduce."""
    return operations.grouped_allreduce_async(arrays, None, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce(arrays, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                      process_set=global_process_set):
    """allreduce of several arrays that complete together; raises ValueError if there are none."""
    return synchronize(
        operations.grouped_allreduce_async(arrays, None, name, op, prescale_factor, postscale_factor, process_set))


def allgather_async(array, name=None, process_set=global_process_set):
    """See allgather."""
    return operations.allgather_async(array, name, process_set)


def allgather(array, name=None, process_set=global_process_set):
    """Returns the arrays of all ranks, one behind the other; first dimensions may differ."""
    return synchronize(operations.allgather_async(array, name, process_set))


def grouped_allgather(arrays, name=None, process_set=global_process_set):
    """allgather of several arrays that complete together; raises ValueError if there are none."""
    return synchronize(operations.grouped_allgather_async(arrays, name, process_set))


def broadcast_async(array, root_rank, name=None, process_set=global_process_set):
    """See broadcast."""
    return operations.broadcast_async(array, root_rank, name, process_set)


def broadcast(array, root_rank, name=None, process_set=global_process_set):
    """Returns the root's array on every rank."""
    return operations.broadcast(array, root_rank, name, process_set)


def broadcast_async_(array, root_rank, name=None, process_set=global_process_set):
    """See broadcast_."""
    try:
        return _core.broadcast_async(array, array, root_rank, name, process_set.process_set_id)
    except Exception as error:
        raise operations.refused(error, "broadcast", (array,), name, process_set)


def broadcast_(array, root_rank, name=None, process_set=global_process_set):
    """broadcast in place."""
    try:
        return _core.broadcast(array, array, root_rank, name, process_set.process_set_id)
    except Exception as error:
        raise operations.refused(error, "broadcast", (array,), name, process_set)


def alltoall_async(array, splits=None, name=None, process_set=global_process_set):
    """See alltoall."""
    return operations.alltoall_async(array, splits, name, process_set)


def alltoall(array, splits=None, name=None, process_set=global_process_set):
    """Sends splits[i] rows to rank i, or without splits the same number to each.

    Returns the received rows; with splits also how many came from each rank.
    """
    return synchronize(operations.alltoall_async(array, splits, name, process_set))


def reducescatter_async(array, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """See reducescatter."""
    return operations.reducescatter_async(array, name, op, process_set, prescale_factor, postscale_factor)


def reducescatter(array, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                  postscale_factor=1.0):
    """Returns this rank's rows of the reduction (Average or Sum) of the arrays of all ranks."""
    return operations.reducescatter(array, name, op, process_set, prescale_factor, postscale_factor)


def join():
    """Ends this rank's arrays, waits until all ranks have joined, and returns the rank that joined last."""
    return _core.join()


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("adapter", "operations")]
