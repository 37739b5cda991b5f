"""Checks of fit(): ranks train as one process does with the global batch, and would not without the reduction."""
import functools

import numpy
import tensorflow as tf
from checks import Skip, check
from networks import (
    BATCH, EPOCHS, OPTIMIZERS, STEPS, TOLERANCE, alone, close, difference, fit, has_legacy, is_keras3, mine, network, of_tf, rank,
    rows, same_on_all_ranks, size)

import horovod.tensorflow as hvd_tf
from horovod.tensorflow import reductions

TOLERANCE_OF_HALF = 5e-3
COMPILED = {"as usual": {}, "eagerly": {"run_eagerly": True}, "two steps": {"steps_per_execution": 2}, "xla": {"jit_compile": True}}


def cases(module):
    """[(optimizer, how it is compiled)]: all of them at 2 ranks, of which each takes its time to build a graph."""
    if size() != 2:
        return [("sgd", "as usual"), ("adam", "as usual"), ("adamw", "eagerly")]
    named = [*(("sgd", how) for how in COMPILED), ("adam", "as usual"), ("adamw", "as usual"), ("adamw", "eagerly")]
    return named + [("legacy", "as usual") if has_legacy(module) else ("accumulating", "as usual")]


def trained(optimizer, how):
    """The weights to which fit() trains the network on this rank."""
    hvd, module = of_tf()
    net = network(module)
    net.compile(hvd.DistributedOptimizer(OPTIMIZERS[optimizer](module)), "mse", **COMPILED[how])
    fit(net, *map(mine, rows()), BATCH // size())
    return net.get_weights()


@check
def ranks_fit_as_one_process_does():
    for optimizer, how in cases(of_tf()[1]):
        weights = trained(optimizer, how)
        same_on_all_ranks(weights)
        apart = difference(weights, alone(of_tf()[1], optimizer))
        assert apart <= TOLERANCE, f"{optimizer}, {how}: they differ by {apart}"


@check
def a_lookup_trains_in_a_program_of_xla_as_in_a_graph():
    """XLA compiles no allgather, so the gradient of the table is reduced as a dense tensor there."""
    hvd, module = of_tf()
    weights = {}
    for is_compiled in (False, True):
        net = module.Sequential([module.layers.Input((2,), dtype="int32"), module.layers.Embedding(7, 3), module.layers.Flatten(),
                                 module.layers.Dense(1)])
        net.set_weights([numpy.full(weight.shape, 0.5) for weight in net.get_weights()])
        net.compile(hvd.DistributedOptimizer(OPTIMIZERS["sgd"](module)), "mse", jit_compile=is_compiled)
        numbers = numpy.arange(BATCH * STEPS * 2).reshape(-1, 2) % 7
        fit(net, mine(numbers), mine(numbers.sum(1, keepdims=True).astype("float32")), BATCH // size())
        weights[is_compiled] = net.get_weights()
    same_on_all_ranks(weights[True])
    assert difference(weights[True], weights[False]) <= TOLERANCE, weights


def loop(module, optimizer, step, part=mine, own=None):
    """Trains the network by a loop of one's own, with a part of the rows; returns its weights."""
    net = network(module)
    loss = module.losses.MeanSquaredError()
    inputs, targets = map(part, rows())
    own = own or BATCH // size()
    for _ in range(EPOCHS):
        for first in range(0, own * STEPS, own):
            step(net, optimizer, loss, tf.constant(inputs[first:first + own]), tf.constant(targets[first:first + own]))
    return net.get_weights()


def with_a_tape(net, optimizer, loss, inputs, targets):
    with tf.GradientTape() as tape:
        value = loss(targets, net(inputs))
    if value > 1e6:  # for AutoGraph
        tf.print("the loss is", value)
    optimizer.apply_gradients(zip(tape.gradient(value, net.trainable_variables), net.trainable_variables))


def with_a_tape_that_reduces(net, optimizer, loss, inputs, targets):
    with tf.GradientTape() as tape:
        value = loss(targets, net(inputs))
    gradients = hvd_tf.DistributedGradientTape(tape).gradient(value, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))


def by_the_optimizer(net, optimizer, loss, inputs, targets):
    pairs = optimizer.compute_gradients(lambda: loss(targets, net(inputs)), net.trainable_variables)
    optimizer.apply_gradients([(2.0 * gradient, variable) for gradient, variable in pairs])


@check
def so_they_do_in_loops_of_ones_own():
    hvd, module = of_tf()
    for name, wrap in (("sgd", tf.function), ("adam", lambda step: step), *([("legacy", tf.function)] if has_legacy(module) else [])):
        weights = loop(module, hvd.DistributedOptimizer(OPTIMIZERS[name](module)), wrap(with_a_tape))
        same_on_all_ranks(weights)
        close(weights, alone(module, name))
    weights = loop(module, OPTIMIZERS["sgd"](module), tf.function(with_a_tape_that_reduces))
    same_on_all_ranks(weights)
    close(weights, alone(module, "sgd"))


@check
def gradients_that_the_optimizer_computes_are_reduced_once():
    hvd, module = of_tf()
    expected = loop(module, module.optimizers.SGD(0.1), with_a_tape, lambda array: array, BATCH)
    for make in (module.optimizers.SGD, *([module.optimizers.legacy.SGD] if has_legacy(module) else [])):
        sums = loop(module, hvd.DistributedOptimizer(make(0.05 / size()), op=hvd.Sum), by_the_optimizer)
        same_on_all_ranks(sums)
        close(sums, expected)


def overflown(is_distributed):
    """The weights and the loss scale after a fit() in half precision, in which the last rank overflows once in each epoch."""
    hvd, module = of_tf()
    inputs, targets = rows()
    targets = targets.copy()
    targets[2 * BATCH - 1] = 6e4  # in the last rank's rows of the second step
    module.mixed_precision.set_global_policy("mixed_float16")
    try:
        optimizer = module.optimizers.SGD(0.05, momentum=0.9)
        net = network(module)
        net.compile(hvd.DistributedOptimizer(optimizer) if is_distributed else optimizer, "mse")
        part, batch = (mine, BATCH // size()) if is_distributed else (lambda array: array, BATCH)
        fit(net, part(inputs), part(targets), batch)
        return net.get_weights(), float(net.optimizer.dynamic_scale if is_keras3(module) else net.optimizer.loss_scale)
    finally:
        module.mixed_precision.set_global_policy("float32")


@functools.lru_cache(maxsize=1)
def overflown_alone():
    return overflown(False)


@check
def an_overflow_on_one_rank_is_one_on_all():
    (ours, scale), (theirs, expected) = overflown(True), overflown_alone()
    same_on_all_ranks(ours)
    close(ours, theirs, TOLERANCE_OF_HALF)
    assert scale == expected == 2.0 ** 13, (scale, expected)  # halved in both epochs


@check
def without_the_reduction_none_of_these_do():
    if size() != 2 or has_legacy(of_tf()[1]):
        raise Skip("a reduction that does nothing is planted at 2 ranks with Keras 3")
    module = of_tf()[1]
    one, group = reductions._allreduce, reductions._grouped_allreduce
    reductions._allreduce = reductions._grouped_allreduce = lambda tensors, *_, **__: tensors
    try:
        apart = {case: difference(trained(*case), alone(module, case[0])) for case in cases(module)}
        apart["tape"] = difference(loop(module, OPTIMIZERS["sgd"](module), tf.function(with_a_tape_that_reduces)), alone(module, "sgd"))
        ours, scale = overflown(True)
    finally:
        reductions._allreduce, reductions._grouped_allreduce = one, group
    theirs, expected = overflown_alone()
    assert all(one > 2 * TOLERANCE for one in apart.values()), apart
    assert difference(ours, theirs) > 2 * TOLERANCE_OF_HALF, difference(ours, theirs)
    assert (scale == expected) is (rank() == size() - 1), (scale, expected)
