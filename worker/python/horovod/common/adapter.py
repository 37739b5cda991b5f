"""The adapter: the functions by which the operations reach the tensors of a framework.

An adapter is a class derived from Adapter, in the folder of its framework; Operations (operations.py) takes it. Adapter itself
handles memory without a framework: bytearray, array, memoryview and all other objects with the buffer protocol. A framework
replaces dense, empty and from_output. If its dense() makes copies, it also replaces dense_in_place and write_back. The rest is
optional.

Functions that run for each tensor are best static, and C functions of the framework if there are any.
"""
from horovod import _core


def each(function, tensors):
    """Returns the function's result for each tensor of a group. An exception gets the tensor's place in the group."""
    made = []
    for tensor in tensors:
        try:
            made.append(function(tensor))
        except Exception as error:  # pylint: disable=broad-except
            error.place_in_group = len(made)
            raise
    return made


class Adapter:
    """The adapter of memory without a framework, and the base class of the frameworks' adapters."""

    # --- The memory of tensors

    @staticmethod
    def dense(tensor):
        """Returns the tensor itself if it is dense host memory that the extension can read (docs/python.md, "How the extension
        reads a tensor"); else such an object of the same shape and values. Raises an error that describes an unsuitable tensor."""
        view = memoryview(tensor)
        return view if view.c_contiguous else memoryview(view.tobytes()).cast(view.format, view.shape)

    @staticmethod
    def empty(source, shape):
        """Allocates memory for a result with the type of `source`, an object from dense(), and the given shape."""
        count = source.itemsize
        for n in shape:
            count *= n
        flat = memoryview(bytearray(count)).cast(source.format)
        return flat.cast("B").cast(source.format, shape) if len(shape) != 1 and count else flat

    def empty_like(self, source):
        """empty() with the shape of `source`."""
        return self.empty(source, source.shape)

    @staticmethod
    def from_output(output, like):
        """Returns the runtime's output as a tensor, without a copy if possible; like: the tensor that was sent."""
        del like
        return memoryview(output)

    # Whether a copy that dense() makes is private memory, in which the operations may store the result.
    dense_is_ours = False

    # --- In place

    @staticmethod
    def dense_in_place(tensor):
        """dense() for a tensor that the runtime writes to; raises ValueError if it cannot be written to."""
        return tensor

    @staticmethod
    def write_back(tensor, target):
        """Returns the result of synchronize for an operation in place whose result is in `target`, from dense_in_place: the tensor,
        or a function (outputs) that copies the values to the tensor and returns it."""
        del target
        return tensor

    @staticmethod
    def written(tensors):
        """Notifies the framework that the runtime writes to tensors. The caller ignores TypeError, AttributeError and RuntimeError,
        which objects of other frameworks raise."""

    # --- Results. None: returned unchanged

    # (tensor, result) -> what synchronize returns for `result`, memory that the runtime has not filled yet when this is called: either
    # `result` itself, or a function (outputs) that the operations call once it is filled, and that returns the tensor.
    return_to = None
    sequence = tuple  # the type in which the results of a group are returned

    def from_outputs(self, outputs, likes):
        """from_output() for each tensor of a group."""
        return self.sequence(map(self.from_output, outputs, likes))

    # --- Groups

    # Allocate memory for the results of a group, whose tensors Python then submits unchecked. If the extension refuses them, they
    # pass through dense(). None: all groups do.
    rooms_for = None  # (tensors); needs tensor_type
    tensor_type = object  # the class of the framework's tensors
    rows_for_all = None  # (tensors, process_set)

    def all_dense(self, tensors):
        """dense() for each tensor of a group."""
        return each(self.dense, tensors)

    @staticmethod
    def group(tensors):
        """Returns the tensors of a group as a sequence; raises ValueError if there are none."""
        try:
            tensors = iter(tensors)
        except TypeError:
            raise ValueError(f"A group is a sequence of tensors, not {type(tensors).__qualname__}.") from None
        tensors = tuple(tensors)
        if not tensors:
            raise ValueError("A group needs at least one tensor.")
        return tensors

    # --- Arguments

    zeros_like = None  # (tensor): the zeros to reduce for a factor of 0, which the runtime rejects. None: refuse that
    reduction = None  # (op, average, process_set) -> the reduction. None: operations.reduction
    split_counts = None  # (splits) -> a list of integers, or None. None: the extension reads them
    unsupported = ValueError  # raised for a reduction that reducescatter does not support

    def rows_for(self, source, process_set):
        """Allocates memory for this rank's part of the rows of `source`; without rows the runtime refuses it later."""
        shape = source.shape
        if not shape or not process_set.included():
            return self.empty_like(source)
        rows = _core.reducescatter_rows(shape[0], process_set.rank(), process_set.size())
        return self.empty(source, (rows, *shape[1:]))

    def exchanged(self, tensor, splits, size, outputs):
        """Returns an alltoall's result: its only output as a tensor, and how many rows came from each of `size` ranks."""
        del splits
        return self.from_output(outputs[0], tensor), [outputs[0].rows_of(rank) for rank in range(size)]

    # --- Errors

    @staticmethod
    def explained(tensors, process_set, name=None):
        """Returns (an exception to raise in place of a refusal, the tensor's place in its group), or (None, None)."""
        del tensors, name
        if process_set.process_set_id is None:
            return ValueError(f"{process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...)."), None
        return None, None
