"""What the operations need of a framework: the functions of an adapter.

An adapter is a class derived from Adapter, in the folder of its framework, and is given to Operations (operations.py). Adapter
itself is that of memory without a framework: of bytearray, array, memoryview and all else that has the buffer protocol. A
framework replaces dense, empty and from_output, and where dense() makes copies also dense_in_place and write_back. Everything
else may stay.

Functions that are called for each tensor are best static, and of C where the framework has one.
"""
from horovod import _core


def each(function, tensors):
    """What the function makes of each tensor of a group; an exception knows of which one it is."""
    made = []
    for tensor in tensors:
        try:
            made.append(function(tensor))
        except Exception as error:  # pylint: disable=broad-except
            error.place_in_group = len(made)
            raise
    return made


class Adapter:
    """The adapter of memory without a framework, and what those of frameworks are derived from."""

    # --- The memory of tensors

    @staticmethod
    def dense(tensor):
        """The tensor itself if the extension can read it (docs/python.md, "How the extension reads a tensor"), as it is dense memory of the
        host with its values; else something that is, of the same shape and values. Raises what is wrong with the tensor."""
        view = memoryview(tensor)
        return view if view.c_contiguous else memoryview(view.tobytes()).cast(view.format, view.shape)

    @staticmethod
    def empty(source, shape):
        """Memory for a result of the type of `source`, which is what dense() gave, with that shape."""
        count = source.itemsize
        for n in shape:
            count *= n
        flat = memoryview(bytearray(count)).cast(source.format)
        return flat.cast("B").cast(source.format, shape) if len(shape) != 1 and count else flat

    def empty_like(self, source):
        """The same with the shape of `source`."""
        return self.empty(source, source.shape)

    @staticmethod
    def from_output(output, like):
        """The runtime's output as a tensor, without a copy where that can be; like: the tensor that was sent."""
        del like
        return memoryview(output)

    # Whether what dense() gives, where it is not the tensor, is memory of nobody else, which may be used for the result.
    dense_is_ours = False

    # --- In place

    @staticmethod
    def dense_in_place(tensor):
        """dense() for what the runtime writes to; raises ValueError where it cannot be written to."""
        return tensor

    @staticmethod
    def write_back(tensor, target):
        """What synchronize is to return for an operation in place that was done in `target`, of dense_in_place: the tensor, or
        a function (outputs) that brings the values to where they belong and returns it."""
        del target
        return tensor

    @staticmethod
    def written(tensors):
        """Notes that the runtime writes to tensors, where the framework has to know. TypeError, AttributeError and RuntimeError,
        for what is none of the framework's, are ignored."""

    # --- Results. None: they are returned as they are

    return_to = None  # (tensor, result): what synchronize is to return for a result in host memory: it, or a function (outputs)
    sequence = tuple  # what the results of a group are returned in

    def from_outputs(self, outputs, likes):
        """from_output() of each of a group."""
        return self.sequence(map(self.from_output, outputs, likes))

    # --- Groups

    # Memory for the results of a group whose tensors are submitted as they are, without a look at each in Python; those that the
    # extension refuses go through dense(). None: all do.
    rooms_for = None  # (tensors)
    rows_for_all = None  # (tensors, process_set)

    def all_dense(self, tensors):
        """dense() of each tensor of a group."""
        return each(self.dense, tensors)

    @staticmethod
    def group(tensors):
        """The tensors of a group as a sequence; ValueError when there are none."""
        try:
            tensors = iter(tensors)
        except TypeError:
            raise ValueError(f"A group is a sequence of tensors, not {type(tensors).__qualname__}.") from None
        tensors = tuple(tensors)
        if not tensors:
            raise ValueError("A group needs at least one tensor.")
        return tensors

    # --- Arguments

    zeros_like = None  # (tensor): what is reduced for a factor of 0, which the runtime does not know. None: it is refused
    reduction = None  # (op, average, process_set): the reduction that is meant. None: as operations.reduction says
    split_counts = None  # (splits): those of an alltoall as a list of integers, or None. None: the extension reads them
    unsupported = ValueError  # raised where a reducescatter does not know the reduction

    def rows_for(self, source, process_set):
        """Memory for this rank's part of the rows of `source`; what has no rows is left to the runtime to refuse."""
        shape = source.shape
        if not shape or not process_set.included():
            return self.empty_like(source)
        rows = _core.reducescatter_rows(shape[0], process_set.rank(), process_set.size())
        return self.empty(source, (rows, *shape[1:]))

    def exchanged(self, tensor, splits, size, outputs):
        """What an alltoall returns: its only output as a tensor, and how many rows came from each of `size` ranks."""
        del splits
        return self.from_output(outputs[0], tensor), [outputs[0].rows_of(rank) for rank in range(size)]

    # --- Errors

    @staticmethod
    def explained(tensors, process_set, name=None):
        """(an exception to raise in place of a refusal, the place of the tensor in its group), or (None, None)."""
        del tensors, name
        if process_set.process_set_id is None:
            return ValueError(f"{process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...)."), None
        return None, None
