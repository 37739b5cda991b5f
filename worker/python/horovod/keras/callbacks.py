"""Callbacks for fit() of the Keras that `import keras` finds."""
import keras

from horovod._keras import callbacks as _impl


class BroadcastGlobalVariablesCallback(_impl.BroadcastGlobalVariablesCallbackImpl, keras.callbacks.Callback):
    """Copies the variables of the root's model and optimizer to every rank at the beginning of training.

    local_variables: those that every rank keeps, such as the variables of PartialDistributedOptimizer's layers.
    """

    def __init__(self, root_rank, device="", local_variables=None):
        super().__init__(keras.backend, root_rank, device)
        for variable in local_variables or ():
            self.register_local_var(variable)


class MetricAverageCallback(_impl.MetricAverageCallbackImpl, keras.callbacks.Callback):
    """Averages the metrics of an epoch over the ranks. Put it before callbacks that use metrics."""

    def __init__(self, device=""):
        super().__init__(keras.backend, device)


class LearningRateScheduleCallback(_impl.LearningRateScheduleCallbackImpl, keras.callbacks.Callback):
    """Sets the learning rate to initial_lr * multiplier(epoch) in the epochs from start_epoch until before end_epoch.

    multiplier: a number, or a function of the epoch. Without staircase the rate changes in every batch, and the epoch is a fraction,
    for which steps_per_epoch is needed if Keras does not know it. momentum_correction: scales the velocities of SGD and RMSprop with
    the rate that they contain.
    """

    def __init__(self, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True, momentum_correction=True,
                 steps_per_epoch=None):
        super().__init__(keras.backend, initial_lr, multiplier, start_epoch, end_epoch, staircase, momentum_correction,
                         steps_per_epoch)


class LearningRateWarmupCallback(_impl.LearningRateWarmupCallbackImpl, keras.callbacks.Callback):
    """Raises the learning rate from initial_lr / size to initial_lr within warmup_epochs, batch by batch.

    initial_lr: the rate for all ranks. verbose: 1 prints the rate once it is reached. The other parameters are those of
    LearningRateScheduleCallback.
    """

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0):
        super().__init__(keras.backend, initial_lr, warmup_epochs, momentum_correction, steps_per_epoch, verbose)


class BestModelCheckpoint(_impl.BestModelCheckpointImpl, keras.callbacks.ModelCheckpoint):
    """A ModelCheckpoint that keeps the best model only. Set its attribute `filepath` before training."""

    def __init__(self, monitor="val_loss", verbose=0, mode="auto", save_freq="epoch"):
        super().__init__(monitor=monitor, verbose=verbose, mode=mode, save_freq=save_freq)
