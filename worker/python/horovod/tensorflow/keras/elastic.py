"""Elastic training of a model of tf.keras: its state, and the callbacks that keep it up to date.

    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    callbacks = [hvd.elastic.CommitStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
                 hvd.elastic.UpdateEpochStateCallback(state)]
"""
import tensorflow as tf

from horovod import _keras as _impl
from horovod._keras import elastic as _callbacks

if _impl.backend_of(tf.keras) == "torch":
    from horovod._keras.torch_state import KerasState as _State
    from horovod.torch.elastic import run  # noqa: F401
else:
    from horovod.tensorflow.elastic import TensorFlowKerasState, run  # noqa: F401
    _State = TensorFlowKerasState


class KerasState(_State):
    """The state of a model and its optimizer, and values that the keyword arguments name.

    optimizer: None means the model's.
    """

    def __init__(self, model, optimizer=None, **kwargs):
        super().__init__(model, optimizer=optimizer, backend=tf.keras.backend, **kwargs)


class CommitStateCallback(_callbacks.CommitStateCallbackImpl, tf.keras.callbacks.Callback):
    """Commits the state after every batches_per_commit batches, and after each epoch."""

    def __init__(self, state, batches_per_commit=1):
        super().__init__(tf.keras.backend, state, batches_per_commit)


class UpdateBatchStateCallback(_callbacks.UpdateBatchStateCallbackImpl, tf.keras.callbacks.Callback):
    """Records in state.batch the batch of the epoch."""

    def __init__(self, state):
        super().__init__(tf.keras.backend, state)


class UpdateEpochStateCallback(_callbacks.UpdateEpochStateCallbackImpl, tf.keras.callbacks.Callback):
    """Records in state.epoch the number of epochs that are complete."""

    def __init__(self, state):
        super().__init__(tf.keras.backend, state)
