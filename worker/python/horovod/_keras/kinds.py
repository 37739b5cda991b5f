"""Looks at an object to find the Keras that it belongs to: Keras 3, or Keras 2 (tf_keras, and the keras of TensorFlow 2.15).

A process may have both, so nothing here depends on which of them `import keras` finds.
"""
import enum
import importlib
import sys

_ROOTS = ("keras", "tf_keras")  # the packages that define optimizers
BACKENDS = ("tensorflow", "torch")  # of Keras 3, those that Horovod reduces


class Kind(enum.Enum):
    """The families of optimizers, by the methods in which they update variables."""
    KERAS3 = "Keras 3"
    KERAS2 = "Keras 2"
    LEGACY = "keras.optimizers.legacy"


_BASES = {"BaseOptimizer": Kind.KERAS3, "_BaseOptimizer": Kind.KERAS2, "OptimizerV2": Kind.LEGACY}
_LOSS_SCALES = ("LossScaleOptimizer", "BaseLossScaleOptimizer")


def _own_classes(thing):
    """Yields the classes of an object, or of a class, that Keras defines."""
    for one in (thing if isinstance(thing, type) else type(thing)).__mro__:
        if one.__module__.partition(".")[0] in _ROOTS:
            yield one


def kind_of(optimizer):
    """Returns the Kind of an optimizer; raises TypeError for any other object, such as a class of optimizers."""
    for one in () if isinstance(optimizer, type) else _own_classes(optimizer):
        if one.__name__ in _BASES:
            return _BASES[one.__name__]
    kind = f"the class {optimizer.__qualname__}" if isinstance(optimizer, type) else f"an object of {type(optimizer)}"
    raise TypeError(f"DistributedOptimizer takes an optimizer of Keras (keras.optimizers.Optimizer), not {kind}. "
                    "horovod.tensorflow.DistributedOptimizer takes those of tf.compat.v1.train.")


def saving_of(optimizer):
    """Returns the module `saving` of the Keras that an optimizer, or a class of optimizers, belongs to."""
    root = next(_own_classes(optimizer)).__module__.partition(".")[0]
    return importlib.import_module(f"{root}.saving")


def scales_loss(optimizer):
    """Returns whether it is a LossScaleOptimizer, which has the optimizer that updates variables inside."""
    return any(one.__name__ in _LOSS_SCALES for one in _own_classes(optimizer))


def innermost(optimizer):
    """Returns the optimizer that updates variables: the one inside of a LossScaleOptimizer, or itself."""
    while optimizer is not None and scales_loss(optimizer):
        optimizer = optimizer.inner_optimizer
    return optimizer


def is_keras3(thing):
    """Returns whether an object of Keras (a model, an optimizer, a variable) is one of Keras 3."""
    return any(one.__module__.startswith("keras.") and _is_module_of_keras3(sys.modules.get("keras"))
               for one in _own_classes(thing))


def _is_module_of_keras3(keras):
    return str(getattr(keras, "__version__", "2")).partition(".")[0] == "3"


def backend_of(keras):
    """Returns the name of the backend of a module `keras` or `tf_keras`."""
    return keras.config.backend() if _is_module_of_keras3(keras) else "tensorflow"


def backend_of_object(thing):
    """Returns the name of the backend that an object of Keras computes with."""
    return backend_of(sys.modules["keras"]) if is_keras3(thing) else "tensorflow"


def checked_backend(backend):
    """Returns the backend; raises RuntimeError for one that Horovod does not reduce."""
    if backend not in BACKENDS:
        raise RuntimeError(f"Horovod reduces gradients of Keras with the backends {' and '.join(BACKENDS)}, not {backend}: "
                           "set KERAS_BACKEND=tensorflow before keras is imported.")
    return backend
