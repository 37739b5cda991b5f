"""Adds up gradients of several backward passes in variables of a graph, and reduces them after the last one."""
import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.tensorflow.reductions import divided, with_local
from horovod.tensorflow.util import leave_unconverted, ref_of


def apply_op_to_not_none_tensors(tensor_op, tensors, *args):
    """Returns tensor_op(tensor, *args) for each tensor; None stays None."""
    return [tensor if tensor is None else tensor_op(tensor, *args) for tensor in tensors]


def get_not_none_from_list(tensor_list):
    """Returns the elements of a list that are not None."""
    return [one for one in tensor_list if one is not None]


def check_passes(passes):
    """Raises ValueError unless it is a number of backward passes."""
    if passes < 1:
        raise ValueError(f"backward_passes_per_step is 1 or more, not {passes}.")


def dense_to_add(gradient, sparse_as_dense):
    """Returns a gradient that can be added to others; None as it is."""
    if isinstance(gradient, tf.IndexedSlices):
        if not sparse_as_dense:
            raise ValueError("Gradients of several backward passes cannot be added up as tf.IndexedSlices: use sparse_as_dense=True "
                             "with backward_passes_per_step > 1.")
        return tf.convert_to_tensor(gradient)
    return gradient


def one_iteration_more(optimizer):
    """Returns the operation that counts a step without an update in the iterations of an optimizer that has them."""
    iterations = getattr(optimizer, "iterations", None)
    if iterations is None:
        return tf.no_op()
    return tf.group(iterations.assign_add(1))


class LocalGradientAggregationHelper:
    """Adds up gradients in variables of the graph. allreduce_func(gradients, variables) reduces their sums.

    rank and name keep the names of the variables apart. optimizer_type: one of the constants below.
    """

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(self, backward_passes_per_step, allreduce_func, sparse_as_dense, average_aggregated_gradients, rank, optimizer_type,
                 process_set=global_process_set, scale_local_gradients=True, name=""):
        check_passes(backward_passes_per_step)
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.sparse_as_dense = sparse_as_dense
        self.rank = rank
        self.optimizer_type = optimizer_type
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.name = name
        self.counter = None  # of the passes since the last reduction
        self.locally_aggregated_grads = []  # a variable for each gradient that is not None
        self._allreduce_grads = allreduce_func
        self._local_vars = set()

    def register_local_var(self, var):
        """Marks a variable whose gradient is this rank's own: it is added up, and not reduced."""
        self._local_vars.add(ref_of(var))

    def _make_variables(self, grads):
        """Makes the variables that hold the sums. They are local ones of the graph: no broadcast and no checkpoint has them."""
        collections = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
        with tf.compat.v1.variable_scope(f"aggregation_variables_{self.name}{self.rank}", reuse=tf.compat.v1.AUTO_REUSE):
            self.counter = tf.compat.v1.get_variable("aggregation_counter", (), tf.int32, tf.compat.v1.zeros_initializer(),
                                                     trainable=False, collections=collections)
            self.locally_aggregated_grads = [
                tf.compat.v1.get_variable(str(place), gradient.shape, gradient.dtype, tf.compat.v1.zeros_initializer(),
                                          trainable=False, collections=collections + ["aggregating_collection"])
                for place, gradient in enumerate(grads) if gradient is not None]
        if self.optimizer_type == self._OPTIMIZER_TYPE_KERAS:  # whose session initializes no variables that it does not know
            session = tf.compat.v1.keras.backend.get_session(op_input_list=())
            session.run(tf.compat.v1.variables_initializer([self.counter, *self.locally_aggregated_grads]))

    def compute_gradients(self, grads, vars):
        """Adds gradients to the sums. Returns the reduced sums after the last pass of a step, and else the gradients as they are."""
        grads = [dense_to_add(gradient, self.sparse_as_dense) for gradient in grads]
        variables = [variable for variable, gradient in zip(vars, grads) if gradient is not None]
        given = get_not_none_from_list(grads)
        if not given:
            return grads
        self._make_variables(grads)
        with tf.control_dependencies([total.assign_add(gradient) for total, gradient in zip(self.locally_aggregated_grads, given)]):
            count = tf.identity(self.counter.assign_add(1))
        with tf.control_dependencies([count]):
            results = tf.cond(tf.equal(count, self.backward_passes_per_step), lambda: self._reduced(variables),
                              lambda: [tf.identity(gradient) for gradient in given])
        results = iter(results if isinstance(results, (list, tuple)) else [results])
        return [None if gradient is None else next(results) for gradient in grads]

    def _reduced(self, variables):
        """Returns the reduced sums, and begins the next ones."""
        sums = [tf.identity(total.read_value()) for total in self.locally_aggregated_grads]
        with tf.control_dependencies(sums):
            begun = [total.assign(tf.zeros_like(given)) for total, given in zip(self.locally_aggregated_grads, sums)]
            begun.append(self.counter.assign(0))
        reduced = with_local(self._allreduce_grads, sums, variables, self._local_vars, self.process_set, self.scale_local_gradients)
        n = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        with tf.control_dependencies(begun):
            return [tf.identity(divided(gradient, n)) for gradient in reduced]

    def apply_gradients(self, apply_grads_closure, optimizer, *args, **kwargs):
        """Runs apply_grads_closure() after the last pass of a step. After the others counts the step where the optimizer, or
        the argument global_step, counts. args[0]: the gradients with their variables."""
        global_step = kwargs.get("global_step")

        def skip():
            counted = [one_iteration_more(optimizer)]
            if global_step is not None:
                counted.append(tf.group(global_step.assign_add(tf.constant(1, global_step.dtype))))
            return tf.group(*counted)

        gradients = get_not_none_from_list([gradient for gradient, _ in args[0]])
        if self.counter is None:  # there were no gradients
            return apply_grads_closure()
        with tf.control_dependencies(gradients):
            is_due = tf.equal(self.counter.read_value(), 0)
        return tf.group(tf.cond(is_due, lambda: tf.group(apply_grads_closure()), skip))


leave_unconverted(globals())
