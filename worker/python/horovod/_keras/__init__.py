"""What horovod.keras and horovod.tensorflow.keras share: one implementation, which looks at the object that it is given."""
import warnings

from horovod._keras import optimizers
from horovod._keras.kinds import BACKENDS, backend_of, innermost, kind_of  # noqa: F401
from horovod._keras.models import load_model  # noqa: F401
from horovod._keras.optimizers import _DistributedOptimizer, is_distributed  # noqa: F401
from horovod._keras.reducers import Settings
from horovod._keras.values import allgather, allreduce, broadcast, broadcast_global_variables, reducescatter  # noqa: F401
from horovod.common.basics import Adasum, Average, Sum
from horovod.common.operations import reduction
from horovod.common.process_sets import global_process_set


def check_module(keras, module):
    """Raises ImportError for a Keras whose backend Horovod does not reduce. module: the importing module's name."""
    backend = backend_of(keras)
    if backend not in BACKENDS:
        raise ImportError(f"{module} needs Keras with the backend {' or '.join(BACKENDS)}, not {backend}: "
                          "set KERAS_BACKEND=tensorflow before keras is imported.")
    return backend


def create_distributed_optimizer(keras, optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
                                 gradient_predivide_factor, op, backward_passes_per_step=1,
                                 average_aggregated_gradients=False, groups=None, process_set=global_process_set,
                                 scale_local_gradients=True, local_layers=None):
    """Converts an optimizer to one that updates with the gradients of all ranks, and returns it.

    keras: the module whose layers local_layers takes. The other arguments are those of DistributedOptimizer.
    """
    kind_of(optimizer)  # an object of another kind is reported first
    _check_reduction(op, gradient_predivide_factor, process_set)
    if not isinstance(backward_passes_per_step, int) or backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step must be an integer of at least 1, not {backward_passes_per_step!r}.")
    settings = Settings(
        name=name or f"Distributed{type(innermost(optimizer)).__name__}", device_dense=device_dense, device_sparse=device_sparse,
        compression=compression, sparse_as_dense=sparse_as_dense, gradient_predivide_factor=gradient_predivide_factor, op=op,
        backward_passes_per_step=backward_passes_per_step, average_aggregated_gradients=average_aggregated_gradients,
        groups=checked_groups(groups), process_set=process_set, scale_local_gradients=scale_local_gradients,
        local_layers=_checked_layers(keras, local_layers))
    return optimizers.create(optimizer, settings)


def _check_reduction(op, gradient_predivide_factor, process_set):
    if op not in (Average, Sum, Adasum):
        raise ValueError("op: DistributedOptimizer reduces gradients by Average, Sum or Adasum.")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor divides gradients before they are averaged: use op=Average.")
    if gradient_predivide_factor == 0:
        raise ValueError("gradient_predivide_factor must not be 0.")
    if op == Adasum:
        reduction(op, None, process_set)


def groups_of(num_groups, groups):
    """Returns groups, or num_groups, which scripts for older versions pass instead."""
    if num_groups:
        warnings.warn("Parameter num_groups has been replaced by groups and will be removed.", DeprecationWarning, stacklevel=3)
        return num_groups if groups is None else groups
    return groups


def checked_groups(groups):
    """Returns groups; raises ValueError unless it is None, a number, or lists of variables."""
    if groups is None or isinstance(groups, int) and not isinstance(groups, bool) and groups >= 0:
        return groups
    if isinstance(groups, (list, tuple)) and all(isinstance(group, (list, tuple)) for group in groups):
        return groups
    raise ValueError(f"groups should be a non-negative integer or a list of lists of variables, not {groups!r}.")


def _checked_layers(keras, layers):
    """Returns layers as a tuple; raises ValueError for other objects than layers of Keras."""
    if layers is None:
        return ()
    layers = tuple(layers) if isinstance(layers, (list, tuple, set)) else (layers,)
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer) and not hasattr(layer, "trainable_weights"):
            raise ValueError(f"local_layers takes layers of Keras (keras.layers.Layer), not {type(layer)}.")
    return layers
