"""Reduces gradients of TensorFlow: dense ones and IndexedSlices, in eager mode and in graphs."""
import types

import tensorflow as tf

from horovod._keras.marks import Marks
from horovod._keras.reducers import Reducer
from horovod._keras.variables import natives
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.reductions import Gradients, divided


class TensorFlowReducer(Reducer):
    """A Reducer of tensors of TensorFlow."""

    def __init__(self, settings):
        super().__init__(settings)
        self._marks = Marks()
        groups = settings.groups
        if isinstance(groups, (list, tuple)):
            groups = [natives(group) for group in groups]
        self._gradients = Gradients(
            settings.name, settings.device_dense, settings.device_sparse, settings.compression, settings.sparse_as_dense,
            settings.op, settings.gradient_predivide_factor, groups, settings.process_set)
        if settings.backward_passes_per_step > 1:
            self.passes = LocalGradientAggregationHelperEager(
                settings.backward_passes_per_step, self.reduced, settings.sparse_as_dense,
                settings.average_aggregated_gradients, settings.process_set)

    def marked(self, loss):
        """Returns the loss, whose gradient marks the beginning of a backward pass in the timeline."""
        return self._marks.beginning(loss)

    def aggregated(self, gradients, variables):
        """As described there; it is called at the end of each backward pass."""
        self._marks.end(gradients)
        return super().aggregated(gradients, variables)

    def _reduce(self, gradients, variables):
        return self._gradients(gradients, variables)

    def _divided(self, gradient, number):
        return divided(gradient, number)

    def _update_in_last_pass(self, optimizer, update):
        steps = getattr(optimizer, "_iterations", None)
        steps = optimizer.iterations if steps is None else steps  # the latter may be a quotient

        def updated():
            update()
            return tf.no_op()

        self.passes.apply_gradients(updated, types.SimpleNamespace(iterations=steps))
        return steps
