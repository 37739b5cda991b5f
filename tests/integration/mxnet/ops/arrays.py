"""What the checks share: arrays that differ on every rank, and comparisons."""
import mxnet as mx
import numpy

import horovod.mxnet as hvd

BFLOAT16 = numpy.dtype([("bfloat16", numpy.uint16)])  # as MXNet describes it
NUMBERS = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", BFLOAT16)
ALL = (*NUMBERS, "bool")


def of_rank(rank, dtype="float32", shape=(2, 3)):
    """The array of a rank; its values are small enough for every type."""
    count = int(numpy.prod(shape))
    if not count:  # MXNet makes such arrays without an operation only
        return mx.nd.empty(shape, dtype=dtype)
    return ((mx.nd.arange(count) % 5).reshape(shape) + rank + 1).astype(dtype)


def mine(dtype="float32", shape=(2, 3)):
    """This rank's."""
    return of_rank(hvd.rank(), dtype, shape)


def numbers(array):
    """An array's values in double precision; NumPy lacks bfloat16."""
    return (array.astype("float64") if array.size and array.dtype == BFLOAT16 else array).asnumpy().astype("float64")


def same(array, expected):
    """Fails unless both arrays have the same type, shape and values."""
    assert isinstance(array, mx.nd.NDArray) and array.dtype == expected.dtype, (type(array), array.dtype, expected.dtype)
    assert array.shape == expected.shape and (numbers(array) == numbers(expected)).all(), (array, expected)


def close(one, other, tolerance=1e-5):
    """Fails unless both have the same values but for rounding."""
    difference = abs(numbers(one) - numbers(other)).max()
    assert difference <= tolerance, f"they differ by {difference}"


def total(dtype="float32", shape=(2, 3)):
    """The sum over all ranks."""
    return sum((of_rank(rank, dtype, shape) for rank in range(1, hvd.size())), of_rank(0, dtype, shape))


def joined(arrays):
    """Arrays behind one another; MXNet joins those of some types only."""
    parts = [array for array in arrays if array.size]
    return mx.nd.concat(*[part.astype("float64") for part in parts], dim=0).astype(parts[0].dtype)
