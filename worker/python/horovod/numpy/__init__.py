"""The collectives for arrays, without a framework: `import horovod.numpy as hvd`.

An array is anything that shows its memory: of NumPy, of the standard library (array, bytearray, memoryview), or by
DLPack. Results are NumPy's where that is installed, else memoryviews. Functions that end in `_` write into their
array; those with `_async` return a handle for synchronize().
"""
from horovod import _core
from horovod.common import refusals as _refusals
from horovod.common.basics import HorovodBasics as _HorovodBasics
from horovod.common.exceptions import HorovodInternalError  # noqa: F401
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,  # noqa: F401
                                         remove_process_set)

_basics = _HorovodBasics(__file__)

Average, Sum, Adasum = _basics.Average, _basics.Sum, _basics.Adasum
Min, Max, Product = _basics.Min, _basics.Max, _basics.Product

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
rank = _basics.rank
size = _basics.size
local_rank = _basics.local_rank
local_size = _basics.local_size
cross_rank = _basics.cross_rank
cross_size = _basics.cross_size
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported

try:
    import numpy as _numpy
except ImportError:
    _numpy = None


def _has_memory(array):
    """Whether what shows an address shows one; NumPy would take other memory."""
    return not hasattr(array, "data_ptr") or array.numel() == 0 or array.data_ptr() != 0


def _dense(array):
    """The array as one that lies in one piece: itself, where it does."""
    if _numpy is None:
        view = memoryview(array)
        return view if view.c_contiguous else memoryview(view.tobytes()).cast(view.format, view.shape)
    if hasattr(array, "__dlpack__") and not isinstance(array, _numpy.ndarray):
        array = _from_tensor(array)
    array = _numpy.asarray(array)
    return _numpy.ascontiguousarray(array) if array.ndim else array


def _from_tensor(tensor):
    """What shows its memory by DLPack as an array of NumPy's; ValueError, which names the type, where NumPy has none."""
    try:
        if not _has_memory(tensor):
            raise ValueError("the tensor has no memory of its own")
        array = _numpy.from_dlpack(tensor.resolve_neg() if hasattr(tensor, "resolve_neg") else tensor)
    except (BufferError, RuntimeError) as error:
        raise ValueError(f"a tensor of {_type_of(tensor)} cannot be sent as an array: {_refusals.reason_of(error)}") from error
    if _type_of(tensor).startswith("torch.") and _type_of(tensor) != f"torch.{array.dtype.name}":  # less than a byte
        raise ValueError(f"a tensor of {_type_of(tensor)} cannot be sent as an array: its elements are no {array.dtype.name}")
    return array


def _type_of(tensor):
    return str(getattr(tensor, "dtype", type(tensor)))


def _all_dense(arrays):
    """Those of a group; what is wrong with one says which one it is."""
    dense = []
    for array in arrays:
        try:
            dense.append(_dense(array))
        except (TypeError, ValueError) as error:
            if len(arrays) == 1:
                raise
            raise type(error)(f"tensor {len(dense) + 1} of {len(arrays)}: {error}") from error
    return dense


def _group_of(arrays, word, name, process_set):
    """The arrays of a group as a list; ValueError when there are none, which fails the group of the other ranks."""
    try:
        arrays = list(arrays)
        if not arrays:
            raise ValueError("A group needs at least one array.")
    except Exception as error:
        _refusals.tell(error, word, name, process_set, _refusals.EMPTY_GROUP)
        raise
    return arrays


def _empty(like, rows=None):
    """Memory for a result of the same type; rows: another first dimension."""
    shape = tuple(like.shape) if rows is None else (rows, *like.shape[1:])
    if _numpy is not None:
        return _numpy.empty(shape, like.dtype)
    count = like.itemsize
    for n in shape:
        count *= n
    flat = memoryview(bytearray(count)).cast(like.format)
    return flat.cast("B").cast(like.format, shape) if len(shape) != 1 and count else flat


def _taken(output):
    """An output of the runtime as an array, without a copy."""
    return memoryview(output) if _numpy is None else _numpy.asarray(output)


def synchronize(handle):
    """Waits for a handle and returns its result. HorovodInternalError when the collective failed."""
    return _core.wait(handle)


def poll(handle):
    """Whether synchronize() would return at once."""
    return _core.poll(handle)


def allreduce_async(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    """See allreduce."""
    try:
        array = _dense(array)
        output = _empty(array)
        return _core.allreduce_async(array, output, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "allreduce", name, process_set)
        raise


def allreduce(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """The reduction of the arrays of all ranks, element by element."""
    try:
        array = _dense(array)
        output = _empty(array)
        return _core.allreduce(array, output, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "allreduce", name, process_set)
        raise


def allreduce_async_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    """See allreduce_."""
    try:
        return _core.allreduce_async(array, array, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "allreduce", name, process_set)
        raise


def allreduce_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """allreduce in place."""
    try:
        return _core.allreduce(array, array, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "allreduce", name, process_set)
        raise


def grouped_allreduce_async(arrays, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set):
    """See grouped_allreduce."""
    arrays = _group_of(arrays, "allreduce", name, process_set)
    try:
        arrays = _all_dense(arrays)
        outputs = [_empty(array) for array in arrays]
        return _core.grouped_allreduce_async(arrays, outputs, name, op, prescale_factor, postscale_factor,
                                             process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "allreduce", name, process_set, len(arrays))
        raise


def grouped_allreduce(arrays, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0,
                      process_set=global_process_set):
    """allreduce of several arrays that complete together; ValueError when there are none."""
    return synchronize(grouped_allreduce_async(arrays, name, op, prescale_factor, postscale_factor, process_set))


def allgather_async(array, name=None, process_set=global_process_set):
    """See allgather."""
    try:
        handle = _core.allgather_async(_dense(array), name, process_set.process_set_id)
        return _core.attach(handle, lambda outputs: _taken(outputs[0]))
    except Exception as error:
        _refusals.tell(error, "allgather", name, process_set)
        raise


def allgather(array, name=None, process_set=global_process_set):
    """The arrays of all ranks, one behind the other; first dimensions may differ."""
    return synchronize(allgather_async(array, name, process_set))


def grouped_allgather(arrays, name=None, process_set=global_process_set):
    """allgather of several arrays that complete together; ValueError when there are none."""
    arrays = _group_of(arrays, "allgather", name, process_set)
    try:
        arrays = _all_dense(arrays)
        handle = _core.grouped_allgather_async(arrays, name, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "allgather", name, process_set, len(arrays))
        raise
    return synchronize(_core.attach(handle, lambda outputs: [_taken(output) for output in outputs]))


def broadcast_async(array, root_rank, name=None, process_set=global_process_set):
    """See broadcast."""
    try:
        array = _dense(array)
        output = _empty(array)
        return _core.broadcast_async(array, output, root_rank, name, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "broadcast", name, process_set)
        raise


def broadcast(array, root_rank, name=None, process_set=global_process_set):
    """The array of one rank, on every rank."""
    try:
        array = _dense(array)
        output = _empty(array)
        return _core.broadcast(array, output, root_rank, name, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "broadcast", name, process_set)
        raise


def broadcast_async_(array, root_rank, name=None, process_set=global_process_set):
    """See broadcast_."""
    try:
        return _core.broadcast_async(array, array, root_rank, name, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "broadcast", name, process_set)
        raise


def broadcast_(array, root_rank, name=None, process_set=global_process_set):
    """broadcast in place."""
    try:
        return _core.broadcast(array, array, root_rank, name, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "broadcast", name, process_set)
        raise


def alltoall_async(array, splits=None, name=None, process_set=global_process_set):
    """See alltoall."""
    try:
        n_ranks = process_set.size()

        def result(outputs):
            if splits is None:
                return _taken(outputs[0])
            return _taken(outputs[0]), [outputs[0].rows_of(rank) for rank in range(n_ranks)]

        return _core.attach(_core.alltoall_async(_dense(array), splits, name, process_set.process_set_id), result)
    except Exception as error:
        _refusals.tell(error, "alltoall", name, process_set)
        raise


def alltoall(array, splits=None, name=None, process_set=global_process_set):
    """Sends splits[i] rows to rank i, or as many to each: what came, and with splits how many rows from each rank."""
    return synchronize(alltoall_async(array, splits, name, process_set))


def _rows_for(array, process_set):
    """(the array in one piece, memory for this rank's rows of it)."""
    array = _dense(array)
    if not array.shape:
        raise ValueError("reducescatter: an array without dimensions has no rows to scatter")
    rows = _core.reducescatter_rows(array.shape[0], process_set.rank() or 0, process_set.size() or 1)
    return array, _empty(array, rows)


def reducescatter_async(array, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """See reducescatter."""
    try:
        array, output = _rows_for(array, process_set)
        return _core.reducescatter_async(array, output, name, op, prescale_factor, postscale_factor,
                                         process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "reducescatter", name, process_set)
        raise


def reducescatter(array, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                  postscale_factor=1.0):
    """This rank's rows of the reduction (Average or Sum) of the arrays of all ranks."""
    try:
        array, output = _rows_for(array, process_set)
        return _core.reducescatter(array, output, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
    except Exception as error:
        _refusals.tell(error, "reducescatter", name, process_set)
        raise


def barrier(process_set=global_process_set):
    """Waits until every rank of the set is here."""
    _core.barrier(process_set.process_set_id)


def join():
    """No more arrays from this rank: waits for the others, and returns the rank that came last."""
    return _core.join()
