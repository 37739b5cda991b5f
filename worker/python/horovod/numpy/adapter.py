"""The adapter of arrays: those of NumPy, and all objects whose memory NumPy can access.

Without NumPy it is the adapter of memory without a framework (horovod/common/adapter.py).
"""
from horovod import _core
from horovod.common import refusals
from horovod.common.adapter import Adapter

try:
    import numpy as _numpy
except ImportError:
    _numpy = None


def _has_memory(array):
    """Returns whether an object with data_ptr() has memory at that address; otherwise NumPy would read other memory."""
    return not hasattr(array, "data_ptr") or array.numel() == 0 or array.data_ptr() != 0


def _dense(array):
    """Returns a contiguous array: itself, if it is contiguous."""
    if type(array) is not _numpy.ndarray and hasattr(array, "__dlpack__") and not isinstance(array, _numpy.ndarray):
        array = _from_tensor(array)
    return _numpy.asarray(array, order="C")


def _from_tensor(tensor):
    """Converts an object with DLPack to a NumPy array. Raises a ValueError that names the type if NumPy lacks it."""
    try:
        if not _has_memory(tensor):
            raise ValueError("the tensor has no memory of its own")
        array = _numpy.from_dlpack(tensor.resolve_neg() if hasattr(tensor, "resolve_neg") else tensor)
    except (BufferError, RuntimeError) as error:
        raise ValueError(f"a tensor of {_type_of(tensor)} cannot be sent as an array: {refusals.reason_of(error)}") from error
    library, dot, name = _type_of(tensor).rpartition(".")
    if dot and library.isidentifier() and name != array.dtype.name:  # of less than a byte
        raise ValueError(f"a tensor of {library}.{name} cannot be sent as an array: its elements are no {array.dtype.name}")
    return array


def _type_of(tensor):
    return str(getattr(tensor, "dtype", type(tensor)))


class ArrayAdapter(Adapter):
    """The Adapter of arrays; its messages call them arrays."""

    if _numpy is not None:
        dense = staticmethod(_dense)

        @staticmethod
        def empty(source, shape):
            return _numpy.empty(shape, source.dtype)

        @staticmethod
        def empty_like(source):  # numpy.empty_like takes longer
            return _numpy.empty(source.shape, source.dtype)

        @staticmethod
        def from_output(output, like):
            return _numpy.asarray(output)

    sequence = list

    @staticmethod
    def reduction(op, average, process_set):
        """Returns op; the runtime rejects an unknown reduction."""
        return op

    def all_dense(self, tensors):
        """dense() for each array of a group. The message of an exception names the array's position."""
        arrays = []
        for array in tensors:
            try:
                arrays.append(self.dense(array))
            except (TypeError, ValueError) as error:
                if len(tensors) == 1:
                    raise
                raise type(error)(f"tensor {len(arrays) + 1} of {len(tensors)}: {error}") from error
        return arrays

    @staticmethod
    def group(tensors):
        """Returns the arrays of a group as a list; raises ValueError if there are none."""
        arrays = list(tensors)
        if not arrays:
            raise ValueError("A group needs at least one array.")
        return arrays

    def rows_for(self, source, process_set):
        shape = source.shape
        if not shape:
            raise ValueError("reducescatter: an array without dimensions has no rows to scatter")
        rows = _core.reducescatter_rows(shape[0], process_set.rank() or 0, process_set.size() or 1)
        return self.empty(source, (rows, *shape[1:]))

    def exchanged(self, tensor, splits, size, outputs):
        """Adapter's result, but without the counts if there were no splits."""
        return self.from_output(outputs[0], tensor) if splits is None else super().exchanged(tensor, splits, size, outputs)

    @staticmethod
    def explained(tensors, process_set, name=None):
        """Returns (None, None): the extension's messages are clear enough."""
        return None, None
