"""Collectives of values: numbers, arrays of NumPy and tensors. Each returns a tensor of the backend, in graph mode an array."""
from horovod.common.basics import basics
from horovod.common.operations import handle_average_backwards_compatibility


def _framework(backend):
    """Returns horovod.torch or horovod.tensorflow for a module keras.backend."""
    if backend.backend() == "torch":
        from horovod import torch as hvd
    else:
        from horovod import tensorflow as hvd
    return hvd


def _tensor(backend, value):
    """Returns a value as a tensor of the backend."""
    if backend.backend() == "torch":
        import torch
        return torch.as_tensor(value)
    import tensorflow as tf
    return tf.convert_to_tensor(value)


def _evaluated(backend, result):
    """Returns the result of a collective. In graph mode that is an operation, which the session of Keras runs."""
    if backend.backend() == "torch":
        return result
    import tensorflow as tf
    if tf.executing_eagerly():
        return result
    return tf.compat.v1.keras.backend.get_session().run(result)


def broadcast_global_variables(backend, root_rank):
    """Copies the root's global variables to every rank, in graph mode. Raises RuntimeError in eager mode, which has none."""
    framework = _framework(backend)
    if not hasattr(framework, "broadcast_global_variables"):
        raise RuntimeError("broadcast_global_variables is for graph mode of TensorFlow: use the callback "
                           "BroadcastGlobalVariablesCallback, or horovod.torch.broadcast_parameters.")
    return _evaluated(backend, framework.broadcast_global_variables(root_rank))


def allreduce(backend, value, name, average, prescale_factor, postscale_factor, op, compression):
    """Returns the reduction of the ranks' values."""
    if average is not True or op is not None:  # True is a default of horovod.keras, and no reason for a warning
        op = handle_average_backwards_compatibility(op, average)
    op = basics.Average if op is None else op
    return _evaluated(backend, _framework(backend).allreduce(
        _tensor(backend, value), name=name, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
        compression=compression))


def allgather(backend, value, name):
    """Returns the rows of all ranks' values, in the order of the ranks."""
    return _evaluated(backend, _framework(backend).allgather(_tensor(backend, value), name=name))


def broadcast(backend, value, root_rank, name):
    """Returns the root's value."""
    return _evaluated(backend, _framework(backend).broadcast(_tensor(backend, value), root_rank, name=name))


def reducescatter(backend, value, name, op):
    """Returns this rank's rows of the average or sum of the ranks' values."""
    return _evaluated(backend, _framework(backend).reducescatter(_tensor(backend, value), name=name, op=op))
