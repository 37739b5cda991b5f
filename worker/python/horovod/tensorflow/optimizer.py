"""Optimizers of graphs (tf.compat.v1.train.Optimizer) whose gradients are reduced over the ranks; hands those of Keras on."""
import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper, check_passes
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.mpi_ops import Adasum, Average, rank
from horovod.tensorflow.reductions import Gradients, allreduce, check_adasum, check_groups, check_predivide, with_local
from horovod.tensorflow.util import _executing_eagerly, leave_unconverted, ref_of

_LegacyOptimizer = tf.compat.v1.train.Optimizer


class _DistributedOptimizer(_LegacyOptimizer):
    """Reduces the gradients that compute_gradients() returns, and passes all else to the optimizer."""

    def __init__(self, optimizer, name=None, use_locking=False, device_dense="", device_sparse="", compression=Compression.none,
                 sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, backward_passes_per_step=1,
                 average_aggregated_gradients=False, groups=None, process_set=global_process_set, scale_local_gradients=True):
        name = name or f"Distributed{type(optimizer).__name__}"
        super().__init__(use_locking, name)
        check_passes(backward_passes_per_step)
        self._optimizer = optimizer
        self._allreduce_grads = Gradients(name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
                                          groups, process_set)
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self._local_vars = set()
        self._agg_helper = None
        if backward_passes_per_step > 1:
            self._agg_helper = self._helper(backward_passes_per_step, sparse_as_dense, average_aggregated_gradients, name)

    def _helper(self, passes, sparse_as_dense, is_averaged, name):
        arguments = (passes, self._allreduce_grads, sparse_as_dense, is_averaged)
        options = {"process_set": self.process_set, "scale_local_gradients": self.scale_local_gradients}
        if _executing_eagerly():
            return LocalGradientAggregationHelperEager(*arguments, **options)
        return LocalGradientAggregationHelper(*arguments, rank(), LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY, name=name,
                                              **options)

    def register_local_var(self, var):
        """Marks a variable whose gradient is this rank's own: it is not reduced."""
        if self._agg_helper is not None:
            self._agg_helper.register_local_var(var)
        self._local_vars.add(ref_of(var))

    def compute_gradients(self, *args, **kwargs):
        """Returns the optimizer's gradients, reduced, with their variables."""
        gradients, variables = map(list, zip(*self._optimizer.compute_gradients(*args, **kwargs)))
        if self._agg_helper is not None:
            reduced = self._agg_helper.compute_gradients(gradients, variables)
        else:
            reduced = with_local(self._allreduce_grads, gradients, variables, self._local_vars, self.process_set,
                                 self.scale_local_gradients)
        return list(zip(reduced, variables))

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Updates the variables, with backward_passes_per_step only after the last pass of a step."""
        grads_and_vars = list(grads_and_vars)
        if self._agg_helper is None:
            return self._optimizer.apply_gradients(grads_and_vars, global_step, name)
        return self._agg_helper.apply_gradients(lambda: self._optimizer.apply_gradients(grads_and_vars, global_step, name),
                                                self._optimizer, grads_and_vars, global_step=global_step)

    def get_slot(self, *args, **kwargs):
        """Returns the optimizer's slot."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """Returns the names of the optimizer's slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        """Returns the optimizer's variables."""
        return self._optimizer.variables(*args, **kwargs)


class _DistributedAdasumOptimizer(_LegacyOptimizer):
    """Lets the optimizer change the variables, and reduces by Adasum what it has changed since the last reduction."""

    def __init__(self, optimizer, name=None, use_locking=False, device_dense="", device_sparse="", compression=Compression.none,
                 backward_passes_per_step=1):
        name = name or f"DistributedDelta{type(optimizer).__name__}"
        super().__init__(use_locking, name)
        check_passes(backward_passes_per_step)
        check_adasum(global_process_set)
        self._optimizer = optimizer
        self._how = {"device_dense": device_dense, "device_sparse": device_sparse, "compression": compression, "op": Adasum}
        self._backward_passes_per_step = backward_passes_per_step
        self._step_count = None

    def compute_gradients(self, *args, **kwargs):
        """Returns the optimizer's own gradients with their variables."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def _make_step_count(self):
        """Makes the variable that counts the calls of apply_gradients."""
        if self._step_count is None and tf.compat.v1.executing_eagerly_outside_functions():
            with tf.init_scope():
                self._step_count = tf.Variable(tf.constant(0, tf.int64), trainable=False)
        elif self._step_count is None:
            self._step_count = tf.compat.v1.get_variable(f"{self._name}/step_count", (), tf.int64, tf.compat.v1.zeros_initializer(),
                                                         trainable=False, use_resource=True)
        return self._step_count

    def apply_gradients(self, *args, **kwargs):
        """Updates the variables as the optimizer does. After the last pass of a step, adds the changes up by Adasum."""
        grads_and_vars = list(args[0] if args else kwargs.pop("grads_and_vars"))
        variables = [variable for gradient, variable in grads_and_vars if gradient is not None]
        count = self._make_step_count()
        starts = [self._zeros_slot(variable, "delta_start", self._name) for variable in variables]
        step = tf.identity(count.read_value())
        with tf.control_dependencies([step]):
            is_first = tf.equal(step, 0)
            noted = tf.cond(is_first, lambda: tf.group(*[start.assign(variable.read_value()) for start, variable
                                                         in zip(starts, variables)]), tf.no_op)
        with tf.control_dependencies(_listed(noted)):
            updated = self._optimizer.apply_gradients(grads_and_vars, *args[1:], **kwargs)
        with tf.control_dependencies(_listed(updated)):
            n = self._backward_passes_per_step
            added = tf.cond(tf.equal(step % n, n - 1), lambda: self._add_changes(starts, variables), tf.no_op)
        with tf.control_dependencies(_listed(added)):
            return tf.group(count.assign_add(1))

    def _add_changes(self, starts, variables):
        """Gives the variables their values at the last reduction plus the Adasum of the changes since then."""
        changed = []
        for place, (start, variable) in enumerate(zip(starts, variables)):
            change = variable.read_value() - start.read_value()
            name = f"{self._name}.{place}" if _executing_eagerly() else f"HorovodAllreduce_{self._name}_{place}"
            value = start.read_value() + allreduce(change, name=name, **self._how)
            changed += [start.assign(value), variable.assign(value)]
        return tf.group(*changed)

    def get_slot(self, var, name):
        """Returns a slot, also of the optimizer."""
        slot = super().get_slot(var, name)
        return self._optimizer.get_slot(var, name) if slot is None else slot

    def get_slot_names(self):
        """Returns the names of the slots, and of those of the optimizer."""
        return super().get_slot_names() + self._optimizer.get_slot_names()

    def variables(self, *args, **kwargs):
        """Returns the optimizer's variables."""
        return self._optimizer.variables(*args, **kwargs)


def _listed(operation):
    """Returns what control_dependencies takes: eagerly an operation may be None."""
    return [] if operation is None or _executing_eagerly() else [operation]


def _is_keras(optimizer):
    """Returns whether it is an optimizer of any Keras."""
    modules = [kind.__module__ for kind in type(optimizer).__mro__]
    return any(module.split(".")[0] in ("keras", "tf_keras") and "optimizer" in module for module in modules)


def DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense="", device_sparse="", compression=Compression.none,
                         sparse_as_dense=False, backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0,
                         average_aggregated_gradients=False, num_groups=0, groups=None, process_set=global_process_set,
                         scale_local_gradients=True):
    """Returns an optimizer, of TensorFlow 1 or of Keras, whose gradients are reduced over the ranks.

    compression: the type in which they are sent. sparse_as_dense: sends tf.IndexedSlices as tensors. backward_passes_per_step: after
    how many gradients one update is made, by their sum, or with average_aggregated_gradients by their average. groups: how many groups
    are reduced as one each, or lists of variables. gradient_predivide_factor divides gradients before the sum, and multiplies the result.
    op=Adasum, for TensorFlow 1: reduces what the optimizer has changed. scale_local_gradients: divides the gradients of local variables
    by the number of ranks.
    """
    check_predivide(gradient_predivide_factor, op)
    groups = check_groups(groups, num_groups)
    if isinstance(optimizer, (_DistributedOptimizer, _DistributedAdasumOptimizer)):
        raise ValueError("This optimizer is a DistributedOptimizer already.")
    if isinstance(optimizer, _LegacyOptimizer):
        if op == Adasum:
            _check_plain_adasum(average_aggregated_gradients, groups, process_set, sparse_as_dense)
            return _DistributedAdasumOptimizer(optimizer, name, use_locking, device_dense, device_sparse, compression,
                                               backward_passes_per_step)
        return _DistributedOptimizer(optimizer, name, use_locking, device_dense, device_sparse, compression, sparse_as_dense, op,
                                     gradient_predivide_factor, backward_passes_per_step, average_aggregated_gradients, groups, process_set,
                                     scale_local_gradients)
    if not _is_keras(optimizer):
        raise ValueError(f"DistributedOptimizer takes an optimizer of TensorFlow 1 or of Keras, not {type(optimizer).__qualname__}.")
    if op == Adasum:
        raise ValueError("op=Adasum needs an optimizer of TensorFlow 1: those of Keras are not supported.")
    import horovod.tensorflow.keras as of_keras  # pylint: disable=import-outside-toplevel
    return of_keras.DistributedOptimizer(
        optimizer, name=name, device_dense=device_dense, device_sparse=device_sparse, compression=compression,
        sparse_as_dense=sparse_as_dense, gradient_predivide_factor=gradient_predivide_factor, op=op,
        backward_passes_per_step=backward_passes_per_step, average_aggregated_gradients=average_aggregated_gradients, groups=groups,
        process_set=process_set, scale_local_gradients=scale_local_gradients)


def _check_plain_adasum(is_averaged, groups, process_set, sparse_as_dense):
    """Raises ValueError for options that have no meaning where changes of variables are reduced."""
    del sparse_as_dense  # changes are dense
    for is_given, what in ((is_averaged, "average_aggregated_gradients"), (groups is not None, "groups"),
                           (process_set is not global_process_set, "process_set")):
        if is_given:
            raise ValueError(f"op=Adasum does not support {what}.")


leave_unconverted(globals())
