"""What the checks share: tensors that differ on every rank, and comparisons."""
import numpy
import tensorflow as tf

import horovod.tensorflow as hvd

NUMBERS = (tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.uint32, tf.uint64, tf.float16, tf.bfloat16, tf.float32,
           tf.float64)
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
ALL = (*NUMBERS, tf.bool)
LAST = "/cpu:0"  # a device


def of_rank(rank, dtype=tf.float32, shape=(2, 3)):
    """The tensor of a rank; its values are small enough for every type."""
    count = int(numpy.prod(shape))
    return tf.cast(tf.constant((numpy.arange(count) % 5).reshape(shape) + rank + 1), dtype)


def mine(dtype=tf.float32, shape=(2, 3)):
    """This rank's."""
    return of_rank(hvd.rank(), dtype, shape)


def numbers(tensor):
    """A tensor's values in double precision."""
    return numpy.asarray(tensor).astype("float64")


def same(tensor, expected, dtype=None):
    """Fails unless a tensor has the values, and the type if that is given."""
    assert tf.is_tensor(tensor), type(tensor)
    assert dtype is None or tensor.dtype == dtype, (tensor.dtype, dtype)
    assert tuple(tensor.shape) == numpy.shape(expected), (tensor.shape, numpy.shape(expected))
    assert (numbers(tensor) == numbers(expected)).all(), (tensor, expected)


def close(one, other, tolerance=1e-5):
    """Fails unless both have the same values but for rounding."""
    assert numpy.shape(one) == numpy.shape(other), (numpy.shape(one), numpy.shape(other))
    difference = abs(numbers(one) - numbers(other)).max() if numpy.size(one) else 0
    assert difference <= tolerance, f"they differ by {difference}: {one} {other}"


def of_all(dtype=tf.float32, shape=(2, 3)):
    """The values of all ranks, one behind the other."""
    return numpy.stack([numbers(of_rank(rank, dtype, shape)) for rank in range(hvd.size())])


def total(dtype=tf.float32, shape=(2, 3)):
    """The sum over all ranks."""
    return of_all(dtype, shape).sum(0)


def slices(rows, value=1.0, n=6, dtype=tf.float32):
    """Slices of a matrix of n rows of 2 columns."""
    rows = list(rows)
    return tf.IndexedSlices(tf.cast(tf.fill([len(rows), 2], value), dtype), tf.constant(rows, tf.int64), tf.constant([n, 2], tf.int64))


def dense(gradient):
    """A gradient as an array."""
    return numbers(tf.convert_to_tensor(gradient))


def own_set():
    """(all sets of one rank each, this rank's): they are to be removed; with one rank the global set."""
    if hvd.size() == 1:
        return [], hvd.global_process_set
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())]
    return sets, sets[hvd.rank()]


def remove(sets):
    for one in sets:
        assert hvd.remove_process_set(one)
