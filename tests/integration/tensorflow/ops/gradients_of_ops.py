"""Checks of the gradients of collectives, against formulas, eagerly and in functions."""
import numpy
import tensorflow as tf
from checks import check, needs_adasum
from tensors import FLOATS, close, mine, of_all, of_rank, own_set, remove, same

import horovod.tensorflow as hvd


def gradient_of(function, x, weight):
    """The gradient of sum(function(x) * weight) by x: eagerly, and in a tf.function, which have to agree."""
    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            products = [result * tf.cast(factor, result.dtype) for result, factor in zip(function(x), weight)]
            loss = tf.add_n([tf.cast(tf.reduce_sum(product), tf.float64) for product in products])
        return tape.gradient(loss, x)

    eager = compute(x)
    traced = tf.function(compute)(x)
    for one, other in zip(tf.nest.flatten(eager), tf.nest.flatten(traced)):
        close(one, other)
    return eager


def weights(shape, rank=None):
    """The factors of a rank: those of this one are the gradient that a collective's result gets here."""
    return of_rank(hvd.rank() if rank is None else rank, shape=shape).numpy() * 0.5


def all_weights(shape):
    return numpy.stack([weights(shape, rank) for rank in range(hvd.size())])


@check
def the_gradient_of_an_allreduce_is_one():
    shape = (2, 3)
    for dtype in FLOATS:
        gradient = gradient_of(lambda x: [hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)], mine(dtype),
                               [weights(shape)])
        assert gradient.dtype == dtype
        close(gradient, all_weights(shape).sum(0))
    close(gradient_of(lambda x: [hvd.allreduce(x)], mine(), [weights(shape)]), all_weights(shape).mean(0))
    gradients = gradient_of(lambda x: hvd.grouped_allreduce(x, op=hvd.Sum), [mine(), mine(tf.float64, (4,))],
                            [weights(shape), weights((4,))])
    close(gradients[0], all_weights(shape).sum(0))
    close(gradients[1], all_weights((4,)).sum(0))
    assert gradients[1].dtype == tf.float64


@check
def an_unused_member_of_a_group_gets_zeros():
    gradients = gradient_of(lambda x: hvd.grouped_allreduce(x, op=hvd.Sum)[:1], [mine(), mine()], [weights((2, 3))])
    close(gradients[0], all_weights((2, 3)).sum(0))
    close(gradients[1], numpy.zeros([2, 3]))


@check
def the_gradient_of_compressed_tensors_is_compressed():
    close(gradient_of(lambda x: [hvd.allreduce(x, compression=hvd.Compression.fp16)], mine(), [weights((2, 3))]),
          all_weights((2, 3)).mean(0), 1e-2)


@check
def the_gradient_of_an_allgather_is_this_ranks_part_of_the_average():
    rows = [rank + 1 for rank in range(hvd.size())]
    place = sum(rows[:hvd.rank()])
    shape = (sum(rows), 2)
    expected = all_weights(shape).mean(0)[place:place + hvd.rank() + 1]
    close(gradient_of(lambda x: [hvd.allgather(x)], mine(shape=(hvd.rank() + 1, 2)), [weights(shape)]), expected)
    even = (2 * hvd.size(), 3)
    gradients = gradient_of(hvd.grouped_allgather, [mine(shape=(hvd.rank() + 1, 2)), mine(tf.float64)], [weights(shape), weights(even)])
    close(gradients[0], expected)
    close(gradients[1], all_weights(even).mean(0)[2 * hvd.rank():2 * hvd.rank() + 2])


@check
def the_gradient_of_a_broadcast_is_the_roots():
    for root in range(hvd.size()):
        expected = all_weights((2, 3)).mean(0) * (hvd.rank() == root)
        close(gradient_of(lambda x, root=root: [hvd.broadcast(x, root)], mine(), [weights((2, 3))]), expected)


@check
def the_gradient_of_an_alltoall_goes_back():
    size = hvd.size()
    splits = [rank + 1 for rank in range(size)]
    sent = mine(shape=(sum(splits) + 2, 2))  # two rows more than are sent
    received = (size * (hvd.rank() + 1), 2)
    gradient = gradient_of(lambda x: hvd.alltoall(x, splits)[:1], sent, [weights(received)])
    parts = [weights((size * (rank + 1), 2), rank)[hvd.rank() * (rank + 1):(hvd.rank() + 1) * (rank + 1)] for rank in range(size)]
    close(gradient, numpy.concatenate([*parts, numpy.zeros([2, 2])]))
    close(gradient_of(lambda x: [hvd.alltoall(x)], mine(shape=(size, 2)), [weights((size, 2))]),
          all_weights((size, 2))[:, hvd.rank()])


@check
def the_gradient_of_a_reducescatter_is_an_allgather():
    size, shape = hvd.size(), (2, 3)
    gathered = numpy.concatenate(list(all_weights(shape)))
    full = mine(shape=(2 * size, 3))
    close(gradient_of(lambda x: [hvd.reducescatter(x)], full, [weights(shape)]), gathered)
    close(gradient_of(lambda x: [hvd.reducescatter(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)], full, [weights(shape)]),
          gathered * size * 0.5)
    gradients = gradient_of(lambda x: hvd.grouped_reducescatter(x, op=hvd.Sum), [full, tf.cast(full, tf.float64)], [weights(shape)] * 2)
    close(gradients[0], gathered * size)
    close(gradients[1], gathered * size)


@check
def gradients_stay_in_their_process_set():
    sets, own = own_set()
    close(gradient_of(lambda x: [hvd.allreduce(x, process_set=own)], mine(), [weights((2, 3))]), weights((2, 3)))
    close(gradient_of(lambda x: [hvd.allgather(x, process_set=own)], mine(), [weights((2, 3))]), weights((2, 3)))
    close(gradient_of(lambda x: [hvd.reducescatter(x, process_set=own, op=hvd.Sum)], mine(), [weights((2, 3))]), weights((2, 3)))
    close(gradient_of(lambda x: [hvd.broadcast(x, hvd.rank(), process_set=own)], mine(), [weights((2, 3))]), weights((2, 3)))
    close(gradient_of(lambda x: [hvd.alltoall(x, process_set=own)], mine(), [weights((2, 3))]), weights((2, 3)))
    remove(sets)


@check
def slices_of_a_result_have_gradients_too():
    with tf.GradientTape() as tape:
        x = mine(shape=(4, 2))
        tape.watch(x)
        loss = tf.reduce_sum(tf.gather(hvd.allreduce(x, op=hvd.Sum), [1, 1]))
    close(tape.gradient(loss, x), numpy.array([[0, 0], [2, 2], [0, 0], [0, 0]]) * hvd.size())


@check
def reduced_slices_have_gradients():
    with tf.GradientTape() as tape:
        values = mine(shape=(hvd.rank() + 1, 2))
        tape.watch(values)
        reduced = hvd.allreduce(tf.IndexedSlices(values, tf.zeros([hvd.rank() + 1], tf.int32), tf.constant([3, 2])), op=hvd.Sum)
        loss = tf.reduce_sum(reduced.values)
    close(tape.gradient(loss, values), numpy.ones([hvd.rank() + 1, 2]))


@check
def second_derivatives_pass_through():
    with tf.GradientTape() as outer:
        x = tf.constant(3.0)
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = hvd.allreduce(x ** 3, op=hvd.Sum)
        first = inner.gradient(y, x)
    close(first, 27.0 * hvd.size())
    close(outer.gradient(first, x), 18.0 * hvd.size() * hvd.size() / hvd.size())


@check
def gradients_of_a_function_are_named_alike_on_all_ranks():
    """TensorFlow numbers the functions of gradients, branches and loops, and one rank has traced more of them."""
    if hvd.rank() == 0:
        tf.function(lambda x: tf.cond(x > 0, lambda: x, lambda: -x))(tf.constant(1.0))

    @tf.function
    def reduce(x):
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.cond(x[0] > 0, lambda: hvd.allreduce(x, op=hvd.Sum), lambda: hvd.allreduce(-x, op=hvd.Sum))
        return y + inner.gradient(y, x)

    with tf.GradientTape() as tape:
        x = tf.ones([2])
        tape.watch(x)
        y = reduce(x)
    close(y, numpy.ones(2) * 2 * hvd.size())
    close(tape.gradient(y, x), numpy.ones(2) * hvd.size())


@check
def gradients_exist_in_graphs_of_tensorflow_1():
    values, factors = mine().numpy(), weights((2, 3))
    expected = all_weights((2, 3)).sum(0) + 2 * values
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant(values)
        loss = tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum) * factors) + tf.reduce_sum(hvd.allgather(x) ** 2)
        gradient = session.run(tf.compat.v1.gradients(loss, x)[0])
    close(gradient, expected)


@check
def adasum_of_equal_gradients_is_that_gradient():
    needs_adasum()
    close(gradient_of(lambda x: [hvd.allreduce(x, op=hvd.Adasum)], mine(), [numpy.ones([2, 3])]), numpy.ones([2, 3]))


@check
def whole_numbers_have_none():
    with tf.GradientTape() as tape:
        x = tf.Variable(2.0)
        y = x * tf.cast(hvd.allreduce(tf.constant(3), op=hvd.Sum) + hvd.rank_op() - hvd.rank(), tf.float32)
    same(tape.gradient(y, x), 3.0 * hvd.size())
    assert of_all().shape[0] == hvd.size()
