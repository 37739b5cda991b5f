"""Checks of batch normalisation over the ranks, and of elastic states."""
import numpy
import tensorflow as tf
from checks import check, raises
from tensors import close, mine, numbers, of_rank

import horovod.tensorflow as hvd
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

v1 = tf.compat.v1


def inputs_of(rank, shape=(3, 4, 2)):
    return numpy.random.RandomState(rank).randn(rank + 2, *shape[1:]).astype("float32") * (rank + 1) + 5


def global_inputs():
    return numpy.concatenate([inputs_of(rank) for rank in range(hvd.size())])


@check
def batch_normalisation_is_that_of_the_global_batch():
    own = inputs_of(hvd.rank())
    begin = sum(rank + 2 for rank in range(hvd.rank()))
    for wrap in (lambda function: function, tf.function):
        layer, plain = hvd.SyncBatchNormalization(momentum=0.5), tf.keras.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 4, 2))
        plain.build((None, 4, 2))

        @wrap
        def run(layer, x, factor):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, training=True)
                loss = tf.reduce_sum(y * y * y * factor)
            return y, tape.gradient(loss, x)

        factor = numpy.arange(2).astype("float32") + 1
        y, gradient = run(layer, tf.constant(own), tf.constant(factor))
        expected, of_all = run(plain, tf.constant(global_inputs()), tf.constant(factor))
        close(y, expected[begin:begin + len(own)], 1e-4)
        close(gradient, of_all[begin:begin + len(own)], 1e-3)
        for one, other in zip(layer.non_trainable_weights, plain.non_trainable_weights):
            close(one.numpy(), other.numpy(), 1e-4)
        close(layer(own, training=False), plain(own, training=False), 1e-4)


@check
def it_takes_masks_and_ranks_without_rows():
    own = inputs_of(hvd.rank())
    layer, plain = hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization()
    mask = numpy.arange(own.shape[0] * 4).reshape(-1, 4) % 3 > 0
    y = layer(tf.constant(own), training=True, mask=tf.constant(mask))
    everyone = hvd.allgather_object(mask)
    expected = plain(tf.constant(global_inputs()), training=True, mask=tf.constant(numpy.concatenate(everyone)))
    begin = sum(rank + 2 for rank in range(hvd.rank()))
    close(y, expected[begin:begin + len(own)], 1e-4)
    if hvd.size() > 1:
        layer = hvd.SyncBatchNormalization()
        layer.build((None, 2))
        rows = numpy.zeros([0, 2], "float32") if hvd.rank() == 0 else numpy.full([3, 2], 7.0, "float32")
        layer(tf.constant(rows), training=True)
        close(layer.moving_mean.numpy(), numpy.full(2, 0.07), 1e-5)


@check
def it_has_no_fused_form_and_a_name():
    for fused in (True, None):
        assert "fused" in raises(ValueError, hvd.SyncBatchNormalization, fused=fused)
    assert hvd.SyncBatchNormalization(name="mine").name == "mine" and "sync_batch" in hvd.SyncBatchNormalization().name
    layer = hvd.SyncBatchNormalization.from_config(hvd.SyncBatchNormalization(momentum=0.25).get_config())
    assert layer.momentum == 0.25
    halves = hvd.SyncBatchNormalization(dtype="mixed_float16")
    assert halves(tf.cast(inputs_of(hvd.rank()), tf.float16), training=True).dtype == tf.float16


@check
def a_state_of_variables_is_saved_restored_and_shared():
    variables = [tf.Variable(mine()), tf.Variable(mine(tf.int64))]
    state = hvd.elastic.TensorFlowState(variables=variables, session=None, epoch=hvd.rank(), log=[hvd.rank()])
    state.sync()
    assert (state.epoch, state.log) == (0, [0])
    for variable in variables:
        close(variable.numpy(), of_rank(0))
        variable.assign(variable * 2)
    state.epoch = 7
    state.restore()
    assert state.epoch == 0
    close(variables[0].numpy(), of_rank(0))
    variables[0].assign(variables[0] * 3)
    state.epoch = 8
    state.save()
    variables[0].assign(variables[0] * 0)
    state.epoch = 9
    state.restore()
    assert state.epoch == 8
    close(variables[0].numpy(), numbers(of_rank(0)) * 3)


@check
def a_state_of_a_graph_lives_in_its_session():
    own = mine().numpy()
    first = numbers(of_rank(0))
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=own)
        session.run(v1.global_variables_initializer())
        for state in (hvd.elastic.TensorFlowState(session=session, step=hvd.rank()), hvd.elastic.TensorFlowState(step=hvd.rank())):
            session.run(variable.assign(own))
            state.sync()
            assert state.step == 0
            close(session.run(variable), first)
            session.run(variable.assign(own * 0 - 1))
            state.restore()
            close(session.run(variable), first)
    with tf.Graph().as_default():
        v1.get_variable("v", initializer=own)
        assert "needs a session" in raises(ValueError, hvd.elastic.TensorFlowState)


def model_of(factor):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,)) if not hasattr(tf.keras, "ops") else tf.keras.layers.Dense(2)])
    model.build((None, 3))
    for variable in model.variables:
        variable.assign(tf.ones(variable.shape) * factor)
    return model


@check
def a_state_of_a_model_has_its_optimizer():
    for is_compiled in (False, True):
        model = model_of(hvd.rank() + 1.0)
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        if is_compiled:
            model.compile(optimizer, "mse")
        state = hvd.elastic.TensorFlowKerasState(model, optimizer=None if is_compiled else optimizer, backend=None, batch=hvd.rank())
        state.sync()
        assert state.batch == 0 and len(state._values._saved) > 2
        for variable in model.variables:
            close(variable.numpy(), numpy.ones(variable.shape))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.ones([1, 3])))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        assert abs(model.variables[0].numpy() - 1).max() > 0.05
        state.restore()
        close(model.variables[0].numpy(), numpy.ones([3, 2]))
        assert int(optimizer.iterations.numpy()) == 0
        state.save()
    unbuilt = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    assert "no variables yet" in raises(ValueError, hvd.elastic.TensorFlowKerasState, unbuilt)
    state = hvd.elastic.TensorFlowKerasState(model_of(1.0), tf.keras.optimizers.SGD(0.1), backend=tf.keras.backend)
    assert len(state._values._saved) >= 2


@check
def a_failed_collective_ends_a_training_with_an_internal_error():
    """run() starts it anew from the last commit; forming the job anew is replaced here."""
    resets = []
    real, hvd.elastic._reset = hvd.elastic._reset, lambda: resets.append(1)
    try:
        variable = tf.Variable(1.0)
        state = hvd.elastic.TensorFlowState([variable], step=0)

        @hvd.elastic.run
        def train(state, wanted):
            while state.step < wanted:
                state.step += 1
                variable.assign_add(1.0)
                if state.step == 2 and not resets and hvd.size() > 1:
                    hvd.allreduce(tf.ones([hvd.rank() + 1]), name="lengths")
                if state.step == 3 and len(resets) < 2 and hvd.size() > 1:
                    tf.function(lambda: hvd.allreduce(tf.ones([hvd.rank() + 1]), name="anything"))()
                if state.step == 3 and len(resets) == 2:
                    raise HostsUpdatedInterrupt(skip_sync=False)
                state.commit()
            return state.step

        assert train(state, 4) == 4
        assert len(resets) == (3 if hvd.size() > 1 else 0), resets
    finally:
        hvd.elastic._reset = real
    close(variable.numpy(), 5.0)
    with hvd.elastic.internal_errors():
        pass

    def other():
        with hvd.elastic.internal_errors():
            tf.debugging.assert_equal(1, 2)

    raises(tf.errors.InvalidArgumentError, other)

    def ours():
        with hvd.elastic.internal_errors():
            hvd.allreduce(tf.ones([hvd.rank() + 1]), name="lengths")

    if hvd.size() > 1:
        assert "Mismatched" in raises(HorovodInternalError, ours)
