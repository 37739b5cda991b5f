"""What the checks share: the modules and the Keras of each, a small network, its data, and what one process makes of them."""
import functools
import os
import pathlib

import keras
import numpy
import tensorflow as tf

import horovod.keras as hvd_keras
import horovod.numpy
import horovod.tensorflow.keras as hvd_tf_keras

SIDES = ((hvd_keras, keras), (hvd_tf_keras, tf.keras))  # the same Keras unless tf.keras is tf_keras
BATCH = 16  # rows of a step, of all ranks together
STEPS = 4  # of an epoch
EPOCHS = 2
TOLERANCE = 2e-4
rank, size = horovod.numpy.rank, horovod.numpy.size


def is_keras3(module):
    """Whether a module is Keras 3."""
    return hasattr(module, "Variable")


def has_legacy(module):
    """Whether a Keras has optimizers.legacy."""
    return not is_keras3(module)


def of_tf():
    """The module and Keras in which the versions of the suite differ."""
    return SIDES[1]


OPTIMIZERS = {
    "sgd": lambda module: module.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda module: module.optimizers.Adam(0.01),
    "adamw": lambda module: module.optimizers.AdamW(0.01, clipnorm=0.05),
    "legacy": lambda module: module.optimizers.legacy.SGD(0.1, momentum=0.9),
    "accumulating": lambda module: module.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2, clipnorm=0.05),
}


def network(module, seed=7):
    """A network with the weights of a seed."""
    net = module.Sequential([module.layers.Input((6,)), module.layers.Dense(8, activation="tanh"), module.layers.Dense(3)])
    random = numpy.random.RandomState(seed)
    net.set_weights([random.uniform(-0.5, 0.5, weight.shape) for weight in net.get_weights()])
    return net


@functools.lru_cache(maxsize=1)
def rows():
    """The inputs and targets of all ranks, in the order of the steps."""
    random = numpy.random.RandomState(3)
    return random.randn(BATCH * STEPS, 6).astype("float32"), random.randn(BATCH * STEPS, 3).astype("float32")


def part(array, n, place):
    """The rows of one of n ranks, in the order of the steps."""
    own = BATCH // n
    return numpy.concatenate([array[first + place * own:first + (place + 1) * own] for first in range(0, len(array), BATCH)])


def mine(array):
    return part(array, size(), rank())


def fit(net, inputs, targets, batch, **options):
    return net.fit(inputs, targets, batch_size=batch, epochs=EPOCHS, shuffle=False, verbose=0, **options)


@functools.lru_cache(maxsize=None)
def alone(module, name):
    """The weights to which one process trains the network with the global batches: rank 0, and the others receive them."""
    net = network(module)
    net.compile(OPTIMIZERS[name](module), "mse")  # everywhere, as Keras numbers the names of optimizers
    if rank() == 0:
        fit(net, *rows(), BATCH)
    return [horovod.numpy.broadcast(weight, 0, name=f"alone.{name}.{place}") for place, weight in enumerate(net.get_weights())]


def difference(ours, theirs):
    """The largest difference of two lists of weights."""
    return max(float(numpy.abs(numpy.asarray(one) - numpy.asarray(other)).max()) for one, other in zip(ours, theirs))


def close(ours, theirs, tolerance=TOLERANCE):
    assert difference(ours, theirs) <= tolerance, f"they differ by {difference(ours, theirs)}"


def same_on_all_ranks(weights):
    """Fails unless every rank has the same weights, to the last bit."""
    flat = numpy.concatenate([numpy.asarray(weight, "float64").ravel() for weight in weights])
    everywhere = horovod.numpy.allgather(flat[numpy.newaxis])
    assert (everywhere == everywhere[0]).all(), f"ranks differ by {numpy.abs(everywhere - everywhere[0]).max()}"


def folder():
    """Where ranks write files."""
    return pathlib.Path(os.environ["CHECK_RESULTS"])


def number(value):
    """A tensor or variable as an array."""
    return numpy.asarray(value.numpy() if hasattr(value, "numpy") else value)


def stepped(net, optimizer, steps=1):
    """The network after updates with gradients of ones, without the time that fit() takes to build a graph."""
    variables = net.trainable_variables
    for _ in range(steps):
        optimizer.apply_gradients([(tf.ones(tuple(variable.shape)), variable) for variable in variables])
    return net


def noting(module, epoch=lambda *_: None, batch=lambda *_: None):
    """A callback that calls a function at the end of each epoch or batch with (model, number, logs)."""
    class Callback(module.callbacks.Callback):
        """Calls them."""

        def on_epoch_end(self, number, logs=None):
            epoch(self.model, number, logs)

        def on_batch_end(self, number, logs=None):
            batch(self.model, number, logs)

    return Callback()


def drive(module, net, callbacks, epochs=1, logs=lambda epoch: {"loss": 1.0}):
    """Calls callbacks as fit() does, without training; returns the logs of the epochs as the last callback gets them."""
    seen = []
    last = noting(module, lambda model, epoch, its: seen.append(its))
    listed = module.callbacks.CallbackList([*callbacks, last], model=net, epochs=epochs, steps=STEPS)
    listed.on_train_begin()
    for epoch in range(epochs):
        listed.on_epoch_begin(epoch)
        for batch in range(STEPS):
            listed.on_train_batch_begin(batch)
            listed.on_train_batch_end(batch, {"loss": 1.0})
        listed.on_epoch_end(epoch, logs(epoch))
    listed.on_train_end()
    return seen
