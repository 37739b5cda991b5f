"""The callbacks of horovod.keras and horovod.tensorflow.keras. Their modules add keras.callbacks.Callback as a base class.

backend, which the classes take first, is the module keras.backend.
"""
import numbers

import numpy

from horovod._keras import variables as of
from horovod.common.basics import Min, rank, size
from horovod.common.objects import allgather_object


class BroadcastGlobalVariablesCallbackImpl:
    """Copies the variables of the root's model and optimizer to every rank, once, at the beginning of training.

    A model without input shapes has its weights only after the first batch, and is broadcast then.
    """

    def __init__(self, backend, root_rank, device="", *args):
        super().__init__(*args)
        del device
        self._backend = backend
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local = set()

    def register_local_var(self, var):
        """Excludes a variable: every rank keeps its own."""
        self._local.add(of.identity(var))

    def on_train_begin(self, logs=None):
        """Broadcasts if the model has its weights on every rank."""
        if not self.broadcast_done and _everywhere(self.model.built):
            self._broadcast()

    def on_batch_end(self, batch, logs=None):
        """Broadcasts after the first batch what could not be broadcast before."""
        if not self.broadcast_done:
            self._broadcast()

    def _broadcast(self):
        optimizer = getattr(self.model, "optimizer", None)
        found = of.of_model(self.model)
        if optimizer is not None:
            of.build(optimizer, self.model.trainable_variables)
            found += of.of_optimizer(optimizer)
        broadcast_all(self._backend, [one for one in found if of.identity(one) not in self._local], self.root_rank)
        self.broadcast_done = True


def broadcast_all(backend, variables, root_rank):
    """Copies the root's values of variables to every rank."""
    if backend.backend() == "torch":
        from horovod.torch import broadcast_parameters
        tensors = [of.native(variable).data for variable in variables]
        broadcast_parameters([(f"keras.{place}", tensor) for place, tensor in enumerate(tensors)], root_rank)
    else:
        from horovod.tensorflow import broadcast_variables
        broadcast_variables(of.natives(variables), root_rank)


def _everywhere(condition):
    """Returns whether the condition holds on every rank."""
    if size() == 1:
        return bool(condition)
    from horovod import numpy as hvd
    return bool(hvd.allreduce(numpy.array([bool(condition)], numpy.int32), op=Min, name="keras.is_built")[0])


class MetricAverageCallbackImpl:
    """Averages the metrics of an epoch over the ranks that have them, for the callbacks that follow in the list."""

    def __init__(self, backend, device="", *args):
        super().__init__(*args)
        del backend, device

    def on_epoch_end(self, epoch, logs=None):
        """Replaces the numbers in logs."""
        if logs is None or size() == 1:
            return
        numbers_here = {name: float(value) for name, value in logs.items() if _is_number(value)}
        everywhere = allgather_object(numbers_here, name="MetricAverageCallback")
        for name in numbers_here:
            found = [there[name] for there in everywhere if name in there]
            logs[name] = sum(found) / len(found)


def _is_number(value):
    return isinstance(value, numbers.Real) or getattr(value, "shape", None) == () and hasattr(value, "dtype")


class LearningRateScheduleCallbackImpl:
    """Sets the learning rate to initial_lr * multiplier(epoch) in the epochs from start_epoch until before end_epoch.

    multiplier: a number, or a function of the epoch. With staircase the rate changes at the beginning of an epoch, else in every
    batch; then the epoch is a fraction, for which steps_per_epoch is needed if Keras does not know it.
    momentum_correction: scales the velocities of SGD and RMSprop with the rate that they contain.
    """

    def __init__(self, backend, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True, momentum_correction=True,
                 steps_per_epoch=None, *args):
        super().__init__(*args)
        if initial_lr is None:
            raise ValueError("initial_lr is required: the learning rate that the multiplier is applied to.")
        del backend
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.staircase = staircase or not callable(multiplier)
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = None

    def on_train_begin(self, logs=None):
        """Determines the number of steps in an epoch, where it is needed."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self._steps()

    def _steps(self):
        steps = (self.params or {}).get("steps")
        if not steps:
            raise ValueError(f"{type(self).__name__} needs the number of steps in an epoch, which Keras does not know for this "
                             "data set: pass steps_per_epoch.")
        return steps

    def on_epoch_begin(self, epoch, logs=None):
        """Notes the epoch."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch, logs=None):
        """Sets the learning rate of this batch."""
        epoch = self.current_epoch
        if epoch < self.start_epoch or self.end_epoch is not None and epoch >= self.end_epoch:
            return
        if not self.staircase:
            self._set(epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._set(epoch)

    def _set(self, epoch):
        optimizer = self.model.optimizer
        before, rate = of.learning_rate(optimizer), self.initial_lr * self.multiplier(epoch)
        of.set_learning_rate(optimizer, rate)
        if self.momentum_correction and before and rate != before:
            for velocity in of.velocities(optimizer):
                velocity.assign(velocity * (rate / before))

    def on_batch_end(self, batch, logs=None):
        """Does nothing: the corrected velocities need no restoring."""

    def on_epoch_end(self, epoch, logs=None):
        """Adds the learning rate to the logs."""
        if logs is not None:
            logs["lr"] = of.learning_rate(self.model.optimizer)


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """Raises the learning rate from initial_lr / size to initial_lr within warmup_epochs, batch by batch.

    initial_lr is the rate for all ranks, usually the rate for one process times hvd.size().
    """

    def __init__(self, backend, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0, *args):
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose
        super().__init__(backend, initial_lr, self._share, 0, warmup_epochs, False, momentum_correction, steps_per_epoch, *args)

    def _share(self, epoch):
        """Returns the part of the rate. The last batch of an epoch has the rate of the next one's beginning."""
        done = (epoch + 1.0 / self.steps_per_epoch) / self.warmup_epochs
        return (1.0 + done * (size() - 1)) / size()

    def on_epoch_end(self, epoch, logs=None):
        """Also prints the rate that the warm-up has reached, if verbose."""
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and epoch == self.warmup_epochs - 1 and rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {of.learning_rate(self.model.optimizer):g}.")


class BestModelCheckpointImpl:
    """Saves the model whenever the monitored quantity is the best so far. Set `filepath` before training, on rank 0 alone."""

    _UNSET = "{unset}.weights.h5", "{unset}.keras"  # Keras 3 checks the name's end when the callback is made

    def __init__(self, **options):
        unset = self._UNSET[0 if options.get("save_weights_only") else 1]
        super().__init__(unset, save_best_only=True, **options)
        self.filepath = None

    def on_train_begin(self, logs=None):
        """Raises ValueError if the script has not set filepath."""
        if not self.filepath:
            raise ValueError("BestModelCheckpoint has no file to write: set its attribute filepath before fit().")
        super().on_train_begin(logs)
