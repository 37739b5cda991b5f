"""Batch normalisation with the mean and variance over the batches of all ranks, for the Keras that is tf.keras."""
import functools
import inspect

import tensorflow as tf

from horovod.tensorflow.mpi_ops import Sum, _allreduce, size
from horovod.tensorflow.util import leave_unconverted

_IS_KERAS_2 = not hasattr(tf.keras, "ops")  # whose layer takes its fused form unless told not to


def _count_of(inputs, axes, mask):
    """Returns how many values of each channel a mean is of."""
    if mask is not None:
        return tf.reduce_sum(tf.cast(mask, tf.float64))
    shape = tf.shape(inputs)
    return tf.cast(tf.reduce_prod(tf.gather(shape, axes)), tf.float64)


def _over_ranks(mean, variance, count):
    """Returns mean and variance over all ranks, which may have different numbers of values, by one allreduce."""
    own_mean, own_variance = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
    squares = own_variance + tf.square(own_mean)
    has_values = count > 0  # without any, both are NaN
    sums = tf.stack([tf.where(has_values, part * count, tf.zeros_like(part)) for part in (own_mean, squares)])
    packed = tf.concat([tf.reshape(sums, [-1]), [count]], 0)
    total = _allreduce(packed, op=Sum)
    means = tf.reshape(total[:-1], tf.shape(sums)) / total[-1]
    all_mean, all_squares = tf.unstack(means)
    all_variance = tf.maximum(all_squares - tf.square(all_mean), 0.0)
    return (tf.cast(tf.ensure_shape(all_mean, mean.shape), mean.dtype),
            tf.cast(tf.ensure_shape(all_variance, variance.shape), variance.dtype))


def _shown(function, like):
    """Returns a method with *args and **kwargs that shows the parameters of another one: Keras 3 looks for training and mask."""
    @functools.wraps(function)
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    own, theirs = inspect.signature(function).parameters, inspect.signature(like).parameters
    named = [one for one in theirs.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    method.__signature__ = inspect.Signature([*named, own["kwargs"]])
    return method


@tf.keras.utils.register_keras_serializable(package="horovod")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization whose batch is that of all ranks, which may have batches of different sizes."""

    def __init__(self, fused=False, **kwargs):
        if fused or fused is None:
            raise ValueError("SyncBatchNormalization has no fused form: use fused=False.")
        if not kwargs.get("name"):
            kwargs["name"] = "sync_batch_normalization"
        if _IS_KERAS_2:
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(self, inputs, *args, **kwargs):
        """Returns the mean and variance to normalise with; Keras calls this in training."""
        moments = super()._moments(inputs, *args, **kwargs)
        if size() == 1:
            return moments
        if hasattr(self, "_reduction_axes"):  # Keras 3: (inputs, mask)
            axes, mask = self._reduction_axes, args[0] if args else kwargs.get("mask")
        else:  # Keras 2: (inputs, reduction_axes, keep_dims, mask=None)
            axes, mask = args[0], kwargs.get("mask", args[2] if len(args) > 2 else None)
        return _over_ranks(*moments, _count_of(inputs, axes, mask))

    def call(self, *args, **kwargs):
        """Normalises; in a graph of TensorFlow 1 notes the updates of the moving averages where programs look for them."""
        outputs = super(SyncBatchNormalization, self).call(*args, **kwargs)
        if not tf.compat.v1.executing_eagerly_outside_functions():
            for update in getattr(self, "updates", ()):
                tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, update)
        return outputs

    call = _shown(call, tf.keras.layers.BatchNormalization.call)


leave_unconverted(globals())
