"""Loads the library of TensorFlow's operations, and says how a graph may run them.

The library is written in C (docs/tensorflow-ops.md) and has the collectives as operations of TensorFlow: `ops` is the module of their
functions, such as ops.horovod_allreduce.
"""
import ctypes
import os

import tensorflow
from tensorflow.python.framework import ops as framework

from horovod import _core  # noqa: F401 # pylint: disable=unused-import  # loads the runtime, which the library needs

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_ops.so")


def _load():
    """Returns the operations' module and the library as ctypes has it. Raises ImportError with the reason on failure."""
    try:
        module = tensorflow.load_op_library(PATH)
        library = ctypes.CDLL(PATH)
    except (OSError, tensorflow.errors.OpError) as error:
        raise ImportError(f"The operations for TensorFlow cannot be loaded from {PATH}: {error}") from error
    library.hvd_tf_library_problem.restype = ctypes.c_char_p
    problem = library.hvd_tf_library_problem()
    if problem is not None:
        raise ImportError(f"The operations for TensorFlow in {PATH} cannot be used: {problem.decode('utf-8', 'replace')}")
    return module, library


ops, native = _load()


def is_ordered():
    """Returns whether the operations wait in TensorFlow's threads, so that those of a graph have to run in program order."""
    return bool(native.hvd_tf_library_blocks())


def independent(result):
    """Returns the result of a collective's function. In a tf.function the operation runs as soon as its inputs are there, and it
    runs even if nobody uses its result.

    Without this call TensorFlow would run the collectives one after the other in program order. Ranks whose orders differ would
    wait for each other for ever.
    """
    if is_ordered():
        return result
    first = result
    while isinstance(first, (list, tuple)):
        if not first:
            return result
        first = first[0]
    if isinstance(first, framework.Operation):
        operation = first
    elif tensorflow.is_tensor(first) and hasattr(first, "graph"):
        operation = first.op
    else:
        return result
    manager = getattr(operation.graph, "experimental_acd_manager", None)
    if manager is not None:
        manager.run_independently(operation)
    return result
