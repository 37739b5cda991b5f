"""Checks of functions that XLA compiles."""
import numpy
import tensorflow as tf
from checks import check, raises
from tensors import close, mine, of_all, same, slices, total

import horovod.tensorflow as hvd
from horovod.common.exceptions import HorovodInternalError


@check
def compiled_functions_reduce_tensors_and_groups():
    @tf.function(jit_compile=True)
    def reduce(x):
        return (hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(x * 2, name="given"), hvd.grouped_allreduce([x, tf.cast(x, tf.float64)],
                                                                                                        op=hvd.Sum))

    for _ in range(3):
        one, average, group = reduce(mine())
        same(one, total())
        close(average, of_all().mean(0) * 2)
        same(group[0], total())
        same(group[1], total(), tf.float64)


@check
def a_tape_reduces_in_a_compiled_function():
    variables = [tf.Variable(tf.ones([2, 3])), tf.Variable(tf.ones([4], tf.float64)), tf.Variable(1.0)]
    for options in ({}, {"groups": 2}, {"compression": hvd.Compression.fp16}, {"gradient_predivide_factor": 2.0}):
        @tf.function(jit_compile=True)
        def gradients(options=options):
            with tf.GradientTape() as tape:
                loss = tf.add_n([tf.cast(tf.reduce_sum(variable), tf.float32) for variable in variables]) * (hvd.rank() + 1)
            return hvd.DistributedGradientTape(tape, **options).gradient(loss, variables)

        for gradient, variable in zip(gradients(), variables):
            close(gradient, numpy.ones(variable.shape) * (hvd.size() + 1) / 2, 1e-3)


@check
def slices_are_reduced_as_dense_tensors_in_a_compiled_function():
    expected = numpy.zeros([hvd.size() + 1, 2])
    expected[:-1] += 1
    expected[-1] += hvd.size()

    @tf.function(jit_compile=True)
    def reduce():
        given = slices([hvd.rank(), hvd.size()], n=hvd.size() + 1)
        return (hvd.allreduce(given, op=hvd.Sum), hvd.allreduce(given, prescale_factor=2.0),
                hvd.grouped_allreduce([given, mine()], op=hvd.Sum, compression=hvd.Compression.fp16))

    one, average, group = reduce()
    close(one, expected)
    close(average, expected * 2 / hvd.size())
    close(group[0], expected)
    close(group[1], total(), 1e-3)
    for op, word in ((hvd.Adasum, "Adasum"), (hvd.Min, "summed and averaged")):
        for call, given in ((hvd.allreduce, slices([0])), (hvd.grouped_allreduce, [slices([0])])):
            if op != hvd.Adasum or not hvd.size() & (hvd.size() - 1):
                assert word in raises(NotImplementedError, tf.function(call, jit_compile=True), given, op=op)


@check
def a_tape_reduces_the_gradient_of_a_lookup_in_a_compiled_function():
    table, weight = tf.Variable(tf.ones([hvd.size() + 1, 2])), tf.Variable(1.0)
    expected = numpy.zeros([hvd.size() + 1, 2])
    expected[:-1] = 1 / hvd.size()
    expected[-1] = 1
    for options in ({}, {"groups": 1}, {"groups": 2}, {"sparse_as_dense": True}, {"gradient_predivide_factor": 2.0}):
        @tf.function(jit_compile=True)
        def gradients(options=options):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, [hvd.rank(), hvd.size()])) + weight * (hvd.rank() + 1)
            return hvd.DistributedGradientTape(tape, **options).gradient(loss, [table, weight])

        of_table, of_weight = gradients()
        close(of_table, expected)
        close(of_weight, (hvd.size() + 1) / 2)


@check
def a_gradient_passes_through_a_compiled_allreduce():
    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum) * x)
        return tape.gradient(loss, x)

    close(gradient(mine()), total() + total())


@check
def what_cannot_be_compiled_says_so():
    calls = {"Allgather": (hvd.allgather, mine()), "GroupedAllgather": (hvd.grouped_allgather, [mine()]),
             "Broadcast": (hvd.broadcast, mine(), 0), "Alltoall": (hvd.alltoall, mine()), "Reducescatter": (hvd.reducescatter, mine()),
             "GroupedReducescatter": (hvd.grouped_reducescatter, [mine()]), "Rank": (hvd.rank_op,), "Size": (hvd.size_op,),
             "LocalRank": (hvd.local_rank_op,), "LocalSize": (hvd.local_size_op,), "ProcessSetIncluded": (hvd.process_set_included_op,),
             "Join": (hvd.join,)}
    for kind, (call, *arguments) in calls.items():
        text = raises(NotImplementedError, tf.function(call, jit_compile=True), *arguments)
        assert f"Horovod{kind} " in text and "jit_compile=False" in text, text


@check
def what_a_rank_refuses_while_it_compiles_the_others_get():
    if hvd.size() == 1:
        return
    reduce = tf.function(lambda x: hvd.allreduce(x, name="compiled"), jit_compile=True)
    if hvd.rank() == hvd.size() - 1:
        assert "complex64 is not supported" in raises(ValueError, reduce, tf.complex(1.0, 1.0))
    else:
        raises(tf.errors.OpError, reduce, 1.0)
    assert float(reduce(1.0)) == 1.0
    group = tf.function(lambda x: hvd.grouped_allreduce([1.0, tf.constant(1, tf.int32), x], name="compiled"), jit_compile=True)
    if hvd.rank() == hvd.size() - 1:
        assert "complex64 is not supported" in raises(ValueError, group, tf.complex(1.0, 1.0))
    else:
        text = raises(tf.errors.OpError, group, 1.0)
        assert "tensor 3 of 3: Tensor type complex64" in text and "Mismatched" not in text, text


@check
def what_fails_in_a_compiled_function_is_an_internal_error_of_horovod():
    """So elastic.run goes on with the last commit."""
    if hvd.size() == 1:
        return
    steps, resets = tf.Variable(0, dtype=tf.int32), []
    reduce = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum, name="elastic"), jit_compile=True)
    state = hvd.elastic.TensorFlowState([steps], step=0)

    def fail():
        with hvd.elastic.internal_errors():
            reduce(tf.ones([2 + hvd.rank()]))

    assert "HOROVOD_PRECONDITION_ERROR: Mismatched" in raises(HorovodInternalError, fail)
    real, hvd.elastic._reset = hvd.elastic._reset, lambda: resets.append(1)  # without leaving this job of checks
    try:
        @hvd.elastic.run
        def train(state):
            while state.step < 3:
                state.step += 1
                steps.assign_add(1)
                close(reduce(tf.ones([2 + (hvd.rank() if state.step == 2 and not resets else 0)]))[0], hvd.size())
                state.commit()
            return state.step

        assert train(state) == 3
    finally:
        hvd.elastic._reset = real
    assert len(resets) == 1 and int(steps) == 3, (resets, steps)
    foreign = tf.errors.InternalError(None, None, "HOROVOD_PRECONDITION_ERROR is only named here")
    assert not hvd.elastic.is_ours(foreign)
