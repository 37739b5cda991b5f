"""The adapter of MXNet: gives the runtime access to the memory of arrays.

MXNet's engine runs operations later, in threads of its own. So the adapter waits for the writes to an array before the runtime reads
it, and for the reads, too, before the runtime writes to it. MXNDArrayGetData, of MXNet's C API, undoes a layout of oneDNN's.
"""
import ctypes
import types

import mxnet
import numpy
from mxnet.base import _LIB, check_call

from horovod.common.adapter import Adapter
from horovod.common.operations import Operations

_ON_HOST = ("cpu", "cpu_pinned", "cpu_shared")  # kinds of contexts


class _Type:
    """An element type as the extension reads it: by a name with the form LIBRARY.TYPE. Each exists once and lives for ever."""

    def __init__(self, name):
        self._name = f"mxnet.{name}"

    def __str__(self):
        return self._name


_types = {}


def _type_of(dtype):
    """Returns the _Type of an array's dtype; NumPy lacks bfloat16, which MXNet describes as a structure of that name."""
    if dtype not in _types:
        described = numpy.dtype(dtype)
        _types[dtype] = _Type("bfloat16" if described.names == ("bfloat16",) else described.name)
    return _types[dtype]


class Memory:
    """The dense host memory of an array, with the attributes by which the extension reads it."""

    device = types.SimpleNamespace(type="cpu")

    def __init__(self, array):
        address = ctypes.c_void_p()
        array.wait_to_read()
        check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
        self.array = array
        self.shape = array.shape
        self.dtype = _type_of(array.dtype)
        self._address = address.value or 0

    def data_ptr(self):
        """Returns the address, 0 if there are no elements."""
        return self._address

    @staticmethod
    def is_contiguous():
        """Returns True: MXNet has no strides."""
        return True

    @classmethod
    def empty(cls, like, shape):
        """Allocates memory for an array of a type like another's."""
        return cls(mxnet.nd.empty(shape, ctx=mxnet.cpu(), dtype=like.dtype))


def check_is_array(thing):
    """Raises a ValueError that names the type, unless it is a dense array."""
    if not isinstance(thing, mxnet.nd.NDArray):
        kind = type(thing)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise ValueError(f"Tensor type {name} is not supported: an NDArray of MXNet is needed.")
    if thing.stype != "default":
        raise ValueError(f"Tensor type {thing.stype} is not supported. Send tensor.tostype('default'); for gradients, make the "
                         "layer with sparse_grad=False.")


def dense(tensor):
    """Returns the Memory of an array, of a copy if it is on a device."""
    if isinstance(tensor, Memory):
        return tensor
    check_is_array(tensor)
    return Memory(tensor if tensor.context.device_type in _ON_HOST else tensor.copyto(mxnet.cpu()))


def in_place(tensor):
    """dense(), for memory that the runtime writes to: waits until MXNet has read it."""
    memory = dense(tensor)
    check_call(_LIB.MXNDArrayWaitToWrite(memory.array.handle))
    return memory


def write_back(tensor, target):
    """Returns the tensor, or a function that copies the result to it, on its device."""
    if target is tensor or target.array is tensor:
        return tensor

    def bring(_):
        target.array.copyto(tensor)
        return tensor
    return bring


def _made_like(array, like):
    """Returns an array as one of the same interface (mxnet.nd or mxnet.np), in the same context, as another."""
    if isinstance(like, mxnet.np.ndarray):
        array = array.as_np_ndarray()
    return array if array.context == like.context else array.copyto(like.context)


def return_to(tensor, result):
    """Returns a function that makes an array of `result`."""
    return lambda _: _made_like(result.array, tensor)


def from_output(output, like):
    """Returns the runtime's output as an array. Copies, because MXNet would free the runtime's memory in a thread of its own."""
    memory = Memory.empty(like, output.shape)
    n_bytes = memoryview(output).nbytes
    if n_bytes:
        ctypes.memmove(memory.data_ptr(), ctypes.addressof(ctypes.c_char.from_buffer(output)), n_bytes)
    return _made_like(memory.array, like)


def split_counts(splits):
    """Returns splits as a list of integers, or None for equal parts."""
    if splits is None:
        return None
    counts = splits.asnumpy() if isinstance(splits, mxnet.nd.NDArray) else numpy.asarray(splits)
    if counts.ndim != 1 or (counts.size and counts.dtype.kind not in "iu"):
        raise ValueError("alltoall expects splits to be integers, one for each rank: a sequence, or an array of dtype int32, "
                         f"not {splits!r}.")
    return counts.tolist() or None


def exchanged(tensor, splits, size, outputs):
    """Returns an alltoall's (received rows, rows per rank as an array of int32)."""
    del splits
    counts = mxnet.nd.array([outputs[0].rows_of(rank) for rank in range(size)], ctx=mxnet.cpu(), dtype="int32")
    if isinstance(tensor, mxnet.np.ndarray):
        counts = counts.as_np_ndarray()
    return from_output(outputs[0], tensor), counts


class MxnetAdapter(Adapter):
    """The Adapter of MXNet."""

    dense = staticmethod(dense)
    from_output = staticmethod(from_output)
    dense_in_place = staticmethod(in_place)
    write_back = staticmethod(write_back)
    return_to = staticmethod(return_to)
    split_counts = staticmethod(split_counts)
    exchanged = staticmethod(exchanged)
    sequence = list

    @staticmethod
    def empty(source, shape):
        return Memory.empty(source.array, shape)


operations = Operations(MxnetAdapter(), __name__)
