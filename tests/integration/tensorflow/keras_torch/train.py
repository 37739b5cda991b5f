"""Trains with Keras 3 on PyTorch, on every rank: the weights are those that one process gets with the global batch. Prints "trained"."""
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras  # noqa: E402  (after the choice of its backend)
import numpy  # noqa: E402

import horovod.keras as hvd  # noqa: E402

ROWS, BATCH = 64, 16
RANDOM = numpy.random.RandomState(3)
INPUTS, TARGETS = RANDOM.randn(ROWS, 6).astype("float32"), RANDOM.randn(ROWS, 3).astype("float32")


def network(seed=7):
    """A network with the weights of a seed."""
    net = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3)])
    random = numpy.random.RandomState(seed)
    net.set_weights([random.uniform(-0.5, 0.5, weight.shape) for weight in net.get_weights()])
    return net


def fit(optimizer, n=1, place=0, passes=1, **options):
    """The weights after a fit() with a part of each batch."""
    own = BATCH // n
    inputs, targets = (numpy.concatenate([array[first + place * own:first + (place + 1) * own] for first in range(0, ROWS, BATCH)])
                       for array in (INPUTS, TARGETS))
    net = network(7 if place == 0 else place)
    net.compile(optimizer, "mse")
    net.fit(inputs, targets, batch_size=own // passes, epochs=2, shuffle=False, verbose=0, **options)
    return net


def apart(one, other):
    """The largest difference of the weights of two networks."""
    return max(numpy.abs(ours - theirs).max() for ours, theirs in zip(one.get_weights(), other.get_weights()))


def compare(make, **options):
    """Fails unless ranks train as one process does; options: those of DistributedOptimizer."""
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    passes = options.get("backward_passes_per_step", 1)
    ours = fit(hvd.DistributedOptimizer(make(), **options), hvd.size(), hvd.rank(), passes, callbacks=callbacks)
    assert apart(ours, fit(make())) < 2e-4, (options, apart(ours, fit(make())))
    return ours


def sgd():
    return keras.optimizers.SGD(0.1, momentum=0.9)


def main():
    hvd.init()
    trained = compare(sgd)
    compare(lambda: keras.optimizers.AdamW(0.01, clipnorm=0.05), groups=2)
    compare(sgd, backward_passes_per_step=2, average_aggregated_gradients=True)
    compare(sgd, gradient_predivide_factor=2.0, groups=[trained.trainable_variables[:2]])
    compare(sgd, compression=hvd.Compression.fp16)
    partial = network()
    first = partial.layers[0]
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=first)
    before = partial.get_weights()
    optimizer.apply_gradients([(keras.ops.ones(one.shape) * (hvd.rank() + 1.0), one) for one in partial.trainable_variables])
    steps = [old - new for old, new in zip(before, partial.get_weights())]
    expected = [(hvd.rank() + 1) / hvd.size()] * 2 + [(hvd.size() + 1) / 2] * 2
    assert all(numpy.allclose(step, one, atol=1e-5) for step, one in zip(steps, expected)), steps
    state = hvd.elastic.KerasState(trained, epoch=hvd.rank() + 3)
    state.sync()
    trained.set_weights([weight * 0 for weight in trained.get_weights()])
    state.restore()
    assert state.epoch == 3 and numpy.abs(trained.get_weights()[0]).max() > 0
    assert float(hvd.allreduce(hvd.rank() + 1.0)) == (hvd.size() + 1) / 2
    assert hvd.allgather(numpy.ones((hvd.rank() + 1, 2))).shape[0] == hvd.size() * (hvd.size() + 1) // 2
    print(f"rank {hvd.rank()} has trained", flush=True)


if __name__ == "__main__":
    main()
