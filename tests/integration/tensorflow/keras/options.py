"""Checks of DistributedOptimizer's parameters, by single updates: with a learning rate of 1 a variable of zeros becomes the negative
reduced gradient. Rank r's gradient is r + 1 times the base."""
import numpy
import tensorflow as tf
from checks import check, raises
from networks import SIDES, close, has_legacy, is_keras3, network, number, of_tf, rank, size

import horovod.numpy
from horovod import _keras
from horovod.common.process_sets import ProcessSet, global_process_set

BASE = numpy.array([1.0, -2.0, 4.0], "float32")


def mean(n=None):
    """The average of the ranks' factors."""
    return ((n or size()) + 1) / 2


def variable(module, values=(0.0, 0.0, 0.0), **options):
    values = numpy.array(values, "float32")
    return module.Variable(values, **options) if is_keras3(module) else tf.Variable(values, **options)


def gradient(factor=None):
    return tf.constant(BASE * (rank() + 1 if factor is None else factor))


def updated(optimizer, variables, gradients=None, in_graph=False):
    """The variables after one update, or after several ones with a list of lists of gradients."""
    def update(*step):
        optimizer.apply_gradients(zip(step, variables))

    run = tf.function(update) if in_graph else update
    for step in gradients or [[gradient() for _ in variables]]:
        run(*step)
    return [number(one) for one in variables]


def optimizers(module, **options):
    """One of each kind, with a learning rate of 1."""
    yield module.optimizers.SGD(1.0, **options)
    if has_legacy(module):
        yield module.optimizers.legacy.SGD(1.0, **options)


class Everyone(ProcessSet):
    """A process set of its own with all ranks."""

    def __init__(self):
        super().__init__(list(range(size())))
        self.process_set_id = global_process_set.process_set_id


def on_every_side():
    """(module, Keras, optimizer) for each kind of optimizer."""
    for hvd, module in SIDES:
        for optimizer in optimizers(module):
            yield hvd, module, optimizer


@check
def gradients_are_averaged_or_summed():
    for hvd, module, optimizer in on_every_side():
        close(updated(hvd.DistributedOptimizer(optimizer), [variable(module)]), [-mean() * BASE], 1e-6)
    for hvd, module, optimizer in on_every_side():
        done = updated(hvd.DistributedOptimizer(optimizer, op=hvd.Sum, name="sums"), [variable(module)], in_graph=True)
        close(done, [-mean() * size() * BASE], 1e-6)


@check
def adasum_of_equal_gradients_is_one_of_them():
    for hvd, module, optimizer in on_every_side():
        op = getattr(hvd, "Adasum", 2)
        close(updated(hvd.DistributedOptimizer(optimizer, op=op), [variable(module)], [[gradient(1.0)]]), [-BASE], 1e-5)


@check
def compression_rounds_and_the_factor_divides_before_the_sum():
    fine = 1.0 + 2.0 ** -12
    for hvd, module, optimizer in on_every_side():
        optimizer = hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.fp16)
        done = updated(optimizer, [variable(module)], [[tf.constant([fine] * 3)]])[0]
        assert size() == 1 and (done <= -1.0).all() or (done == -1.0).all(), done  # one rank sends nothing
    for hvd, module, optimizer in on_every_side():
        optimizer = hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.fp16, gradient_predivide_factor=4.0 * size())
        large = tf.constant([60000.0] * 3)  # whose sum float16 does not hold
        close(updated(optimizer, [variable(module)], [[large]]), [[-60000.0] * 3], 64.0)


def slices():
    """The gradient of rank r: ones in row r, and its factor in row 0."""
    return tf.IndexedSlices(tf.constant([[1.0, 1.0], [1.0, 1.0]]) * tf.constant([[1.0], [rank() + 1.0]]),
                            tf.constant([rank(), 0]), tf.constant([size(), 2]))


@check
def slices_are_gathered_or_made_dense():
    expected = numpy.ones((size(), 2)) / size()
    expected[0] += mean()
    for as_dense in (False, True):
        for hvd, module, optimizer in on_every_side():
            table = variable(module, numpy.zeros((size(), 2)))
            optimizer = hvd.DistributedOptimizer(optimizer, sparse_as_dense=as_dense, device_dense="/cpu:0", device_sparse="/cpu:0")
            close(updated(optimizer, [table], [[slices()]], in_graph=as_dense), [-expected], 1e-5)


@check
def groups_are_numbers_or_lists_of_variables():
    for hvd, module, _ in on_every_side():
        variables = [variable(module) for _ in range(3)]
        step = [[gradient(rank() + factor) for factor in (1.0, 2.0, 3.0)]]
        expected = [-BASE * (mean() + offset) for offset in (0.0, 1.0, 2.0)]
        for groups in ({"groups": 2}, {"num_groups": 1}, {"groups": [variables[:2]]}, {"groups": [[variables[2], variables[0]]]}):
            for in_graph in (False, True):
                for one in variables:
                    one.assign([0.0] * 3)
                optimizer = hvd.DistributedOptimizer(module.optimizers.SGD(1.0), **groups)
                close(updated(optimizer, variables, step, in_graph), expected, 1e-5)
    for hvd, module in SIDES:
        for groups in (-1, "two", [1, 2], True):
            assert "groups" in raises(ValueError, hvd.DistributedOptimizer, module.optimizers.SGD(), groups=groups)


@check
def a_process_set_reduces_among_its_ranks():
    ours = horovod.numpy.add_process_set(ProcessSet([0])) if size() > 1 else Everyone()
    try:
        for hvd, module, optimizer in on_every_side():
            done = updated(hvd.DistributedOptimizer(optimizer, process_set=ours), [variable(module)])
            close(done, [-BASE * (rank() + 1)], 1e-6)
    finally:
        if size() > 1:
            horovod.numpy.remove_process_set(ours)


@check
def several_passes_add_up_before_the_update():
    for averaged in (False, True):
        for hvd, module, optimizer in on_every_side():
            optimizer = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2, average_aggregated_gradients=averaged)
            one = variable(module)
            steps = [[gradient()], [gradient(3.0)]]
            assert (updated(optimizer, [one], steps[:1])[0] == 0).all()
            assert int(number(optimizer._agg_helper.counter)) == 1
            close(updated(optimizer, [one], steps[1:]), [-BASE * (mean() + 3.0) / (2 if averaged else 1)], 1e-5)
            assert int(number(optimizer.iterations)) == 2
            close(updated(optimizer, [one], steps, in_graph=True), [-BASE * (mean() + 3.0) * (1 if averaged else 2)], 1e-5)


@check
def an_overflow_in_a_pass_that_does_not_update_leaves_the_scale_alike():
    for hvd, module in SIDES:
        optimizer = module.mixed_precision.LossScaleOptimizer(module.optimizers.SGD(1.0))
        optimizer = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)
        one = variable(module)
        factor = float("inf") if rank() == size() - 1 else 1.0
        before = updated(optimizer, [one], [[gradient(factor)]])[0]
        assert (before == 0).all(), before
        scales = [scale_of(module, optimizer)]
        after = updated(optimizer, [one], [[gradient(1.0)]])[0]
        scales.append(scale_of(module, optimizer))
        assert (after == 0).all() and scales == [2.0 ** 15, 2.0 ** 14], (after, scales)


def scale_of(module, optimizer):
    return float(optimizer.dynamic_scale if is_keras3(module) else optimizer.loss_scale)


@check
def local_variables_keep_their_ranks_gradients():
    for hvd, module, _ in on_every_side():
        for scaled in (True, False):
            for optimizer in optimizers(module):
                shared, own = variable(module), variable(module)
                optimizer = hvd.DistributedOptimizer(optimizer, scale_local_gradients=scaled)
                optimizer.register_local_var(own)
                close(updated(optimizer, [own, shared]), [-BASE * (rank() + 1) / (size() if scaled else 1), -mean() * BASE], 1e-6)


@check
def local_layers_are_not_reduced():
    hvd, module = SIDES[0]
    everything = {"name": "partial", "device_dense": "/cpu:0", "device_sparse": "/cpu:0", "compression": hvd.Compression.fp16,
                  "sparse_as_dense": True, "groups": 2, "process_set": Everyone(), "op": hvd.Sum}
    for layers, options in ((0, {}), ([0], {"scale_local_gradients": False}), ([0, 1], {"gradient_predivide_factor": 2.0}),
                            ([0], {"backward_passes_per_step": 2, "average_aggregated_gradients": True}), ([0], everything)):
        net = network(module)
        before = net.get_weights()
        numbers = layers if isinstance(layers, list) else [layers]
        chosen = [net.layers[number] for number in numbers] if isinstance(layers, list) else net.layers[layers]
        optimizer = hvd.PartialDistributedOptimizer(module.optimizers.SGD(1.0), local_layers=chosen, **options)
        step = [tf.fill(tuple(one.shape), rank() + 1.0) for one in net.trainable_variables]
        updated(optimizer, net.trainable_variables, [step] * options.get("backward_passes_per_step", 1))
        own = (rank() + 1) / (size() if options.get("scale_local_gradients", True) else 1)
        shared = mean() * (size() if "op" in options else 1)
        expected = [weight - (own if place // 2 in numbers else shared) for place, weight in enumerate(before)]
        close(net.get_weights(), expected, 1e-5)
    text = raises(ValueError, hvd.PartialDistributedOptimizer, module.optimizers.SGD(), local_layers=[1])
    assert "local_layers takes layers" in text, text


@check
def an_optimizer_stays_the_one_that_it_was():
    for hvd, module, optimizer in on_every_side():
        kind, config = type(optimizer), optimizer.get_config()
        made = hvd.DistributedOptimizer(optimizer)
        assert made is optimizer and isinstance(made, kind) and type(made) is not kind
        assert (type(made).__name__, type(made).__module__, type(made).__qualname__) == (
            kind.__name__, kind.__module__, kind.__qualname__)
        assert made.get_config() == config
        again = type(made).from_config(config)  # reduces with the same arguments
        close(updated(again, [variable(module)]), [-mean() * BASE], 1e-6)


@check
def only_optimizers_are_wrapped():
    for hvd, module in SIDES:
        for bad in ("sgd", None, tf.compat.v1.train.GradientDescentOptimizer(0.1), module.optimizers.SGD,
                    module.mixed_precision.LossScaleOptimizer):
            text = raises(TypeError, hvd.DistributedOptimizer, bad)
            assert "takes an optimizer of Keras" in text and (not isinstance(bad, type) or f"not the class {bad.__name__}" in text), text
        fresh = module.optimizers.SGD
        for words, options in (("Average, Sum or Adasum", {"op": 3}), ("use op=Average", {"op": hvd.Sum, "gradient_predivide_factor": 2.0}),
                               ("must not be 0", {"gradient_predivide_factor": 0.0}),
                               ("backward_passes_per_step must be", {"backward_passes_per_step": 0})):
            text = raises(ValueError, hvd.DistributedOptimizer, fresh(), **options)
            assert words in text, text


@check
def wrapping_again_returns_the_optimizer_or_is_refused():
    for hvd, module, optimizer in on_every_side():
        variables = [variable(module) for _ in range(2)]
        grouped = {"groups": [[variables[0]], [variables[1]]], "op": hvd.Sum, "process_set": Everyone()}
        made = hvd.DistributedOptimizer(optimizer, **grouped)
        kind = type(made)
        assert hvd.DistributedOptimizer(made, **{**grouped, "groups": [(variables[0],), [variables[1]]]}) is made and type(made) is kind
        for other in ({}, {**grouped, "groups": [variables]}, {**grouped, "groups": 2}, {**grouped, "groups": [variables[:1]]},
                      {**grouped, "op": hvd.Average}, {**grouped, "backward_passes_per_step": 2}, {**grouped, "name": "other"}):
            text = raises(ValueError, hvd.DistributedOptimizer, made, **other)
            assert "already" in text and type(made) is kind, text
        done = [-mean() * size() * BASE] * 2
        close(updated(made, variables), done, 1e-5)  # reduced once
    for hvd, module in SIDES:
        inner = hvd.DistributedOptimizer(module.optimizers.SGD(1.0))
        outer = module.mixed_precision.LossScaleOptimizer(inner)
        assert hvd.DistributedOptimizer(outer) is outer
        assert "other values of op:" in raises(ValueError, hvd.DistributedOptimizer, outer, op=hvd.Sum)
    hvd, module = SIDES[0]
    layers = network(module).layers
    partial = hvd.PartialDistributedOptimizer(module.optimizers.SGD(), local_layers=layers[0])
    assert hvd.PartialDistributedOptimizer(partial, local_layers=[layers[0]]) is partial
    assert "other values of local_layers:" in raises(ValueError, hvd.DistributedOptimizer, partial)


@check
def the_optimizer_computes_reduced_gradients():
    for hvd, module, optimizer in on_every_side():
        optimizer = hvd.DistributedOptimizer(optimizer)
        one = variable(module)
        tape = tf.GradientTape()
        with tape:
            loss = tf.reduce_sum(tf.convert_to_tensor(one) * gradient())
        [(reduced, owner)] = optimizer.compute_gradients(loss, [one], tape=tape)
        assert owner is one
        close([reduced], [mean() * BASE], 1e-6)
        close(updated(optimizer, [one], [[reduced * 2.0]]), [-2 * mean() * BASE], 1e-6)  # not reduced again
        close(updated(optimizer, [one]), [-3 * mean() * BASE], 1e-6)  # but this is

@check
def computed_gradients_are_those_of_their_variables():
    for hvd, module, optimizer in on_every_side():
        optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Sum)
        one, two, three = variables = [variable(module) for _ in range(3)]
        _keras.optimizers.build(optimizer, variables)
        pairs = []
        for owners in ([one, two], [three]):
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(owner) * gradient()) for owner in variables])
            pairs += optimizer.compute_gradients(loss, owners, tape=tape)
        total = mean() * size()
        close(updated(optimizer, [three], [[pairs[2][0]]]), [-total * BASE], 1e-5)  # not reduced again
        close(updated(optimizer, [three]), [-2 * total * BASE], 1e-5)  # but this is, before the others are applied
        close(updated(optimizer, [two], [[pairs[1][0]]]), [-total * BASE], 1e-5)  # without a gradient that was computed with it
        close(updated(optimizer, [one]), [-total * BASE], 1e-5)


@check
def legacy_optimizers_alone_get_gradients_of_a_graph():
    hvd, module = SIDES[0]
    if is_keras3(module):
        one = variable(module)
        loss = tf.reduce_sum(tf.convert_to_tensor(one))
        text = raises(NotImplementedError, hvd.DistributedOptimizer(module.optimizers.SGD()).get_gradients, loss, [one])
        assert "get_gradients" in text, text
    hvd, module = of_tf()
    if has_legacy(module):
        with tf.Graph().as_default():
            one = module.backend.variable(numpy.zeros(3, "float32"))
            optimizer = hvd.DistributedOptimizer(module.optimizers.legacy.SGD(1.0))
            [reduced] = optimizer.get_gradients(tf.reduce_sum(one * gradient()), [one])
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                close([session.run(reduced)], [mean() * BASE], 1e-6)


@check
def a_network_without_some_gradients_is_trained():
    for hvd, module, optimizer in on_every_side():
        used, unused = variable(module), variable(module)
        optimizer = hvd.DistributedOptimizer(optimizer)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.convert_to_tensor(used) * gradient())
        gradients = tape.gradient(loss, _keras.optimizers.natives([used, unused]))
        assert gradients[1] is None
        close(updated(optimizer, [used, unused], [gradients]), [-mean() * BASE, numpy.zeros(3)], 1e-6)


@check
def the_optimizer_inside_of_a_loss_scale_is_wrapped():
    for hvd, module in SIDES:
        optimizer = module.mixed_precision.LossScaleOptimizer(module.optimizers.SGD(1.0))
        assert hvd.DistributedOptimizer(optimizer) is optimizer and _keras.is_distributed(optimizer)
        scale = 2.0 ** 15 if is_keras3(module) else 1.0  # Keras 2 leaves it to the script to divide
        close(updated(optimizer, [variable(module)], in_graph=True), [-mean() * BASE / scale], 1e-6)
