"""Loads saved models and makes their optimizers distributed."""
from horovod._keras.kinds import innermost
from horovod._keras.optimizers import is_distributed


def load_model(keras, wrap_optimizer, filepath, custom_optimizers, custom_objects, legacy_opts=False):
    """Loads a model with the Keras of a module and wraps its optimizer, which keeps its slots and iterations.

    wrap_optimizer: converts an optimizer, such as DistributedOptimizer with the script's arguments.
    custom_optimizers: classes of optimizers that the file names and Keras does not have.
    custom_objects: {name: class or function} for Keras. It may contain functions that make distributed optimizers, under the
    names of the classes in lower case as in older scripts; those do not load optimizers, because Keras 3 would not call them.
    legacy_opts: ignored: the file records whether an optimizer is one of keras.optimizers.legacy.
    """
    del legacy_opts
    known = {optimizer.__name__: optimizer for optimizer in custom_optimizers or ()}
    known.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=known)
    optimizer = getattr(model, "optimizer", None)
    if innermost(optimizer) is not None and not is_distributed(optimizer):
        wrap_optimizer(optimizer)
    return model
