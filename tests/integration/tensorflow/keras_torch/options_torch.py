"""Checks of DistributedOptimizer's parameters and of the elastic state with PyTorch under Keras, by single updates: with a learning rate
of 1 variables of zeros become the negative reduced gradients. Rank r's gradient is r + 1."""
import keras
import numpy
from checks import check, raises
from training_torch import BATCH, data, mine, new_model, train

import horovod.keras as hvd


def mean():
    """The average of the ranks' gradients."""
    return (hvd.size() + 1) / 2


def updated(*passes, n=3, **options):
    """The first element of each of n variables after an update with the gradients of one or several passes."""
    variables = [keras.Variable(numpy.zeros(4, "float32")) for _ in range(n)]
    groups = options.get("groups")
    if isinstance(groups, list):  # of places
        options["groups"] = [[variables[place] for place in group] for group in groups]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    for factor in passes or (1.0,):
        optimizer.apply_gradients([(keras.ops.ones(4) * ((hvd.rank() + 1.0) * factor), one) for one in variables])
    assert int(optimizer.iterations) == len(passes or (1.0,))
    return [float(variable.numpy()[0]) for variable in variables]


@check
def gradients_are_reduced_with_every_parameter_with_pytorch():
    for options in ({}, {"groups": 2}, {"groups": [[2, 0]]}, {"gradient_predivide_factor": 4.0}, {"name": "other"},
                    {"compression": hvd.Compression.fp16, "groups": 1}):
        assert numpy.allclose(updated(**options), [-mean()] * 3), options
    assert numpy.allclose(updated(op=hvd.Sum), [-mean() * hvd.size()] * 3)


@check
def passes_add_up_with_pytorch():
    assert updated(1.0, backward_passes_per_step=2) == [0.0] * 3
    assert numpy.allclose(updated(1.0, 3.0, backward_passes_per_step=2), [-4 * mean()] * 3)
    assert numpy.allclose(updated(1.0, 3.0, backward_passes_per_step=2, average_aggregated_gradients=True), [-2 * mean()] * 3)


@check
def local_layers_keep_their_gradients_with_pytorch():
    for scaled in (True, False):
        model = new_model("sgd")
        before = model.get_weights()
        optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=model.layers[0],
                                                    scale_local_gradients=scaled)
        optimizer.apply_gradients([(keras.ops.ones(one.shape) * (hvd.rank() + 1.0), one) for one in model.trainable_variables])
        steps = [float((old - new).max()) for old, new in zip(before, model.get_weights())]
        own = (hvd.rank() + 1) / (hvd.size() if scaled else 1)
        assert numpy.allclose(steps, [own, own, mean(), mean()], atol=1e-5), steps


@check
def a_state_is_restored_and_synchronised_with_pytorch():
    model = new_model(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01 * (1 + hvd.rank()))), seed=1 + hvd.rank())
    train(model, *map(mine, data()), BATCH)
    state = hvd.elastic.KerasState(model, epoch=hvd.rank() + 3)
    saved = model.get_weights()
    model.set_weights([weight * 0 for weight in saved])
    state.epoch = 9
    state.restore()
    assert state.epoch == hvd.rank() + 3 and all((one == other).all() for one, other in zip(model.get_weights(), saved))
    state.sync()
    everywhere = numpy.array(hvd.allgather(model.get_weights()[0].reshape(1, -1)))
    assert state.epoch == 3 and (everywhere == everywhere[0]).all()
    assert numpy.isclose(float(model.optimizer.learning_rate), 0.01)


@check
def an_optimizer_is_wrapped_once_with_pytorch():
    made = hvd.DistributedOptimizer(keras.optimizers.SGD())
    assert hvd.DistributedOptimizer(made) is made
    assert "already" in raises(ValueError, hvd.DistributedOptimizer, made, op=hvd.Sum)
