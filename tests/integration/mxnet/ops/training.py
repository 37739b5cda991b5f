"""Checks of DistributedTrainer and DistributedOptimizer: ranks train as one process does with the global batch."""
import pickle
import warnings

import mxnet as mx
import numpy
from arrays import close, mine
from checks import check, raises

import horovod.mxnet as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.mxnet import compression

ROWS = 4  # of a rank in each batch
STEPS = 4


def perceptron():
    """A small network with the same weights wherever it is made."""
    numpy.random.seed(7)
    net = mx.gluon.nn.Sequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=6), mx.gluon.nn.Dense(3, in_units=8))
    net.initialize()
    for _, parameter in sorted(net.collect_params().items()):
        parameter.set_data(mx.nd.array(numpy.random.uniform(-0.5, 0.5, parameter.shape)))
    return net


def batches():
    """The global batches: [(inputs, targets)]."""
    made = numpy.random.RandomState(3)
    rows = ROWS * hvd.size()
    return [(mx.nd.array(made.randn(rows, 6)), mx.nd.array(made.randn(rows, 3))) for _ in range(STEPS)]


def my_part(array):
    """This rank's rows of a global batch."""
    return array[ROWS * hvd.rank():ROWS * (hvd.rank() + 1)]


def train(net, trainer, part=lambda array: array):
    """Trains with a part of each batch; returns the network."""
    loss = mx.gluon.loss.L2Loss()
    for inputs, targets in batches():
        with mx.autograd.record():
            losses = loss(net(part(inputs)), part(targets))
        losses.backward()
        trainer.step(len(losses))
    return net


def same_parameters(one, other, tolerance=1e-5):
    for name, parameter in one.collect_params().items():
        close(parameter.data(), other.collect_params()[name].data(), tolerance)


def alone(optimizer="sgd", options=None):
    """The network that one process trains with the global batches."""
    net = perceptron()
    return train(net, mx.gluon.Trainer(net.collect_params(), optimizer, options or OPTIONS["sgd"], kvstore=None))


OPTIONS = {"sgd": {"learning_rate": 0.1, "momentum": 0.9}, "adam": {"learning_rate": 0.01},
           "nag": {"learning_rate": 0.1, "momentum": 0.9, "clip_gradient": 0.2}}


@check
def ranks_train_as_one_process_with_each_optimizer():
    for optimizer, options in OPTIONS.items():
        net = perceptron()
        train(net, hvd.DistributedTrainer(net.collect_params(), optimizer, dict(options)), my_part)
        same_parameters(net, alone(optimizer, options))


@check
def so_they_do_in_groups_with_factors_and_as_lists_of_parameters():
    expected = alone()
    for options in ({"num_groups": 1}, {"num_groups": 3}, {"num_groups": 9, "prefix": "other."}, {"gradient_predivide_factor": 4.0},
                    {"gradient_predivide_factor": 0.5, "num_groups": 2}):
        net = perceptron()
        train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", dict(OPTIONS["sgd"]), **options), my_part)
        same_parameters(net, expected)
    for params in (lambda net: dict(net.collect_params().items()), lambda net: list(net.collect_params().values())):
        net = perceptron()
        train(net, hvd.DistributedTrainer(params(net), mx.optimizer.create("sgd", **OPTIONS["sgd"])), my_part)
        same_parameters(net, expected)


@check
def in_half_precision_they_do_so_but_for_rounding():
    for options in ({}, {"num_groups": 2}):
        net = perceptron()
        train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", dict(OPTIONS["sgd"]), compression=hvd.Compression.fp16,
                                          **options), my_part)
        same_parameters(net, alone(), 2e-3)
        if hvd.size() > 1:
            assert raises(AssertionError, same_parameters, net, alone(), 1e-9), "nothing was rounded"


@check
def without_the_reduction_they_do_not():
    """The same comparison fails if the runtime reduces nothing."""
    if hvd.size() == 1:
        return
    from horovod.mxnet import optimizer  # pylint: disable=import-outside-toplevel
    complete, optimizer.complete = optimizer.complete, lambda begin, items: None
    try:
        net = perceptron()
        train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", dict(OPTIONS["sgd"])), my_part)
    finally:
        optimizer.complete = complete
    assert "differ by" in raises(AssertionError, same_parameters, net, alone(), 1e-3)


@check
def an_optimizer_of_the_older_interface_reduces_too():
    expected = alone()
    for options in ({}, {"gradient_predivide_factor": 2.0}, {"num_groups": 2, "gradient_predivide_factor": 2.0}):
        net = perceptron()
        inner = mx.optimizer.create("sgd", **OPTIONS["sgd"])
        optimizer = hvd.DistributedOptimizer(inner, **options)
        assert optimizer.momentum == 0.9 and optimizer.lr_scheduler is None and isinstance(optimizer, mx.optimizer.Optimizer)
        train(net, Updates(net, optimizer), my_part)
        same_parameters(net, expected)


class Updates:
    """Trains as mxnet.module does: an updater of MXNet's calls the optimizer for lists of weights, or one by one."""

    def __init__(self, net, optimizer, together=True):
        self._net, self._optimizer, self._together = net, optimizer, together
        self._updater = mx.optimizer.get_updater(optimizer)
        self._scale = optimizer.rescale_grad

    def step(self, rows):
        inner = getattr(self._optimizer, "_optimizer", self._optimizer)
        inner.rescale_grad = self._scale / rows
        parameters = list(self._net.collect_params().values())
        triples = [(i, parameter.grad(), parameter.data()) for i, parameter in enumerate(parameters)]
        if self._together:
            self._updater(*map(list, zip(*triples)))
        else:
            for triple in triples:
                self._updater(*triple)


def module_after_training(optimizer, part=lambda array: array):
    """The parameters of a Module that was trained with a part of each global batch."""
    data = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="layer")
    module = mx.mod.Module(mx.sym.LinearRegressionOutput(data, mx.sym.Variable("label"), name="output"), label_names=["label"])
    rows = len(part(batches()[0][0]))
    module.bind([("data", (rows, 6))], [("label", (rows, 3))])
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore=None, optimizer=optimizer)
    for inputs, targets in batches():
        module.forward_backward(mx.io.DataBatch([part(inputs)], [part(targets)]))
        module.update()
    return module.get_params()[0]


@check
def a_module_trains_with_it_as_in_one_process():
    rows = ROWS * hvd.size()
    expected = module_after_training(mx.optimizer.create("sgd", rescale_grad=1 / rows, **OPTIONS["sgd"]))
    optimizer = hvd.DistributedOptimizer(mx.optimizer.create("sgd", rescale_grad=1 / ROWS, **OPTIONS["sgd"]))
    trained = module_after_training(optimizer, my_part)
    hvd.broadcast_parameters(trained)
    for name, array in trained.items():
        close(array, expected[name])


@check
def it_reduces_one_by_one_and_passes_the_rest_on():
    net = perceptron()
    optimizer = hvd.DistributedOptimizer(mx.optimizer.create("sgd", **OPTIONS["sgd"]))
    train(net, Updates(net, optimizer, together=False), my_part)
    same_parameters(net, alone())
    optimizer.set_learning_rate(0.5)
    optimizer.set_lr_mult({0: 2.0})
    optimizer.set_wd_mult({0: 3.0})
    inner = optimizer._optimizer
    inner.rescale_grad = 1 / hvd.size()  # of the whole batch
    assert (inner.lr, inner.lr_mult[0], inner.wd_mult[0], optimizer.learning_rate) == (0.5, 2.0, 3.0, 0.5)
    weight, gradient = mx.nd.ones((3,)), mx.nd.ones((3,)) * (hvd.rank() + 1)
    state = optimizer.create_state(9, weight)
    optimizer.update(9, weight, gradient, state)
    close(weight, mx.nd.ones((3,)) * (1 - 0.5 * (hvd.size() + 1) / 2))
    half = mx.nd.ones((3,), dtype="float16")
    inner.multi_precision = True
    optimizer.update_multi_precision(8, half, mx.nd.ones((3,), dtype="float16"), optimizer.create_state_multi_precision(8, half))
    close(half, mx.nd.ones((3,)) * 0.5, 1e-3)
    assert raises(AttributeError, getattr, optimizer, "unheard_of")
    again = pickle.loads(pickle.dumps(optimizer))
    assert again.lr == 0.5 and again._reduction.scale == 1 / hvd.size()


@check
def the_trainer_takes_the_optimizer_out_of_another():
    net = perceptron()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trainer = hvd.DistributedTrainer(net.collect_params(), hvd.DistributedOptimizer(mx.optimizer.create("sgd", **OPTIONS["sgd"])))
    assert any("DistributedOptimizer" in str(one.message) for one in seen)
    train(net, trainer, my_part)
    same_parameters(net, alone())


@check
def a_process_set_trains_alone():
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())] if hvd.size() > 1 else [hvd.ProcessSet([0])]
    if hvd.size() == 1:
        assert "is not registered" in raises(ValueError, hvd.DistributedTrainer, perceptron().collect_params(), "sgd", process_set=sets[0])
        assert "is not registered" in raises(ValueError, hvd.DistributedOptimizer, mx.optimizer.create("sgd"), process_set=sets[0])
        return
    for one in sets:
        net, other = perceptron(), perceptron()
        size = one.size()
        train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", dict(OPTIONS["sgd"]), process_set=one), my_part)
        train(other, Updates(other, hvd.DistributedOptimizer(mx.optimizer.create("sgd", **OPTIONS["sgd"]), process_set=one)), my_part)
        expected = train(perceptron_of := perceptron(), mx.gluon.Trainer(perceptron_of.collect_params(), "sgd", dict(OPTIONS["sgd"]),
                                                                         kvstore=None), my_part)
        assert size == 1
        same_parameters(net, expected)
        same_parameters(other, expected)
    for one in sets:
        hvd.remove_process_set(one)


@check
def gradients_may_be_reduced_before_the_update():
    net = perceptron()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    inputs, targets = batches()[0]
    with mx.autograd.record():
        losses = mx.gluon.loss.L2Loss()(net(my_part(inputs)), my_part(targets))
    losses.backward()
    own = net[0].weight.grad().copy()
    before = net[0].weight.data().copy()
    trainer.allreduce_grads()
    summed = net[0].weight.grad().copy()
    close(summed, hvd.allreduce(own, op=hvd.Sum))
    trainer.update(ROWS)
    close(net[0].weight.data(), before - summed / (ROWS * hvd.size()))


@check
def what_ranks_cannot_reduce_is_an_error_on_all():
    embedding = mx.gluon.nn.Embedding(5, 3, sparse_grad=True)
    embedding.initialize()
    trainer = hvd.DistributedTrainer(embedding.collect_params(), "sgd")
    with mx.autograd.record():
        embedding(mx.nd.array([1, 2])).sum().backward()
    if hvd.size() > 1:
        assert "sparse_grad=False" in raises(ValueError, trainer.step, 1)
    net = perceptron()
    net.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
    assert "one context" in raises(ValueError, hvd.DistributedTrainer, net.collect_params(), "sgd")
    assert "must not be 0" in raises(ValueError, hvd.DistributedTrainer, net.collect_params(), "sgd", gradient_predivide_factor=0)
    net = mx.gluon.nn.Dense(hvd.rank() + 1, in_units=2)
    net.initialize()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd")
    with mx.autograd.record():
        net(mx.nd.ones((1, 2))).sum().backward()
    if hvd.size() > 1:
        assert "Mismatched" in raises(HorovodInternalError, trainer.step, 1)


@check
def compressors_send_floating_point_in_half_precision():
    none, half = hvd.Compression.none, hvd.Compression.fp16
    array = mine("float64")
    assert none.compress(array) == (array, None) and none.decompress(array, "any") is array
    sent, own = half.compress(array)
    assert sent.dtype == numpy.float16 and half.decompress(sent, own).dtype == numpy.float64
    whole = mine("int32")
    sent, own = half.compress(whole)
    assert sent is whole and half.decompress(sent, own) is whole
    assert raises(NotImplementedError, compression.Compressor.compress, array) == ""
    assert raises(NotImplementedError, compression.Compressor.decompress, array, None) == ""
