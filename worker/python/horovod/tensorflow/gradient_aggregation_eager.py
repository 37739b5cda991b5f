"""Adds up gradients of several backward passes in variables, and reduces them after the last one: eagerly, or in a tf.function."""
import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.tensorflow.gradient_aggregation import check_passes, dense_to_add, one_iteration_more
from horovod.tensorflow.reductions import divided, with_local
from horovod.tensorflow.util import leave_unconverted, ref_of


class LocalGradientAggregationHelperEager:
    """Adds up gradients in variables of its own. allreduce_func(gradients, variables) reduces their sums."""

    def __init__(self, backward_passes_per_step, allreduce_func, sparse_as_dense, average_aggregated_gradients,
                 process_set=global_process_set, scale_local_gradients=True):
        check_passes(backward_passes_per_step)
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.allreduce_grads = allreduce_func
        self.locally_aggregated_grads = {}  # {place: the variable with the sum}, for gradients that are not None
        self.counter = tf.Variable(0, trainable=False, name="aggregation_counter")  # of the passes since the last reduction
        self._local_vars = set()

    def register_local_var(self, var):
        """Marks a variable whose gradient is this rank's own: it is added up, and not reduced."""
        self._local_vars.add(ref_of(var))

    def _sum_of(self, place, gradient):
        """Returns the variable with the sum of the gradients of a place, which the first one makes."""
        if place not in self.locally_aggregated_grads:
            with tf.init_scope():
                zeros = tf.zeros(gradient.shape, gradient.dtype)
                self.locally_aggregated_grads[place] = tf.Variable(zeros, trainable=False, name=f"aggregated_{place}")
        return self.locally_aggregated_grads[place]

    def compute_gradients(self, grads, vars):
        """Adds gradients to the sums. Returns the reduced sums after the last pass of a step, and else the sums so far."""
        grads = [dense_to_add(gradient, self.sparse_as_dense) for gradient in grads]
        sums = []
        for place, gradient in enumerate(grads):
            if gradient is not None:
                total = self._sum_of(place, gradient)
                total.assign_add(gradient)
                sums.append(total)
        variables = [variable for variable, gradient in zip(vars, grads) if gradient is not None]
        self.counter.assign_add(1)
        is_due = tf.equal(self.counter, self.backward_passes_per_step)
        results = iter(tf.cond(is_due, lambda: self._reduced(sums, variables), lambda: [total.read_value() for total in sums]))
        return [None if gradient is None else next(results) for gradient in grads]

    def _reduced(self, sums, variables):
        """Returns the reduced sums, and begins the next ones."""
        values = [total.read_value() for total in sums]
        reduced = with_local(self.allreduce_grads, values, variables, self._local_vars, self.process_set, self.scale_local_gradients)
        self.counter.assign(0)
        for total in sums:
            total.assign(tf.zeros_like(total))
        n = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        return [divided(gradient, n) for gradient in reduced]

    def apply_gradients(self, apply_grads_closure, optimizer, *args, **kwargs):
        """Runs apply_grads_closure() after the last pass of a step, and else counts the step in the optimizer's iterations."""
        del args, kwargs
        return tf.cond(tf.equal(self.counter, 0), apply_grads_closure, lambda: one_iteration_more(optimizer))


leave_unconverted(globals())
