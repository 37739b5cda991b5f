"""One rank of a job that reduces and trains with TensorFlow, for script/bench tensorflow; mpirun starts it.

tensorflow_steps.py PART...: the parts are operations and training. Which horovod.tensorflow that is, PYTHONPATH decides: the program
is the same for ours and for Horovod's. TF_USE_LEGACY_KERAS decides whether training is with tf_keras or with Keras 3. Rank 0 prints a
JSON line for each workload: blocks of steps, each as [median microseconds of a step, microseconds of a loop that shows how fast the
slowest rank's processor was just then]. Training also has the sum of all weights at its end, by their absolute values, which is the
same wherever the same model was trained.
"""
import json
import statistics
import sys
import time

import numpy
import tensorflow as tf

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras

KIB, MIB = 256, 256 * 1024  # in floats
N_SMALL, N_MANY = 64, 1024
BLOCKS = 15
STEPS = 25  # of training in an epoch, which is a block
EPOCHS, BATCH = BLOCKS + 1, 16
LOOP = 30_000  # turns


def say(**line):
    if hvd.rank() == 0:
        print(json.dumps(line), flush=True)


# --- Blocks ---------------------------------------------------------------------------------------------------------

def loop_us():
    """The microseconds of a loop that depends on nothing but this processor."""
    begin = time.perf_counter()
    for _ in range(LOOP):
        pass
    return 1e6 * (time.perf_counter() - begin)


def block_us(function, n_steps):
    """The median microseconds of so many calls."""
    found = []
    for _ in range(n_steps):
        begin = time.perf_counter()
        function()
        found.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(found)


def with_loops(blocks, loops):
    """[microseconds, those of the slower loop before or after it, on the slowest rank] of each block."""
    mine = tf.constant([[max(pair) for pair in zip(loops, loops[1:])]], tf.float64)
    slowest = hvd.allgather(mine, name="loops").numpy().max(axis=0)
    return list(map(list, zip(blocks, slowest.tolist())))


def blocks_of(function, n_steps):
    """The blocks of a function that does one step."""
    loops, blocks = [loop_us()], []
    for _ in range(BLOCKS):
        blocks.append(block_us(function, n_steps))
        loops.append(loop_us())
    return with_loops(blocks, loops)


# --- Operations -----------------------------------------------------------------------------------------------------

def check(results, is_sparse=False):
    """Ends the benchmark unless ones were added up, over all ranks."""
    tensors = results if isinstance(results, (list, tuple)) else [results]
    wanted = 1 if is_sparse else hvd.size()
    for tensor in (tensors[0], tensors[-1]):
        values = (tensor.values if is_sparse else tensor).numpy()
        assert (values == wanted).all() and (not is_sparse or len(values) == hvd.size() * 4), values


def ones(n_tensors, n_elements):
    return [tf.ones([n_elements]) for _ in range(n_tensors)]


def one_by_one(tensors):
    """A graph that reduces each tensor by itself."""
    @tf.function(input_signature=[tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors])
    def reduce(*given):
        return [hvd.allreduce(tensor, op=hvd.Sum, name=f"tensor.{len(given)}.{i}") for i, tensor in enumerate(given)]
    return lambda: reduce(*tensors)


def element_by_element(tensor):
    """A graph that reduces each element by itself. It has one argument, as TensorFlow's call with 64 takes longer than all the rest."""
    @tf.function(input_signature=[tf.TensorSpec(tensor.shape, tensor.dtype)])
    def reduce(given):
        parts = tf.split(given, tensor.shape[0])
        return tf.concat([hvd.allreduce(part, op=hvd.Sum, name=f"element.{i}") for i, part in enumerate(parts)], 0)
    return lambda: reduce(tensor)


def as_group(tensors):
    """A graph that reduces them as a group."""
    @tf.function(input_signature=[tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors])
    def reduce(*given):
        return hvd.grouped_allreduce(list(given), op=hvd.Sum)
    return lambda: reduce(*tensors)


def workloads():
    """Yields (name, function, steps of a block)."""
    element = tf.ones([1])
    yield "eager-1", lambda: hvd.allreduce(element, op=hvd.Sum, name="element"), 100
    yield "graph-64x1", element_by_element(tf.ones([N_SMALL])), 40
    many = ones(N_MANY, KIB * 4)
    yield "group-1024x4KiB", lambda: hvd.grouped_allreduce(many, op=hvd.Sum, name="group"), 8
    yield "group-graph-1024x4KiB", as_group(many), 4
    yield "graph-64x1MiB", one_by_one(ones(N_SMALL, MIB)), 4
    large = tf.ones([64 * MIB])
    yield "eager-64MiB", lambda: hvd.allreduce(large, op=hvd.Sum, name="large"), 4
    slices = tf.IndexedSlices(tf.ones([4, 16]), tf.constant([1, 5, 7, 9], tf.int64), tf.constant([1000, 16], tf.int64))
    yield "indexed-slices", lambda: hvd.allreduce(slices, op=hvd.Sum, name="slices"), 30


def operations():
    for name, function, n_steps in workloads():
        block_us(function, n_steps)
        check(function(), is_sparse=name == "indexed-slices")
        say(workload=name, blocks=blocks_of(function, n_steps))


# --- Training -------------------------------------------------------------------------------------------------------

def small_cnn(layers):
    """Two convolutions on images of 28 x 28: six variables."""
    return [layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10)], (28, 28, 1)


def many_small(layers):
    """101 dense layers, 202 variables of at most 256 floats: moving them is mostly overhead."""
    return [*(layers.Dense(16, activation="tanh") for _ in range(100)), layers.Dense(10)], (16,)


class Steps(tf.keras.callbacks.Callback):
    """Notes the mean microseconds of a step of each epoch but the first, and the loops before and after it."""

    def __init__(self):
        super().__init__()
        self.blocks, self.loops, self.begin = [], [], 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        if epoch:
            self.blocks.append(1e6 * (time.perf_counter() - self.begin) / STEPS)
        self.loops.append(loop_us())


def train(make):
    """(blocks, what the weights add up to at the end) of model.fit, every rank with rows of its own."""
    keras = tf.keras
    keras.utils.set_random_seed(1)
    layers, shape = make(keras.layers)
    model = keras.Sequential([keras.layers.Input(shape), *layers])
    draw = numpy.random.default_rng(hvd.rank())
    rows = draw.standard_normal((STEPS * BATCH, *shape), dtype="float32")
    classes = draw.integers(10, size=STEPS * BATCH)
    data = tf.data.Dataset.from_tensor_slices((rows, classes)).batch(BATCH, drop_remainder=True).cache()
    optimizer = hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.01))
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    hvd.broadcast_variables(model.variables, root_rank=0)
    steps = Steps()
    model.fit(data, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[steps])
    weights = numpy.concatenate([numpy.ravel(weight) for weight in model.get_weights()])
    return with_loops(steps.blocks, steps.loops), float(numpy.abs(weights).sum())


def training():
    for make in (small_cnn, many_small):
        blocks, weights = train(make)
        say(workload=f"fit-{make.__name__.replace('_', '-')}", blocks=blocks, weights=weights)


def main():
    hvd.init()
    for part in sys.argv[1:]:
        {"operations": operations, "training": training}[part]()
    hvd.shutdown()


if __name__ == "__main__":
    main()
