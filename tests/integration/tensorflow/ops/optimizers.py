"""Checks of the optimizers of TensorFlow 1, eagerly and in graphs, and of what adds up gradients of several passes."""
import os
import pathlib
import shutil
import warnings

import numpy
import tensorflow as tf
from checks import check, needs_adasum, raises
from tensors import LAST, close, own_set, remove, slices

import horovod.tensorflow as hvd
from horovod.tensorflow.gradient_aggregation import apply_op_to_not_none_tensors, get_not_none_from_list
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

v1 = tf.compat.v1
ROWS = 4  # of a rank in each batch
STEPS = 4


def batches():
    """The global batches: [(inputs, targets)]."""
    generator = numpy.random.RandomState(3)
    rows = ROWS * hvd.size()
    return [(generator.randn(rows, 3).astype("float32"), generator.randn(rows, 2).astype("float32")) for _ in range(STEPS)]


def part(array):
    """This rank's rows of a global batch."""
    return array[ROWS * hvd.rank():ROWS * (hvd.rank() + 1)]


def whole(array):
    return array


OPTIMIZERS = {"sgd": lambda: v1.train.GradientDescentOptimizer(0.1), "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
              "adagrad": lambda: v1.train.AdagradOptimizer(0.1), "adam": lambda: v1.train.AdamOptimizer(0.01)}


def train_graph(optimizer, rows=part, passes=1, global_step=False):
    """The weights after training in a graph of TensorFlow 1, as arrays; optimizer(): makes it in the graph."""
    with tf.Graph().as_default():
        inputs, targets = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.float32, [None, 2])
        weights = v1.get_variable("weights", initializer=numpy.full([3, 2], 0.5, "float32"))
        bias = v1.get_variable("bias", initializer=numpy.zeros(2, "float32"))
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) + bias - targets))
        made = optimizer()
        step = v1.train.get_or_create_global_step() if global_step else None
        train = made.minimize(loss, global_step=step)
        with v1.Session(config=v1.ConfigProto(inter_op_parallelism_threads=1)) as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for features, labels in batches():
                for _ in range(passes):
                    session.run(train, {inputs: rows(features), targets: rows(labels)})
            if step is not None:
                assert session.run(step) == STEPS * passes, session.run(step)
            return session.run([weights, bias])


def train_eagerly(optimizer, rows=part, passes=1, wrap=lambda function: function):
    """The same eagerly, or in a tf.function; optimizer: a made one."""
    weights, bias = tf.Variable(numpy.full([3, 2], 0.5, "float32")), tf.Variable(numpy.zeros(2, "float32"))

    def step(inputs, targets):
        def loss():
            return tf.reduce_mean(tf.square(tf.matmul(inputs, weights) + bias - targets))
        optimizer.apply_gradients(optimizer.compute_gradients(loss, [weights, bias]))

    step = wrap(step)
    for features, labels in batches():
        for _ in range(passes):
            step(tf.constant(rows(features)), tf.constant(rows(labels)))
    return [weights.numpy(), bias.numpy()]


def same_weights(one, other, tolerance=1e-5):
    for array, expected in zip(one, other):
        close(array, expected, tolerance)


@check
def ranks_train_in_a_graph_as_one_process_with_each_optimizer():
    for make in OPTIMIZERS.values():
        same_weights(train_graph(lambda make=make: hvd.DistributedOptimizer(make()), global_step=True), train_graph(make, whole))


@check
def so_they_do_with_each_option():
    expected = train_graph(OPTIMIZERS["momentum"], whole)
    sets, own = own_set()
    for options in ({"name": "other", "use_locking": True}, {"device_dense": LAST, "device_sparse": LAST},
                    {"gradient_predivide_factor": 2.0}, {"groups": 1}, {"groups": 2, "sparse_as_dense": True}):
        same_weights(train_graph(lambda options=options: hvd.DistributedOptimizer(OPTIMIZERS["momentum"](), **options)), expected)
        same_weights(train_eagerly(hvd.DistributedOptimizer(OPTIMIZERS["momentum"](), **options)), expected)
    for options in ({"op": hvd.Sum}, {"process_set": own if sets else hvd.global_process_set}):
        factor = hvd.size() if "op" in options else 1
        rows = part if "process_set" in options else whole
        alone = train_graph(lambda factor=factor: v1.train.GradientDescentOptimizer(0.1 * factor), rows)
        same_weights(train_graph(lambda options=options: hvd.DistributedOptimizer(OPTIMIZERS["sgd"](), **options)), alone, 1e-4)
    half = train_graph(lambda: hvd.DistributedOptimizer(OPTIMIZERS["momentum"](), compression=hvd.Compression.fp16))
    same_weights(half, expected, 3e-3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        same_weights(train_graph(lambda: hvd.DistributedOptimizer(OPTIMIZERS["momentum"](), num_groups=1)), expected)
    assert any("groups" in str(one.message) for one in seen)
    remove(sets)


@check
def a_process_set_has_to_be_registered_to_train():
    unknown = hvd.ProcessSet([0])
    for kind in (hvd.DistributedOptimizer, hvd._DistributedOptimizer):
        optimizer = kind(OPTIMIZERS["sgd"](), process_set=unknown)
        assert "is not registered" in raises(ValueError, train_eagerly, optimizer)


@check
def ranks_train_eagerly_and_in_functions_as_one_process():
    expected = train_graph(OPTIMIZERS["momentum"], whole)
    same_weights(train_eagerly(hvd.DistributedOptimizer(OPTIMIZERS["momentum"]())), expected)
    same_weights(train_eagerly(hvd.DistributedOptimizer(OPTIMIZERS["momentum"]()), wrap=tf.function), expected)


@check
def without_the_reduction_they_do_not():
    """The same comparison fails if nothing is reduced."""
    if hvd.size() == 1:
        return
    from horovod.tensorflow import reductions  # pylint: disable=import-outside-toplevel
    one, reductions._allreduce = reductions._allreduce, lambda tensor, *_, **__: tensor
    try:
        trained = train_graph(lambda: hvd.DistributedOptimizer(OPTIMIZERS["sgd"]()))
    finally:
        reductions._allreduce = one
    assert "differ by" in raises(AssertionError, same_weights, trained, train_graph(OPTIMIZERS["sgd"], whole), 1e-3)


@check
def gradients_of_several_passes_are_added_up():
    for passes, is_averaged in ((2, False), (3, True)):
        factor = 1 if is_averaged else passes
        expected = train_graph(lambda factor=factor: v1.train.MomentumOptimizer(0.1 * factor, 0.9), whole)
        options = {"backward_passes_per_step": passes, "average_aggregated_gradients": is_averaged}

        def make(options=options):
            return hvd.DistributedOptimizer(OPTIMIZERS["momentum"](), **options)

        same_weights(train_graph(make, passes=passes, global_step=True), expected, 1e-4)
        same_weights(train_eagerly(make(), passes=passes), expected, 1e-4)
        same_weights(train_eagerly(make(), passes=passes, wrap=tf.function), expected, 1e-4)
    assert "1 or more" in raises(ValueError, hvd.DistributedOptimizer, OPTIMIZERS["sgd"](), backward_passes_per_step=0)


@check
def local_variables_keep_their_own_gradient():
    table, shared = tf.Variable(tf.ones([2])), tf.Variable(tf.ones([3]))

    def loss():
        return (tf.reduce_sum(table) + tf.reduce_sum(shared)) * (hvd.rank() + 1)

    mean = (hvd.size() + 1) / 2
    for passes in (1, 2):
        for scale in (True, False):
            optimizer = hvd.DistributedOptimizer(OPTIMIZERS["sgd"](), backward_passes_per_step=passes, scale_local_gradients=scale)
            optimizer.register_local_var(var=table)
            for _ in range(passes):
                (own, _), (reduced, _) = optimizer.compute_gradients(loss, [table, shared])
            close(own, passes * numpy.ones(2) * (hvd.rank() + 1) / (hvd.size() if scale else 1))
            close(reduced, passes * numpy.ones(3) * mean)


def power_of_two():
    return hvd.size() & (hvd.size() - 1) == 0


@check
def the_optimizer_within_is_asked_for_all_else():
    with tf.Graph().as_default():
        inner = v1.train.AdamOptimizer(0.1)
        optimizer = hvd.DistributedOptimizer(inner)
        variable = v1.get_variable("variable", initializer=numpy.ones(2, "float32"))
        assert isinstance(optimizer, hvd._DistributedOptimizer) and isinstance(optimizer, v1.train.Optimizer)
        pairs = optimizer.compute_gradients(tf.reduce_sum(variable))
        optimizer.apply_gradients(pairs, global_step=v1.train.get_or_create_global_step(), name="apply")
        assert optimizer.get_slot_names() == inner.get_slot_names() == ["m", "v"]
        assert optimizer.get_slot(variable, "m") is inner.get_slot(variable, "m") is not None
        assert [one.name for one in optimizer.variables()] == [one.name for one in inner.variables()] != []
    assert "already" in raises(ValueError, hvd.DistributedOptimizer, optimizer)

    class Answering(v1.train.GradientDescentOptimizer):
        """Has methods with more parameters than its base class."""

        def get_slot(self, *args, **kwargs):
            return args, kwargs

        get_slot_names = variables = get_slot

    for kind in (hvd._DistributedOptimizer, hvd._DistributedAdasumOptimizer) if power_of_two() else (hvd._DistributedOptimizer,):
        assert kind(Answering(0.1)).variables(1, two=2) == ((1,), {"two": 2})
    assert hvd._DistributedOptimizer(Answering(0.1)).get_slot(1, two=2) == ((1,), {"two": 2})
    assert hvd._DistributedOptimizer(Answering(0.1)).get_slot_names(1, two=2) == ((1,), {"two": 2})
    assert "not list" in raises(ValueError, hvd.DistributedOptimizer, [])
    assert "number of groups" in raises(ValueError, hvd.DistributedOptimizer, inner, groups="x")
    assert "needs op=Average" in raises(ValueError, hvd.DistributedOptimizer, inner, op=hvd.Sum, gradient_predivide_factor=2.0)
    sgd = tf.keras.optimizers.SGD(0.1)
    assert "op=Adasum needs" in raises(ValueError, hvd.DistributedOptimizer, sgd, op=hvd.Adasum)


@check
def an_optimizer_of_keras_is_handed_on():
    variables = [tf.Variable(tf.ones([2])), tf.Variable(tf.ones([3]))]
    inner = tf.keras.optimizers.SGD(1.0)
    everything = {"gradient_predivide_factor": 2.0, "groups": 1, "name": "named", "sparse_as_dense": True, "device_dense": LAST,
                  "device_sparse": LAST, "compression": hvd.Compression.fp16, "scale_local_gradients": False}
    for options, factor in (({}, 1), ({"op": hvd.Sum}, hvd.size()), (everything, 1),
                            ({"process_set": hvd.global_process_set, "use_locking": True}, 1)):
        optimizer = hvd.DistributedOptimizer(type(inner).from_config(inner.get_config()), **options)
        assert isinstance(optimizer, type(inner)) and type(optimizer).__name__ == "SGD"
        before = [variable.numpy() for variable in variables]
        optimizer.apply_gradients([(tf.ones(variable.shape) * (hvd.rank() + 1), variable) for variable in variables])
        for variable, values in zip(variables, before):
            close(variable.numpy(), values - (hvd.size() + 1) / 2 * factor, 1e-2)


@check
def an_optimizer_takes_each_parameter_itself():
    """The class behind hvd.DistributedOptimizer, whose parameters have another order."""
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("variable", initializer=numpy.ones(2, "float32"))
        optimizer = hvd._DistributedOptimizer(
            OPTIMIZERS["sgd"](), name="named", use_locking=True, device_dense=LAST, device_sparse=LAST,
            compression=hvd.Compression.fp16, sparse_as_dense=True, op=hvd.Sum, backward_passes_per_step=2,
            average_aggregated_gradients=True, groups=1, process_set=hvd.global_process_set, scale_local_gradients=False)
        train = optimizer.minimize(tf.reduce_sum(variable))
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run(train)
        close(session.run(variable), numpy.ones(2))
        session.run(train)
        close(session.run(variable), numpy.ones(2) * (1 - 0.1 * hvd.size()), 1e-3)
        assert optimizer.get_name() == "named" and session.run(optimizer._agg_helper.counter) == 0
    hvd._DistributedOptimizer(OPTIMIZERS["sgd"](), gradient_predivide_factor=2.0)


@check
def adasum_reduces_what_the_optimizer_has_changed():
    needs_adasum()
    def same_rows(array):  # on all ranks: Adasum of equal changes is the change
        return array[:ROWS]

    expected = train_graph(OPTIMIZERS["momentum"], same_rows)
    for options in ({}, {"name": "other", "use_locking": True}, {"device_dense": LAST, "device_sparse": LAST}):
        def make(options=options):
            return hvd.DistributedOptimizer(OPTIMIZERS["momentum"](), op=hvd.Adasum, **options)

        same_weights(train_eagerly(make(), same_rows), expected)
    same_weights(train_graph(make, same_rows), expected)
    same_weights(train_eagerly(make(), same_rows, wrap=tf.function), expected)
    twice = [hvd.DistributedOptimizer(OPTIMIZERS["sgd"](), op=hvd.Adasum, backward_passes_per_step=2) for _ in range(2)]
    assert isinstance(twice[0], hvd._DistributedAdasumOptimizer)
    start = train_graph(OPTIMIZERS["sgd"], same_rows, passes=2)
    same_weights(train_eagerly(twice[0], same_rows, passes=2), start)
    for wrong in ({"average_aggregated_gradients": True}, {"groups": 1}, {"process_set": hvd.ProcessSet([0])}):
        assert "op=Adasum does not support" in raises(ValueError, hvd.DistributedOptimizer, OPTIMIZERS["sgd"](), op=hvd.Adasum, **wrong)


@check
def adasum_of_changes_differs_between_ranks_only_until_it_is_reduced():
    needs_adasum()
    weights, bias = train_graph(lambda: hvd.DistributedOptimizer(OPTIMIZERS["sgd"](), op=hvd.Adasum))
    for array in (weights, bias):
        for other in hvd.allgather_object(array):
            close(other, array, 1e-6)
    with tf.Graph().as_default():
        optimizer = hvd._DistributedAdasumOptimizer(
            v1.train.MomentumOptimizer(0.1, 0.9), name="named", use_locking=True, device_dense=LAST, device_sparse=LAST,
            compression=hvd.Compression.fp16, backward_passes_per_step=2)
        variable = v1.get_variable("variable", initializer=numpy.ones(2, "float32"))
        train = optimizer.apply_gradients(optimizer.compute_gradients(tf.reduce_sum(variable)))
        assert optimizer.get_slot_names() == ["delta_start", "momentum"] and optimizer.variables()
        assert optimizer.get_slot(variable, "momentum") is not None and optimizer.get_slot(variable, "delta_start") is not None
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(2):
                session.run(train)
            close(session.run(variable), numpy.ones(2) * (1 - 0.1 - 0.19), 1e-3)


@check
def helpers_add_up_gradients_in_graphs():
    assert apply_op_to_not_none_tensors(lambda tensor, n: tensor * n, [2, None, 3], 2) == [4, None, 6]
    assert get_not_none_from_list([1, None, 2]) == [1, 2]
    for scale in (True, False):
        with tf.Graph().as_default(), v1.Session() as session:
            helper = hvd.LocalGradientAggregationHelper(
                backward_passes_per_step=2, allreduce_func=lambda grads, variables: [hvd.allreduce(grad, op=hvd.Sum) for grad in grads],
                sparse_as_dense=True, average_aggregated_gradients=True, rank=hvd.rank(),
                optimizer_type=hvd.LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY, scale_local_gradients=scale, name=f"x{scale}")
            variables = [v1.get_variable(f"v{i}", initializer=numpy.ones([6, 2], "float32")) for i in range(3)]
            helper.register_local_var(var=variables[2])
            gradients = helper.compute_gradients([tf.ones([6, 2]), None, slices([0])], variables)
            assert gradients[1] is None
            ran = v1.get_variable("ran", initializer=0)
            applied = helper.apply_gradients(lambda: ran.assign_add(1), None, list(zip(gradients, variables)),
                                             global_step=v1.train.get_or_create_global_step())
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for step in range(4):
                shared, local, _ = session.run([gradients[0], gradients[2], applied])
                assert session.run(ran) == (step + 1) // 2
                if step % 2:
                    close(shared, numpy.ones([6, 2]) * hvd.size())
                    close(local[0], numpy.ones(2) / (hvd.size() if scale else 1))
            assert session.run(v1.train.get_global_step()) == 2  # of the steps without an update
    with tf.Graph().as_default():
        helper = hvd.LocalGradientAggregationHelper(2, None, False, False, 0, hvd.LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY,
                                                    process_set=hvd.ProcessSet([0]))
        assert "sparse_as_dense=True" in raises(ValueError, helper.compute_gradients, [slices([0])], [None])
        assert helper.compute_gradients([None], [None]) == [None]


@check
def helpers_add_up_gradients_eagerly():
    class Counting:
        iterations = tf.Variable(0, dtype=tf.int64)

    for scale in (True, False):
        helper = LocalGradientAggregationHelperEager(
            backward_passes_per_step=2, allreduce_func=lambda grads, variables: [hvd.allreduce(grad, op=hvd.Sum) for grad in grads],
            sparse_as_dense=True, average_aggregated_gradients=True, scale_local_gradients=scale)
        variables = [tf.Variable(tf.ones([6, 2])) for _ in range(3)]
        helper.register_local_var(var=variables[2])
        ran, before = [], int(Counting.iterations)
        for step in range(4):
            gradients = helper.compute_gradients([tf.ones([6, 2]), None, slices([0])], variables)
            helper.apply_gradients(lambda: ran.append(1), Counting, list(zip(gradients, variables)), name="ignored")
            assert gradients[1] is None and len(ran) == (step + 1) // 2
            close(gradients[0], numpy.ones([6, 2]) * (hvd.size() if step % 2 else 1))
            if step % 2:
                close(gradients[2][0], numpy.ones(2) / (hvd.size() if scale else 1))
        assert int(Counting.iterations) == before + 2 and int(helper.counter) == 0
    helper = LocalGradientAggregationHelperEager(2, None, False, False, process_set=hvd.ProcessSet([0]))
    assert "sparse_as_dense=True" in raises(ValueError, helper.compute_gradients, [slices([0])], [None])


# --- The way of programs written for TensorFlow 1 -------------------------------------------------------------------

def monitored(folder, steps):
    """Trains by Adagrad with a session that keeps checkpoints, on rank 0 alone; returns (weights at the beginning, at the end, step)."""
    with tf.Graph().as_default():
        inputs = v1.placeholder(tf.float32, [None, 3])
        weights = v1.get_variable("weights", [3, 2], initializer=v1.random_normal_initializer(seed=hvd.rank()))
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights)))
        step = v1.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(v1.train.AdagradOptimizer(0.1 * hvd.size()))
        with tf.control_dependencies([optimizer.minimize(loss, global_step=step)]):
            trained = weights.read_value(), step.read_value()
        hooks = [hvd.BroadcastGlobalVariablesHook(root_rank=0, device=LAST), v1.train.StopAtStepHook(last_step=steps)]
        config = v1.ConfigProto(inter_op_parallelism_threads=1)
        with v1.train.MonitoredTrainingSession(checkpoint_dir=folder if hvd.rank() == 0 else None, hooks=hooks, config=config,
                                               save_checkpoint_steps=2, log_step_count_steps=None) as session:
            begin = session.run(weights)
            while not session.should_stop():
                features = part(batches()[0][0])
                end, reached = session.run(trained, {inputs: features})
        return begin, end, reached


@check
def a_monitored_session_trains_saves_and_restarts():
    folder = str(pathlib.Path(os.environ["CHECK_RESULTS"], "checkpoints"))
    begin, first, reached = monitored(folder, 4)
    everyone = hvd.allgather_object((begin, first))
    for one, other in everyone:
        close(one, everyone[0][0], 0)
        close(other, everyone[0][1], 1e-6)
    assert reached == 4
    again, second, reached = monitored(folder, 8)
    close(again, hvd.broadcast_object(first), 1e-2 if hvd.rank() else 1e-6)
    for other, _ in hvd.allgather_object((again, second)):
        close(other, again, 0)
    assert reached == 8 and abs(second - first).max() > 1e-4
    hvd.allgather_object("all have ended")
    if hvd.rank() == 0:
        assert list(pathlib.Path(folder).glob("model.ckpt-*")), "rank 0 has saved nothing"
        shutil.rmtree(folder)


@check
def the_hook_adds_its_operation_once_to_a_graph():
    hook = hvd.BroadcastGlobalVariablesHook(0)
    for _ in range(2):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            variable = v1.get_variable("v", initializer=float(hvd.rank() + 1))
            hook.begin()
            operation = hook.bcast_op
            hook.begin()
            assert hook.bcast_op is operation and operation.graph is graph
            session.run(v1.global_variables_initializer())
            hook.after_create_session(session=session, coord=None)
            assert session.run(variable) == 1.0
