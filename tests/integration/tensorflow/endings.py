"""Trains with Keras until the job ends in one of several bad ways: endings.py WAY. No rank may hang.

A rank that gets an error prints how long it waited for it since rank 1 left, by the clock of the host: left FILE holds when that was.
"""
import os
import pathlib
import signal
import sys
import time

import keras
import numpy
import tensorflow as tf

import horovod.keras as hvd_keras
import horovod.tensorflow as hvd

STEPS, ROWS = 8, 4
LEFT = pathlib.Path(os.environ["ENDINGS_LEFT"])


def leaves():
    """Notes that this rank leaves now."""
    LEFT.write_text(str(time.time()), encoding="ascii")


def model_and_data(n_steps, **options):
    """A compiled model and its data, of so many steps."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", **options)
    rows = numpy.ones((n_steps * ROWS, 3), "float32")
    return model, tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(ROWS)


class InStep(keras.callbacks.Callback):
    """Calls a function on rank 1 after some steps."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def on_train_batch_end(self, batch, logs=None):
        if batch == STEPS // 2 and hvd.rank() == 1:
            self.function()


def fit(model, data, function):
    """Trains until an error, which is printed with the time since rank 1 left."""
    try:
        model.fit(data, epochs=2, shuffle=False, verbose=0, callbacks=[InStep(function)])
    except tf.errors.OpError as error:
        seconds = time.time() - float(LEFT.read_text(encoding="ascii"))
        print(f"rank {hvd.rank()} got {type(error).__name__} after {seconds:.1f} s: {' '.join(str(error).split())}", flush=True)
        return
    print(f"rank {hvd.rank()} has trained", flush=True)


def killed():
    leaves()
    os.kill(os.getpid(), signal.SIGKILL)


def raised():
    leaves()
    raise KeyError("an exception of rank 1")


def kill_one_rank_during_fit():
    """The others are told which."""
    fit(*model_and_data(STEPS), killed)


def kill_one_rank_during_eager_fit():
    fit(*model_and_data(STEPS, run_eagerly=True), killed)


def raise_in_one_rank_during_fit():
    """Its traceback is shown, and the launcher ends the others."""
    fit(*model_and_data(STEPS), raised)


def run_out_of_data_on_one_rank():
    """Rank 1 ends its training early, and with it its part of the job."""
    model, data = model_and_data(STEPS // (1 + hvd.rank()))
    fit(model, data, lambda: None)
    if hvd.rank() == 1:
        leaves()


def join_with_less_data_on_one_rank():
    """The others go on, with zeros for what it does not give."""
    model, data = model_and_data(STEPS // (1 + hvd.rank()))
    fit(model, data, lambda: None)
    last = hvd.join()
    print(f"rank {hvd.rank()} joined, the last was {int(last)}", flush=True)


if __name__ == "__main__":
    hvd.init()
    globals()[sys.argv[1]]()
