"""Checks of what reduces lists of gradients: tapes, slices, groups, local sources."""
import warnings

import numpy
import tensorflow as tf
from checks import check, needs_adasum, raises
from tensors import LAST, close, dense, mine, numbers, of_all, own_set, remove, same, slices, total

import horovod.tensorflow as hvd
from horovod.tensorflow import reductions


def tape_of(variables, persistent=False, kind=tf.GradientTape):
    """(a tape, the loss): the gradient of each variable is its shape full of rank + 1."""
    with kind(persistent=persistent) as tape:
        loss = tf.add_n([tf.cast(tf.reduce_sum(variable), tf.float32) for variable in variables]) * (hvd.rank() + 1)
    return tape, loss


def made(*shapes, dtype=tf.float32):
    return [tf.Variable(tf.ones(shape, dtype)) for shape in shapes]


def mean():
    return (hvd.size() + 1) / 2


@check
def slices_are_reduced_by_their_rows():
    rank, size = hvd.rank(), hvd.size()
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1.0 / size)):
        result = hvd.allreduce(slices([rank, 5], rank + 1.0), op=op, name=f"slices.{op}", device_sparse=LAST)
        assert isinstance(result, tf.IndexedSlices) and len(result.indices) == 2 * size
        expected = numpy.zeros([6, 2])
        for other in range(size):
            expected[[other, 5]] += (other + 1.0) * factor
        close(dense(result), expected)
        assert result.dense_shape.numpy().tolist() == [6, 2] and result.values.dtype == tf.float32
    uneven = hvd.allreduce(slices(range(rank), 1.0), op=hvd.Sum)  # rank 0 has none
    close(dense(uneven), numpy.array([[max(0, size - 1 - row)] * 2 for row in range(6)]))
    close(dense(hvd.allreduce(slices([]), op=hvd.Sum)), numpy.zeros([6, 2]))
    close(dense(hvd.allreduce(slices([1]), op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0))[1], [6.0 * size] * 2)
    half = hvd.allreduce(slices([1], 1 / 3), compression=hvd.Compression.fp16)
    assert half.values.dtype == tf.float32 and 1e-6 < abs(float(half.values[0, 0]) * size - 1 / 3) < 1e-3
    whole = hvd.allreduce(slices([0], 3, dtype=tf.float64))
    assert whole.values.dtype == tf.float64
    groups = hvd.grouped_allreduce([mine(), slices([rank]), mine(), slices([0])], op=hvd.Sum, name="mixed", device_sparse=LAST)
    same(groups[2], total())
    close(dense(groups[1])[:size], numpy.ones([size, 2]))
    close(dense(groups[3])[0], [size] * 2)
    for op in (hvd.Max, hvd.Adasum) if size & (size - 1) == 0 else (hvd.Max,):
        assert "IndexedSlices" in raises(NotImplementedError, hvd.allreduce, slices([0]), op=op)
        assert "IndexedSlices" in raises(NotImplementedError, hvd.grouped_allreduce, [slices([0])], op=op)


@check
def slices_are_reduced_in_a_function():
    @tf.function
    def reduce(indices):
        values = tf.ones([tf.size(indices), 2])
        given = tf.IndexedSlices(values, indices, tf.constant([6, 2], tf.int64))
        return hvd.allreduce(given, op=hvd.Sum), hvd.allreduce(given, name="named", op=hvd.Average), hvd.grouped_allreduce([given, given])

    ranks = numpy.arange(hvd.size())
    for count, counts in ((hvd.rank(), ranks), (2, 0 * ranks + 2), (0, 0 * ranks)):
        one, average, group = reduce(tf.range(count, dtype=tf.int64))
        close(dense(one)[:, 0], (numpy.arange(6) < counts[:, numpy.newaxis]).sum(0))
        close(dense(average) * hvd.size(), dense(one))
        close(dense(group[1]), dense(average))


@check
def slices_on_some_ranks_only_are_an_error_on_all():
    if hvd.size() == 1:
        return
    sent = slices([1]) if hvd.rank() == 0 else tf.ones([6, 2])
    text = raises(tf.errors.FailedPreconditionError, hvd.allreduce, sent, op=hvd.Sum, name="some")
    assert "Mismatched" in text and "allreduce.some" in text, text
    same(hvd.allreduce(mine(), op=hvd.Sum, name="some"), total())
    text = raises(tf.errors.FailedPreconditionError, tf.function(lambda: hvd.allreduce(sent, op=hvd.Sum, name="some")))
    assert "Mismatched" in text, text
    for gradients in ([sent], [mine(), sent], [sent, mine(tf.float64), mine()]):
        for options in ({}, {"groups": 1}, {"groups": 3}):
            reduce = reductions.Gradients("some", **options)
            for call in (reduce, tf.function(reduce)):
                text = raises(tf.errors.FailedPreconditionError, call, gradients, [None] * len(gradients))
                assert "Mismatched" in text, text
            same(reduce([mine()], [None])[0], of_all().mean(0))  # the names are free again
    text = raises(tf.errors.FailedPreconditionError, hvd.grouped_allreduce, [sent, sent], name="some")
    assert "Mismatched" in text, text
    same(hvd.allreduce(mine(), op=hvd.Sum), total())


@check
def a_tape_averages_gradients():
    variables = made((2, 3), (4,), ()) + made((2,), dtype=tf.float64)
    options = [{}, {"device_dense": LAST, "device_sparse": LAST}, {"gradient_predivide_factor": 4.0}, {"groups": 2}, {"groups": 9},
               {"groups": [[variables[2], variables[0]]]}, {"groups": [[variables[1], variables[3]], [variables[0], variables[2]]]},
               {"groups": 0}, {"compression": hvd.Compression.fp16}, {"sparse_as_dense": True}, {"scale_local_gradients": False}]
    for chosen in options:
        for wrap in (lambda function: function, tf.function):
            def gradients(chosen=chosen):
                tape, loss = tape_of(variables)
                return hvd.DistributedGradientTape(tape, **chosen).gradient(loss, variables)

            for variable, gradient in zip(variables, wrap(gradients)()):
                close(gradient, numpy.ones(variable.shape) * mean(), 1e-3 if "compression" in chosen else 1e-6)
                assert gradient.dtype == variable.dtype


@check
def a_tape_reduces_by_other_operations():
    variables = made((2,))
    for op, expected in ((hvd.Sum, mean() * hvd.size()), (hvd.Max, hvd.size()), (hvd.Min, 1.0)):
        tape, loss = tape_of(variables)
        close(hvd.DistributedGradientTape(tape, op=op).gradient(loss, variables)[0], numpy.ones(2) * expected)
    assert "needs op=Average" in raises(ValueError, hvd.DistributedGradientTape, tf.GradientTape(), op=hvd.Sum,
                                        gradient_predivide_factor=2.0)
    assert "must not be 0" in raises(ValueError, hvd.DistributedGradientTape, tf.GradientTape(), gradient_predivide_factor=0)
    for wrong in (-1, "all", [1, 2], True):
        assert "number of groups" in raises(ValueError, hvd.DistributedGradientTape, tf.GradientTape(), groups=wrong)


@check
def a_tape_reduces_by_adasum():
    needs_adasum()
    variables = made((4,))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variables[0])
    close(hvd.DistributedGradientTape(tape, op=hvd.Adasum).gradient(loss, variables)[0], numpy.ones(4))


@check
def num_groups_is_the_older_form():
    variables = made((2,), (3,), (4,))
    for make in (hvd.DistributedGradientTape, hvd.PartialDistributedGradientTape):
        tape, loss = tape_of(variables)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            tape = make(tape, num_groups=2)
        assert any("groups" in str(one.message) for one in seen)
        for gradient in tape.gradient(loss, variables):
            close(gradient, numpy.ones(gradient.shape) * mean())


@check
def a_tape_returns_the_structure_of_its_sources():
    variables = made((2,), (3,))
    tape, loss = tape_of(variables, persistent=True)
    tape = hvd.DistributedGradientTape(tape)
    close(tape.gradient(loss, variables[0]), numpy.ones(2) * mean())
    found = tape.gradient(loss, {"a": variables[0], "b": (variables[1],)}, use_generic_names=True)
    close(found["b"][0], numpy.ones(3) * mean())
    unused = tf.Variable(1.0)
    assert tape.gradient(loss, [unused, variables[0]])[0] is None
    assert float(tape.gradient(loss, [unused], unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]) == 0
    assert tape.gradient(loss, [unused]) == [None]
    close(tape.gradient(loss, [variables[0]], output_gradients=tf.constant(2.0))[0], numpy.ones(2) * 2 * mean())

    @tf.function
    def generic():
        inner, loss_here = tape_of(variables)
        with tf.name_scope(f"of_rank_{hvd.rank()}"):
            return hvd.DistributedGradientTape(inner).gradient(loss_here, variables, use_generic_names=True)

    close(generic()[1], numpy.ones(3) * mean())


@check
def a_tape_can_record_itself_and_be_of_a_class_of_its_own():
    class Tape(tf.GradientTape):
        def twice(self):
            return 2

    variables = made((2,))
    tape, loss = tape_of(variables, kind=Tape)
    tape = hvd.DistributedGradientTape(tape)
    assert isinstance(tape, Tape) and isinstance(tape, hvd._DistributedGradientTape) and tape.twice() == 2
    close(tape.gradient(loss, variables)[0], numpy.ones(2) * mean())
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(variables[0]) * (hvd.rank() + 1)
    close(tape.gradient(loss, variables)[0], numpy.ones(2) * mean())
    for persistent, watch in ((True, False), (False, True)):
        with tf.GradientTape(persistent=persistent, watch_accessed_variables=watch) as inner:
            inner.watch(variables[0])
            loss = tf.reduce_sum(variables[0]) * (hvd.rank() + 1)
        tape = hvd._DistributedGradientTape(inner._tape, LAST, LAST, hvd.Compression.fp16, True, hvd.Average, 2.0, 1, persistent, watch,
                                            scale_local_gradients=False)
        close(tape.gradient(loss, variables)[0], numpy.ones(2) * mean(), 1e-3)


@check
def a_tape_has_sparse_gradients():
    table = tf.Variable(tf.ones([6, 2]))
    for sparse_as_dense in (False, True):
        for wrap in (lambda function: function, tf.function):
            for groups in (None, 1):
                def gradients(sparse_as_dense=sparse_as_dense, groups=groups):
                    weight = table[:1, 0] * 0 + tf.cast(hvd.rank() + 1, tf.float32)
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_sum(tf.gather(table, [hvd.rank(), 5]) * tf.stop_gradient(weight))
                    return hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense, groups=groups,
                                                       gradient_predivide_factor=2.0).gradient(loss, [table, table])

                for gradient in wrap(gradients)():
                    assert isinstance(gradient, tf.IndexedSlices) is not sparse_as_dense
                    expected = numpy.zeros([6, 2])
                    for rank in range(hvd.size()):
                        expected[[rank, 5]] += (rank + 1) / hvd.size()
                    close(dense(gradient), expected)


@check
def local_sources_keep_their_own_gradient():
    variables = made((2,), (3,))
    for scale in (True, False):
        tape, loss = tape_of(variables, persistent=True)
        tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
        tape.register_local_source(source=variables[0])
        own = (hvd.rank() + 1) / (hvd.size() if scale else 1)
        for gradient, expected in zip(tape.gradient(loss, variables), (own, mean())):
            close(gradient, numpy.ones(gradient.shape) * expected)
        for generic in (False, True):
            local, shared = tape.get_local_and_global_gradients(loss, variables, output_gradients=tf.constant(2.0),
                                                                use_generic_names=generic)
            assert [pair[0] is variable for (pair,), variable in zip((local, shared), variables)] == [True, True]
            close(local[0][1], numpy.ones(2) * 2 * own)
            close(shared[0][1], numpy.ones(3) * 2 * mean())
    table = tf.Variable(tf.ones([6, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [hvd.rank()]))
    tape = hvd.DistributedGradientTape(tape)
    tape.register_local_source(table)
    gradient = tape.gradient(loss, table)
    assert gradient.indices.numpy().tolist() == [hvd.rank()]
    close(gradient.values, numpy.ones([1, 2]) / hvd.size())


@check
def local_layers_are_left_alone():
    layers = [tf.keras.layers.Dense(2, use_bias=False), tf.keras.layers.Dense(3, use_bias=False)]
    for layer in layers:
        layer.build((None, 2))
    weights = [layer.trainable_weights[0] for layer in layers]
    sets, own = own_set()
    for local, options in ((layers[0], {}), ([layers[0]], {"scale_local_gradients": False}), (None, {}),
                           ([], {"op": hvd.Sum, "compression": hvd.Compression.fp16, "sparse_as_dense": True, "device_dense": LAST,
                                 "device_sparse": LAST}), (None, {"gradient_predivide_factor": 2.0, "groups": 1}),
                           ({layers[0]}, {"groups": [[weights[1], weights[0]]]})):
        tape, loss = tape_of([getattr(weight, "value", weight) if not isinstance(weight, tf.Variable) else weight for weight in weights])
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=local, **options)
        first, second = tape.gradient(loss, weights)
        shared = mean() * (hvd.size() if "op" in options else 1)
        own_value = (hvd.rank() + 1) / (1 if options.get("scale_local_gradients") is False else hvd.size())
        close(first, numpy.ones([2, 2]) * (own_value if local else shared), 1e-2)
        close(second, numpy.ones([2, 3]) * shared, 1e-2)
    tape, loss = tape_of([tf.Variable(1.0)])
    assert "layers of Keras" in raises(ValueError, hvd.PartialDistributedGradientTape, tape, local_layers=["dense"])
    if sets:
        variables = made((2,))
        tape, loss = tape_of(variables)
        close(hvd.PartialDistributedGradientTape(tape, process_set=own).gradient(loss, variables)[0], numpy.ones(2) * (hvd.rank() + 1))
    remove(sets)


@check
def a_tape_reduces_in_its_process_set():
    sets, own = own_set()
    variables = made((2,))
    for make in (hvd.DistributedGradientTape, hvd.PartialDistributedGradientTape):
        for which in sets:
            tape, loss = tape_of(variables)
            close(make(tape, process_set=which).gradient(loss, variables)[0], numpy.ones(2) * (hvd.rank() + 1))
        tape, loss = tape_of(variables)
        tape = make(tape, process_set=hvd.ProcessSet([0]))
        assert "is not registered" in raises(ValueError, tape.gradient, loss, variables)
    tape, loss = tape_of(variables)
    tape = hvd._DistributedGradientTape(tape._tape, "", "", hvd.Compression.none, False, hvd.Average, 1.0, None,
                                        process_set=hvd.ProcessSet([0]))
    raises(ValueError, tape.gradient, loss, variables)
    assert own.size() == 1 or hvd.size() == 1
    remove(sets)


@check
def many_gradients_are_reduced_eagerly():
    """As a group, whose names stay the same from step to step, and whose types may differ."""
    variables = [tf.Variable(tf.ones([i % 5 + 1], tf.float64 if i % 3 else tf.float32)) for i in range(100)]
    for _ in range(3):
        tape, loss = tape_of(variables)
        for variable, gradient in zip(variables, hvd.DistributedGradientTape(tape).gradient(loss, variables)):
            close(gradient, numpy.ones(variable.shape) * mean())
    reduce = hvd._make_allreduce_grads_fn("made", "", "", hvd.Compression.none, False, hvd.Sum, 1.0, None, hvd.global_process_set)
    gradients = [None, mine(), slices([0]), None, tf.ones([2])]
    reduced = reduce(gradients, [None] * 5)
    assert reduced[0] is reduced[3] is None
    same(reduced[1], total())
    close(dense(reduced[2])[0], [hvd.size()] * 2)
    assert reduce([None]) == [None] and reduce([]) == []


@check
def another_number_of_gradients_on_a_rank_is_an_error_on_all():
    if hvd.size() == 1:
        return
    reduce = reductions.Gradients("differing")
    count = 3 if hvd.rank() else 4
    text = raises(tf.errors.FailedPreconditionError, reduce, [mine()] * count, [None] * count)
    assert "Mismatched number of tensors in group" in text, text
    assert "need the variables" in raises(ValueError, reductions.Gradients("x", groups=[[tf.Variable(1.0)]]), [mine()])


@check
def without_the_reduction_gradients_differ():
    """The same comparison fails if nothing is reduced."""
    if hvd.size() == 1:
        return
    one, group = reductions._allreduce, reductions._grouped_allreduce
    reductions._allreduce = reductions._grouped_allreduce = lambda tensors, *_, **__: tensors
    try:
        raises(AssertionError, a_tape_averages_gradients)
    finally:
        reductions._allreduce, reductions._grouped_allreduce = one, group
    assert numbers(mine()).shape == of_all().shape[1:]
