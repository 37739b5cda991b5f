"""Marks the backward passes of TensorFlow in the timeline, from the gradient of the loss until all gradients are there.

In a graph a mark is a call of Python, so graphs have marks only if the job may write a timeline, and never under XLA.
"""
import os

import tensorflow as tf

from horovod import _core
from horovod.tensorflow import xla

PHASE = "BACKWARD"


class Marks:
    """The marks of one optimizer. The end of a pass is marked if its beginning was, eagerly or in the same graph."""

    def __init__(self):
        self._has_begun = False

    def beginning(self, loss):
        """Returns the loss. Whoever computes its gradient marks the beginning of a backward pass."""
        if not _are_wanted() or not tf.is_tensor(loss):
            return loss

        @tf.custom_gradient
        def with_mark(value):
            return tf.identity(value), self._begin

        return with_mark(loss)

    def _begin(self, upstream):
        """Marks the beginning; returns the gradient that it gets."""
        if self._has_begun:  # by another loss of the same pass
            return upstream
        self._has_begun = True
        mark = _mark(True)
        if tf.executing_eagerly():
            return upstream
        with tf.control_dependencies([mark]):
            return tf.identity(upstream)

    def end(self, gradients):
        """Marks the end, once the gradients are computed."""
        has_begun, self._has_begun = self._has_begun, False
        if not has_begun:
            return
        if tf.executing_eagerly():
            _mark(False)
            return
        with tf.control_dependencies([getattr(gradient, "values", gradient) for gradient in gradients if gradient is not None]):
            _mark(False)


def _are_wanted():
    """Returns whether what is built or run now is to have marks."""
    return bool(os.environ.get("HOROVOD_TIMELINE")) and (tf.executing_eagerly() or not xla.is_compiling())


def _mark(begins):
    """Writes a mark now, or returns an operation that does."""
    if tf.executing_eagerly():
        return _core.timeline_mark(PHASE, begins)
    return tf.numpy_function(lambda: _core.timeline_mark(PHASE, begins), [], tf.bool)
