"""Checks of allreduces in functions that XLA compiles."""
import numpy
import tensorflow as tf
from checks import check, raises
from kernels_calls import rank, same, size

import horovod.numpy
from horovod.tensorflow import library, xla

SUM = {"op": horovod.numpy.Sum}


@check
def compiled_functions_reduce_tensors_and_groups():
    @tf.function(jit_compile=True)
    def reduce(mine):
        assert xla.is_compiling()
        once = xla.allreduce(mine * 2, name="compiled", **SUM)
        xla.allreduce(mine, name="unused", **SUM)
        half = xla.allreduce(once, name="a name", prescale_factor=0.5, op=horovod.numpy.Average)
        nothing = xla.allreduce(mine, postscale_factor=0.0, **SUM)
        group = xla.grouped_allreduce([mine, once, tf.cast(mine, tf.float64), mine[0, 0], mine[:0]], name="group", **SUM)
        return once, half, nothing, *group

    assert not xla.is_compiling()
    total = numpy.arange(6.0).reshape(2, 3) * size() * (size() + 1) / 2
    mine = tf.reshape(tf.range(6.0), [2, 3]) * (rank() + 1)
    for _ in range(3):
        results = reduce(mine)
        for result, expected in zip(results, (2 * total, total, 0 * total, total, 2 * size() * total, total, total[0, 0], total[:0])):
            same(result, expected)
        assert results[5].dtype == tf.float64


@check
def the_calls_of_a_compiled_function_run_in_its_order():
    @tf.function(jit_compile=True)
    def reduce(tensors):
        return [xla.allreduce(tensor * 2, name=f"ordered.{i}", **SUM) for i, tensor in enumerate(tensors)]

    tensors = [tf.fill([1000 * (i % 3) + 1], float(i)) for i in range(30)]
    for _ in range(5):
        for i, result in enumerate(reduce(tensors)):
            same(result, numpy.full(result.shape, 2.0 * i * size()))


@check
def the_gradient_of_a_compiled_allreduce_is_reduced():
    @tf.function(jit_compile=True)
    def gradients(mine):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(mine)
            one = tf.reduce_sum(xla.allreduce(mine, name="forward", **SUM) * (rank() + 1))
            group = tf.reduce_sum(xla.grouped_allreduce([mine, mine], name="forwards", op=horovod.numpy.Average)[1] * (rank() + 1))
        return tape.gradient(one, mine), tape.gradient(group, mine)

    one, group = gradients(tf.ones([3]))
    same(one, numpy.full([3], size() * (size() + 1) / 2))
    same(group, numpy.full([3], (size() + 1) / 2))


@check
def a_compiled_allreduce_that_fails_raises_on_all_ranks():
    @tf.function(jit_compile=True)
    def reduce(mine):
        return xla.allreduce(mine, name="mismatch", **SUM), mine

    @tf.function(jit_compile=True)
    def reduce_group(mine):
        return xla.grouped_allreduce([mine, mine], name="mismatches", **SUM)

    if size() == 1:
        return
    for function in (reduce, reduce_group, reduce):
        text = raises(tf.errors.InternalError, function, tf.ones([rank() + 1]))
        assert "HOROVOD_PRECONDITION_ERROR: Mismatched ALLREDUCE tensor shapes" in text, text
    for result in reduce_group(tf.ones([2])):
        same(result, [size(), size()])


@check
def shapes_that_are_not_known_are_refused():
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
    def reduce(mine):
        return xla.allreduce(mine, name="any", **SUM)

    text = raises(ValueError, reduce, tf.ones([2]))
    assert "tensors of a known shape" in text and "jit_compile=False" in text, text


@check
def compiled_and_other_calls_meet():
    @tf.function(jit_compile=True)
    def compiled(mine):
        return xla.allreduce(mine, name="meeting", **SUM)

    if rank() % 2:
        same(compiled(tf.ones([4])), [size()] * 4)
    else:
        result = library.ops.horovod_allreduce(tf.ones([4]), reduce_op=horovod.numpy.Sum, prescale_factor=1.0, postscale_factor=1.0,
                                               tensor_name="meeting")
        same(result, [size()] * 4)


@check
def a_set_of_ranks_reduces_in_a_compiled_function():
    ranks = horovod.numpy.add_process_set([0, size() - 1]) if size() > 2 else horovod.numpy.global_process_set

    @tf.function(jit_compile=True)
    def reduce(mine, among):
        return xla.allreduce(mine, name="members", process_set=among, **SUM)

    if ranks.included():
        same(reduce(tf.fill([2], float(rank())), ranks), [size() - 1] * 2)
    if size() > 2:
        assert horovod.numpy.remove_process_set(ranks)
    assert "is not registered" in raises(ValueError, reduce, tf.zeros([3]), horovod.numpy.ProcessSet([0]))
