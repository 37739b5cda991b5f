"""Small helpers of the module, by the names that programs written for Horovod import."""
import types

import tensorflow as tf
from tensorflow.python.eager import context

_executing_eagerly = context.executing_eagerly  # whether operations run when they are called


def _make_subgraph(f):
    """Returns f as a tf.function."""
    return tf.function(f)


def _cache(f):
    """Caches the results of f by its arguments, apart for eager execution and for graphs."""
    results = {}

    def wrapper(*args):
        key = (args, _executing_eagerly())
        if key not in results:
            results[key] = f(*args)
        return results[key]

    return wrapper


def is_keras_variable(thing):
    """Returns whether it is a variable of Keras 3, around one of TensorFlow."""
    return hasattr(thing, "regularizer") and hasattr(thing, "value") and not isinstance(thing, tf.Variable)


def variable_of(thing):
    """Returns the variable of TensorFlow in a variable of Keras 3; other objects as they are."""
    if not is_keras_variable(thing):
        return thing
    inner = getattr(thing, "_value", None)
    return thing.value if inner is None else inner


def ref_of(thing):
    """Returns a hashable reference to a variable or tensor, the same for a variable of Keras 3 and the one within."""
    return variable_of(thing).ref()


def vars_to_refs(vars):
    """Returns nested lists of variables as nested tuples of references to them, which are hashable."""
    if isinstance(vars, list):
        return tuple(vars_to_refs(one) for one in vars)
    return ref_of(vars)


def refs_to_vars(refs):
    """Reverses vars_to_refs."""
    if isinstance(refs, tuple):
        return [refs_to_vars(one) for one in refs]
    return refs.deref()


def leave_unconverted(namespace):
    """Marks the functions of a module, and the methods of its classes, so that AutoGraph runs them as they are.

    It would rewrite their source while a tf.function is traced, which takes far longer than they do, and they need none of that.
    """
    for value in namespace.values():
        if getattr(value, "__module__", None) != namespace["__name__"]:
            continue
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            if isinstance(member, types.FunctionType):
                member.autograph_info__ = {}
