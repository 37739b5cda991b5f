"""Keras with PyTorch under it trains as with TensorFlow, where there is no TensorFlow."""
import pathlib
import sys
import tempfile
import zipfile

import keras
import numpy
from checks import check

import horovod.keras as hvd

BATCH, STEPS, EPOCHS = 4, 6, 2
TOLERANCE = 2e-4


def data():
    """The rows and results of all ranks: shape (steps, ranks, rows of a batch, columns)."""
    draw = numpy.random.default_rng(1)
    rows = draw.standard_normal((STEPS, hvd.size(), BATCH, 3)).astype("float32")
    return rows, (rows ** 2).sum(axis=-1, keepdims=True)


def mine(values):
    return values[:, hvd.rank()].reshape(STEPS * BATCH, -1)


def of_all(values):
    return values.reshape(STEPS * hvd.size() * BATCH, -1)


def new_model(optimizer, seed=1):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def train(model, rows, results, batch, *callbacks):
    model.fit(rows, results, batch_size=batch, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=list(callbacks))
    return [numpy.array(weight) for weight in model.get_weights()]


def difference(one, other):
    return max(float(numpy.abs(left - right).max()) for left, right in zip(one, other))


def assert_like_one_process(make):
    """Ranks with a part of each batch compute what one process computes with all of it, and what ranks alone do not."""
    rows, results = data()
    together = train(new_model(hvd.DistributedOptimizer(make())), mine(rows), mine(results), BATCH)
    one = train(new_model(make()), of_all(rows), of_all(results), BATCH * hvd.size())
    assert difference(together, one) < TOLERANCE, difference(together, one)
    alone = train(new_model(make()), mine(rows), mine(results), BATCH)
    assert hvd.size() == 1 or difference(alone, one) > 10 * TOLERANCE, difference(alone, one)


@check
def tensorflow_is_not_imported():
    assert keras.backend.backend() == "torch" and "tensorflow" not in sys.modules


@check
def fit_with_pytorch_and_momentum_is_like_one_process():
    assert_like_one_process(lambda: keras.optimizers.SGD(0.05, momentum=0.9))


@check
def fit_with_pytorch_and_adam_is_like_one_process():
    assert_like_one_process(lambda: keras.optimizers.Adam(0.01))


@check
def fit_with_pytorch_and_clipped_gradients_is_like_one_process():
    assert_like_one_process(lambda: keras.optimizers.AdamW(0.01, clipnorm=0.1))


@check
def a_broadcast_begins_with_the_weights_of_one_rank_with_pytorch():
    rows, results = data()
    model = new_model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), seed=1 + hvd.rank())
    weights = train(model, mine(rows), mine(results), BATCH, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    for weight in weights:
        ones = hvd.allgather(weight.reshape(1, -1))
        assert (numpy.array(ones) == numpy.array(ones)[0]).all(), ones


@check
def values_are_reduced_gathered_and_broadcast_with_pytorch():
    value = numpy.full((2, 2), 1.0 + hvd.rank(), "float32")
    n = hvd.size()
    assert (numpy.array(hvd.allreduce(value)) == (n + 1) / 2).all()
    assert (numpy.array(hvd.allreduce(value, op=hvd.Sum)) == n * (n + 1) / 2).all()
    assert numpy.array(hvd.allgather(value)).shape == (2 * n, 2)
    assert (numpy.array(hvd.broadcast(value, n - 1)) == n).all()


@check
def a_saved_model_names_no_horovod_and_is_distributed_again_with_pytorch():
    model = new_model(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    rows, results = data()
    train(model, mine(rows), mine(results), BATCH)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.keras")
        model.save(path)
        with zipfile.ZipFile(path) as parts:
            config = parts.read("config.json").decode()
        assert "Adam" in config and "horovod" not in config, config
        assert not isinstance(keras.models.load_model(path).optimizer, type(model.optimizer))
        again = hvd.load_model(str(path))
    assert type(again.optimizer).__name__ == "Adam" and int(again.optimizer.iterations) == STEPS * EPOCHS
    alike = train(again, mine(rows), mine(results), BATCH)
    assert difference(alike, train(model, mine(rows), mine(results), BATCH)) < TOLERANCE
